package schema_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// A changefeed may begin, or be resumed, at any moment, in the middle of any
// job: it sees the same steps as one that was there all the time, from its
// start-ts on.
func TestStartAnywhere(t *testing.T) {
	for name, stride := range map[string]int{
		"11_partition": 2, "12_ddl_table": 5, "13_ddl_column": 3, "14_ddl_index": 5, "21_flashback_db": 1, "workloads/ddlstorm": 61,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := run(t, "../testdata/golden/"+name, false)
			steps := whole.rec.commits()
			for i := 0; i < len(steps); i += stride {
				if t.Failed() {
					return // one start tells enough
				}
				startAt(t, whole, steps[i].Next())
			}
		})
	}
}

// commits are the commit-ts's of the recording, each once.
func (r *recording) commits() []tso.TS {
	var out []tso.TS
	for i := range r.changes {
		if n := len(out); n == 0 || out[n-1] != r.changes[i].ts {
			out = append(out, r.changes[i].ts)
		}
	}
	return out
}

func startAt(t *testing.T, whole *replay, start tso.TS) {
	t.Helper()
	r := &replay{rec: whole.rec, store: schema.NewStore(start), meta: newMetaState(), running: whole.running, shapes: whole.shapes}
	jobs := map[int64]*schema.Job{}
	rest := r.snapshot(start.Prev(), jobs)
	if err := r.meta.load(r.store); err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		if err := r.store.LoadJob(job); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rest {
		if row := rest[i].row; row != nil {
			if err := r.store.Step(*row); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.resolve(t, r.rec.end, whole.history)
	for _, m := range whole.moments {
		if m.ts >= start {
			r.moments = append(r.moments, m)
		}
	}
	r.checkSteps(t)
	var want []*event.DDL
	for _, d := range whole.ddls {
		if d.SwitchTS >= start {
			want = append(want, d)
		}
	}
	if len(want) != len(r.ddls) {
		t.Errorf("from %d: %d DDLs, want %d", start, len(r.ddls), len(want))
		return
	}
	for i, d := range r.ddls {
		if a, b := outline(d), outline(want[i]); a != b {
			t.Errorf("from %d:\n%s\nwant\n%s", start, a, b)
		}
	}
}

// snapshot reads m keys and job rows as they were at ts, and returns what follows.
func (r *replay) snapshot(at tso.TS, jobs map[int64]*schema.Job) []change {
	for i := range r.rec.meta {
		r.meta.put(&r.rec.meta[i])
	}
	for i := range r.rec.changes {
		c := &r.rec.changes[i]
		switch {
		case c.ts > at:
			return r.rec.changes[i:]
		case r.meta.put(c) || c.row.History:
		case c.row.Delete:
			delete(jobs, c.row.Job.ID)
		default:
			jobs[c.row.Job.ID] = c.row.Job
		}
	}
	return nil
}

// outline is what of a DDL must not depend on when the changefeed began. What
// a job takes away in steps before its last may be gone from the table before:
// partitions, and indexes with the key that they make.
func outline(d *event.DDL) string {
	out := fmt.Sprintf("job %d of %d switch %d finished %d schema %s query %s\n", d.JobID, d.Action, d.SwitchTS, d.FinishedTS, d.Schema, d.Query)
	for _, c := range d.Tables {
		if c.Before != nil {
			columns := map[int64]string{}
			for _, col := range c.Before.Columns {
				columns[col.ID] = col.Name
			}
			out += fmt.Sprintf("before %d %s %v\n", c.Before.ID, c.Before.FullName(), columns)
		}
		if c.After != nil {
			out += fmt.Sprintf("after %s %v\n", shape(c.After), c.After.Key)
		}
	}
	return out + fmt.Sprint(d.Conversions, d.DatabaseBefore, d.DatabaseAfter)
}

// A column that a DROP COLUMN is taking away is in the snapshot out of sight,
// and was seen until the DDL.
func TestDroppedColumnStays(t *testing.T) {
	column := func(id int64, name string, state int) schema.ColumnInfo {
		c := schema.ColumnInfo{ID: id, Name: folded(name), State: state, Offset: int(id) - 1}
		c.Type.Tp = byte(event.TypeLong)
		return c
	}
	info := &schema.TableInfo{ID: 10, Name: folded("t"), State: schema.SchemaPublic,
		Columns: []schema.ColumnInfo{column(1, "id", schema.SchemaPublic), column(2, "B", 2), column(3, "adding", 2)}}
	for _, args := range []string{`{"column_info":{"name":{"O":"b","L":"b"}}}`, `[{"O":"b","L":"b"},false]`} {
		s := schema.NewStore(100)
		s.LoadDatabase(&schema.DBInfo{ID: 1, Name: folded("app")})
		if err := s.LoadTable(1, info); err != nil {
			t.Fatal(err)
		}
		if err := s.LoadJob(&schema.Job{ID: 7, Type: event.ActionDropColumn, State: schema.StateRunning, SchemaState: 2, TableID: 10, RawArgs: []byte(args)}); err != nil {
			t.Fatal(err)
		}
		table, ok := s.TableAt(10, 101)
		if want := "10:app.t(1:id,2:B)"; !ok || brief(table) != want || len(s.Tables(99)) != 1 {
			t.Errorf("%s: %s, want %s", args, brief(table), want)
		}
	}
	if !reflect.DeepEqual(info.Columns[1].State, 2) {
		t.Error("the snapshot was changed")
	}
}
