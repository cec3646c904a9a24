package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/verify"
)

// Past is what a changefeed at a moment has of a cluster: the rows as they stood, by
// the schema that counts then. A job counts as a whole, from its switch-ts on: what it
// has done to the metadata before that is not seen, and what it does after it is seen
// already. Whose a version of the metadata is, its transaction tells: each step of a
// job writes the job's row too.
type Past struct {
	store mvcc.Snapshot
	lives map[tso.TS]*life // jobs by the start-ts of each of their transactions
	all   []*life
}

// life is what became of a job.
type life struct {
	job      *schema.Job // as it was written last
	switchTS tso.TS      // 0: it has not switched
	done     bool        // it came to a good end
	over     bool        // it came to an end
}

// counts tells whether the job is part of the schema at a moment.
func (l *life) counts(at tso.TS) bool { return l.done && l.switchTS <= at }

// NewPast reads the jobs of a cluster's data.
func NewPast(store mvcc.Snapshot) (*Past, error) {
	p := &Past{store: store, lives: map[tso.TS]*life{}}
	start := span.RecordPrefix(mount.JobTableID)
	end := append(start[:len(start)-1:len(start)-1], start[len(start)-1]+1)
	for _, key := range p.keys(start, end) {
		if err := p.read(key); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// keys are those of a range that were ever written.
func (p *Past) keys(start, end []byte) (keys [][]byte) {
	p.store.History(start, end, 0, func(ch mvcc.Change) bool {
		if n := len(keys); n == 0 || !bytes.Equal(keys[n-1], ch.Key) {
			keys = append(keys, ch.Key)
		}
		return true
	})
	return keys
}

// read follows one job through the rows of its life.
func (p *Past) read(key []byte) error {
	l := &life{}
	for _, v := range p.store.Versions(key) {
		if v.Op != mvcc.Put {
			if v.Op == mvcc.Delete && !l.over {
				return fmt.Errorf("key %X: the row of a job is gone at %d, and none has said how it ended", key, v.CommitTS)
			}
			continue
		}
		row, ok, err := mount.JobRow(&event.RawKV{Op: event.Put, StartTS: v.StartTS, CommitTS: v.CommitTS, Key: key, Value: v.Value})
		if err != nil || !ok {
			return errors.Join(fmt.Errorf("key %X at %d is no job's row", key, v.CommitTS), err)
		}
		l.job, l.over, p.lives[v.StartTS] = row.Job, false, l
		switch row.Job.State {
		case schema.StateDone, schema.StateSynced:
			l.done, l.over = true, true
		case schema.StateRollbackDone, schema.StateCancelled:
			l.over = true
		}
		if l.switchTS == 0 && (l.done || p.switches(&row)) {
			l.switchTS = v.CommitTS
		}
	}
	if l.job != nil {
		p.all = append(p.all, l)
	}
	return nil
}

// switches tells whether TiDB's writers use the job's shape from this step on, although
// it runs still: docs/design/0002-switch-ts.md.
func (p *Past) switches(row *schema.JobRow) bool {
	j := row.Job
	if j.State != schema.StateRunning {
		return false
	}
	among := func(states ...int) bool { return slices.Contains(states, j.SchemaState) }
	switch j.Type {
	case event.ActionModifyColumn, event.ActionRenameTable, event.ActionRenameTables:
		return among(schema.SchemaPublic)
	case event.ActionMultiSchemaChange:
		return j.Binlog.TableInfo != nil
	case event.ActionTruncatePartition, event.ActionDropPartition:
		return among(schema.SchemaDeleteOnly, schema.SchemaDeleteReorg)
	case event.ActionReorganizePartition, event.ActionAlterPartitioning, event.ActionRemovePartitioning:
		return among(schema.SchemaDeleteReorg, schema.SchemaPublic)
	case event.ActionDropIndex, event.ActionDropPrimaryKey:
		return among(schema.SchemaWriteOnly, schema.SchemaDeleteOnly, schema.SchemaDeleteReorg) && p.hidesUnique(row)
	}
	return false
}

// hidesUnique tells whether a step has left a unique index of its table out of sight.
func (p *Past) hidesUnique(row *schema.JobRow) (hides bool) {
	start, end := schema.TablesRange(row.Job.SchemaID)
	for _, key := range p.keys(start, end) {
		if k, ok := schema.ParseMetaKey(key); !ok || k.TableID != row.Job.TableID {
			continue
		}
		for _, v := range p.store.Versions(key) {
			if v.StartTS != row.StartTS || v.Op != mvcc.Put {
				continue
			}
			info, err := schema.ParseTableInfo(v.Value)
			if err != nil {
				return false // whoever reads the table says so
			}
			hides = slices.ContainsFunc(info.Indexes, func(x schema.IndexInfo) bool { return x.State != schema.SchemaPublic && (x.Unique || x.Primary) })
		}
	}
	return hides
}

// standing is what counts under a key of the metadata at a moment; nil where nothing does.
func (p *Past) standing(key []byte, at tso.TS) (value []byte, failed error) {
	if found, ok := p.store.Get(key, mvcc.Read{At: at}); ok && found.Locked != nil {
		return nil, fmt.Errorf("key %X is locked at %d", key, at)
	}
	for _, v := range p.store.Versions(key) {
		l := p.lives[v.StartTS]
		switch {
		case !v.Op.Data(), l == nil && v.CommitTS > at, l != nil && !l.counts(at):
		case v.Op == mvcc.Put:
			value = v.Value
		default:
			value = nil
		}
	}
	return value, nil
}

// At fills in what a changefeed at a moment has.
func (p *Past) At(at tso.TS, wanted *filter.Filter, into *verify.Expected) (tables []*event.Table, failed error) {
	into.EndTS = at
	if into.Databases, tables, failed = p.Schema(at, wanted); failed != nil {
		return nil, failed
	}
	for _, t := range tables {
		w, err := tableAt(p.store, t, at)
		if err != nil {
			return nil, err
		}
		into.Tables = append(into.Tables, w)
	}
	return tables, nil
}

// Schema is what a changefeed at a moment knows of databases and tables. A job that has
// switched by then and of which nobody can know how it will end is an error: until that
// is known no changefeed's resolved-ts passes the switch.
func (p *Past) Schema(at tso.TS, wanted *filter.Filter) (databases []string, tables []*event.Table, failed error) {
	for _, l := range p.all {
		if l.switchTS != 0 && l.switchTS <= at && !l.over {
			return nil, nil, fmt.Errorf("nobody is at %d: job %d, %s, has switched at %d, and its end is not known", at, l.job.ID, l.job.Named(), l.switchTS)
		}
	}
	known := map[int64]*schema.DBInfo{}
	start, end := schema.DatabasesRange()
	failed = p.each(start, end, at, func(k schema.MetaKey, value []byte) error {
		db, err := schema.ParseDBInfo(value)
		if err == nil && wanted.Schema(db.Name.O) {
			known[k.SchemaID] = db
			databases = append(databases, db.Name.O)
		}
		return err
	})
	if failed != nil {
		return nil, nil, failed
	}
	start, end = schema.AllTablesRange()
	failed = p.each(start, end, at, func(k schema.MetaKey, value []byte) error {
		db := known[k.SchemaID]
		if db == nil || k.TableID == 0 {
			return nil
		}
		info, err := schema.ParseTableInfo(value)
		if err != nil {
			return err
		}
		t, err := info.Table(db, time.UTC)
		tables = append(tables, t)
		return err
	})
	return databases, tables, failed
}

// each reads the metadata of a range at a moment.
func (p *Past) each(start, end []byte, at tso.TS, fn func(k schema.MetaKey, value []byte) error) error {
	for _, key := range p.keys(start, end) {
		k, ok := schema.ParseMetaKey(key)
		if !ok {
			continue
		}
		value, err := p.standing(key, at)
		if err == nil && value != nil {
			err = fn(k, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
