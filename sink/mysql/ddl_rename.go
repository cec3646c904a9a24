package mysql

import (
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// rename writes one RENAME TABLE for all tables of a job, from their names
// before and after: those are right whatever database the session was in. The
// tables come in the order of the statement, so a swap over a third name stays
// one; where a name is still taken at its turn (the job tells only the result),
// the table waits under a name of this sink's.
func (s *script) rename(d *event.DDL, dialect Dialect) error {
	fold := func(t *event.Table) string { return strings.ToLower(qualified(t.Schema, t.Name)) }
	holder := map[string]int64{} // by name: the table that has it, step by step
	placed := map[int64]bool{}
	for _, c := range d.Tables {
		if c.Before == nil || c.After == nil {
			return cdcerr.Bug("job %d renames a table that is not there before or after: %s", d.JobID, d.Query)
		}
		if !placed[c.Before.ID] {
			placed[c.Before.ID] = true
			holder[fold(c.Before)] = c.Before.ID
		}
	}
	var steps, late []string
	for i, c := range d.Tables {
		if c.Before.Kind == event.TemporaryTable && dialect.Kind != TiDB {
			s.note(FeatureTemporary, c.Before.FullName())
			continue
		}
		from, to := qualified(c.Before.Schema, c.Before.Name), qualified(c.After.Schema, c.After.Name)
		delete(holder, fold(c.Before))
		if other, taken := holder[fold(c.After)]; taken && other != c.Before.ID {
			wait := qualified(c.After.Schema, "_sluice_"+strconv.FormatInt(d.JobID, 10)+"_"+strconv.Itoa(i))
			steps = append(steps, from+" TO "+wait)
			late = append(late, wait+" TO "+to)
			continue
		}
		holder[fold(c.After)] = c.Before.ID
		steps = append(steps, from+" TO "+to)
	}
	if steps = append(steps, late...); len(steps) > 0 {
		s.add("RENAME TABLE " + strings.Join(steps, ", "))
	}
	return nil
}
