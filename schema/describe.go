package schema

import (
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// describe is the DDL without what it did to tables and databases.
func (c *change) describe() *event.DDL {
	j := c.job
	d := &event.DDL{
		JobID:         j.ID,
		Action:        j.Type,
		StartTS:       tso.TS(j.StartTS),
		SwitchTS:      c.ts,
		FinishedTS:    c.row.CommitTS,
		SchemaVersion: j.Binlog.SchemaVersion,
		Query:         j.Query,
		Schema:        j.SchemaName,
		SQLMode:       j.SQLMode,
		Charset:       j.Charset,
		Collation:     j.Collate,
		BDRRole:       j.BDRRole,
		WriteSource:   j.WriteSource,
	}
	if d.Schema == "" {
		switch {
		case j.Binlog.DBInfo != nil:
			d.Schema = j.Binlog.DBInfo.Name.O
		case c.databases[j.SchemaID] != nil:
			d.Schema = c.databases[j.SchemaID].Name.O
		}
	}
	if j.ReorgMeta != nil && j.ReorgMeta.Location != nil {
		d.ZoneName, d.ZoneOffset = j.ReorgMeta.Location.Name, j.ReorgMeta.Location.Offset
	}
	return d
}

// conversions lists the columns that a MODIFY or CHANGE rewrote: those have a
// new id under the same name, or under the name that the statement gave them.
func conversions(j *Job, before, after *event.Table) ([]event.Conversion, error) {
	var modifies []modifyArg
	add := func(where string, args func() (modifyArg, error)) error {
		a, err := args()
		if err != nil {
			return cdcerr.InvalidDDLJob.Wrap(err, "job %d of type %d: arguments of %s", j.ID, j.Type, where)
		}
		modifies = append(modifies, a)
		return nil
	}
	switch {
	case j.Type == event.ActionModifyColumn:
		if err := add("MODIFY COLUMN", func() (modifyArg, error) { return parseModify(j.RawArgs) }); err != nil {
			return nil, err
		}
	case j.Type == event.ActionMultiSchemaChange && j.Multi != nil:
		for _, sub := range j.Multi.SubJobs {
			if sub == nil || sub.Type != event.ActionModifyColumn {
				continue
			}
			if err := add("a MODIFY COLUMN among others", func() (modifyArg, error) { return parseModify(sub.RawArgs) }); err != nil {
				return nil, err
			}
		}
	}
	var out []event.Conversion
	for _, m := range modifies {
		if from, to := m.columns(before, after); from != nil && to != nil && from.ID != to.ID {
			out = append(out, event.Conversion{TableID: after.ID, FromID: from.ID, ToID: to.ID, Name: to.Name})
		}
	}
	return out, nil
}

// columns finds the column that a MODIFY took and the one that it made. The
// arguments of a change without a rewrite are emptied at its end: then there is
// no column to find.
func (m *modifyArg) columns(before, after *event.Table) (from, to *event.Column) {
	name := m.Column.Name.O
	for i := range before.Columns {
		c := &before.Columns[i]
		if (m.OldID != 0 && c.ID == m.OldID) || (m.OldName.O != "" && strings.EqualFold(c.Name, m.OldName.O)) {
			from = c
			break
		}
	}
	if i := after.Column(name); name != "" && i >= 0 {
		to = &after.Columns[i]
	}
	return from, to
}
