package schema_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// moment is the truth after one commit that changed databases or tables.
type moment struct {
	ts     tso.TS
	tables map[int64]*event.Table
}

// replay runs a recording through the store, with the m keys beside it.
type replay struct {
	rec     *recording
	store   *schema.Store
	meta    *metaState
	moments []moment
	ddls    []*event.DDL
	running map[tso.TS][]*schema.Job // jobs that had begun and not ended, by moment
	history metaHistory
	shapes  shapes
}

// metaHistory is what a read of one database's tables at a moment finds.
type metaHistory map[tso.TS]map[int64][]*schema.TableInfo

// run takes the rows in commit order. The resolved-ts follows each commit, or
// with coarse true comes once, at the end.
func run(t *testing.T, path string, coarse bool) *replay {
	t.Helper()
	rec := loadRecording(t, path)
	r := &replay{
		rec: rec, store: schema.NewStore(rec.start), meta: newMetaState(),
		running: map[tso.TS][]*schema.Job{}, history: metaHistory{}, shapes: shapes{},
	}
	for i := range rec.meta {
		r.meta.put(&rec.meta[i])
	}
	if err := r.meta.load(r.store); err != nil {
		t.Fatal(err)
	}
	jobs := map[int64]*schema.Job{}
	for i := 0; i < len(rec.changes); {
		ts, changed := rec.changes[i].ts, false
		for ; i < len(rec.changes) && rec.changes[i].ts == ts; i++ {
			c := &rec.changes[i]
			if r.meta.put(c) {
				changed = true
				continue
			}
			follow(jobs, *c.row)
			if err := r.store.Step(*c.row); err != nil {
				t.Fatal(err)
			}
		}
		for id := range r.meta.databases {
			if r.history[ts] == nil {
				r.history[ts] = map[int64][]*schema.TableInfo{}
			}
			r.history[ts][id] = r.meta.of(id)
		}
		if changed {
			r.moments = append(r.moments, moment{ts, r.meta.seen(t)})
			r.running[ts] = slices.Collect(maps.Values(jobs))
		}
		if !coarse {
			r.resolve(t, ts, r.history)
		}
	}
	r.resolve(t, rec.end, r.history)
	return r
}

// follow keeps the jobs that run.
func follow(jobs map[int64]*schema.Job, row schema.JobRow) {
	switch {
	case row.History, row.Delete, row.Job.State == schema.StateDone, row.Job.State == schema.StateRollbackDone:
		delete(jobs, row.Job.ID)
	default:
		jobs[row.Job.ID] = row.Job
	}
}

func (r *replay) resolve(t *testing.T, ts tso.TS, history metaHistory) {
	t.Helper()
	if err := r.store.Resolve(ts); err != nil {
		t.Fatal(err)
	}
	for {
		ready := r.store.Ready()
		for _, d := range ready.DDLs {
			if d.SwitchTS > ready.Resolved && len(ready.Reads) == 0 {
				t.Errorf("job %d at %d was handed out below resolved-ts %d", d.JobID, d.SwitchTS, ready.Resolved)
			}
		}
		r.ddls = append(r.ddls, ready.DDLs...)
		if len(ready.Reads) == 0 {
			return
		}
		for _, read := range ready.Reads {
			if err := r.store.Answer(read, history[read.At][read.SchemaID]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// doneJobs are the jobs that changed something, with the ts of their done row,
// as the recorder of the job tables saw them.
func doneJobs(t *testing.T, path string) map[int64]tso.TS {
	t.Helper()
	out := map[int64]tso.TS{}
	golden.Lines(t, path+".ddl.jsonl.gz", func(line []byte) {
		var l struct {
			CommitTS tso.TS `json:"commit_ts"`
			Table    string
			NewJob   *schema.Job `json:"new_job"`
		}
		mustJSON(t, line, &l)
		if j := l.NewJob; l.Table == "tidb_ddl_job" && j != nil && j.State == schema.StateDone && j.Binlog.SchemaVersion != 0 {
			if at, ok := out[j.ID]; ok && at != l.CommitTS {
				t.Errorf("job %d is done twice, at %d and %d", j.ID, at, l.CommitTS)
			}
			out[j.ID] = l.CommitTS
		}
	})
	return out
}

// Each job is carried out once, at the ts of its done row; each step of the
// schema falls where the m keys changed for writers; and what the store holds
// in the end is what the m keys hold.
func TestRecordings(t *testing.T) {
	for _, path := range golden.Recordings(t) {
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := run(t, path, false)
			r.checkJobs(t, doneJobs(t, path))
			r.checkSteps(t)
			r.checkEnd(t)
		})
	}
}

// The same comes out when the resolved-ts jumps over everything at once.
func TestResolvedAtOnce(t *testing.T) {
	for _, name := range []string{"11_partition", "12_ddl_table", "13_ddl_column", "21_flashback_db", "workloads/ddlstorm"} {
		fine, coarse := run(t, "../testdata/golden/"+name, false), run(t, "../testdata/golden/"+name, true)
		if len(fine.ddls) == 0 || !reflect.DeepEqual(fine.ddls, coarse.ddls) {
			t.Errorf("%s: %d DDLs one by one, %d at once, or they differ", name, len(fine.ddls), len(coarse.ddls))
		}
	}
}

func (r *replay) checkJobs(t *testing.T, want map[int64]tso.TS) {
	t.Helper()
	got, last := map[int64]bool{}, tso.TS(0)
	for _, d := range r.ddls {
		early := ""
		if d.SwitchTS != d.FinishedTS {
			early = fmt.Sprintf("  %v before", d.FinishedTS.Sub(d.SwitchTS))
		}
		t.Logf("job %4d type %2d step %d done %d%s  %.60s", d.JobID, d.Action, d.SwitchTS, d.FinishedTS, early, d.Query)
		switch {
		case got[d.JobID]:
			t.Errorf("job %d twice", d.JobID)
		case want[d.JobID] != d.FinishedTS:
			t.Errorf("job %d done at %d, the job table says %d", d.JobID, d.FinishedTS, want[d.JobID])
		case d.SwitchTS < last:
			t.Errorf("job %d steps at %d, after one at %d", d.JobID, d.SwitchTS, last)
		}
		got[d.JobID], last = true, d.SwitchTS
	}
	for id := range want {
		if !got[id] {
			t.Errorf("job %d is missing", id)
		}
	}
}

// checkSteps compares the store with the m keys after every commit that
// changed them.
func (r *replay) checkSteps(t *testing.T) {
	t.Helper()
	for _, m := range r.moments {
		have := map[int64]*event.Table{}
		for _, table := range r.store.Tables(m.ts) {
			have[table.ID] = table
		}
		want := maps.Clone(m.tables)
		r.sameBehindNewID(m.ts, have, want)
		for id := range maps.Keys(union(have, want)) {
			if why := r.differ(m.ts, have[id], want[id]); why != "" {
				t.Errorf("at %d: %s\n store  %s\n m keys %s", m.ts, why, r.shapes.of(have[id]), r.shapes.of(want[id]))
			}
		}
	}
}

// sameBehindNewID sets aside the table that is being partitioned anew: its parts
// are the new ones in both, but the m keys give it its new id in the last step.
func (r *replay) sameBehindNewID(ts tso.TS, have, want map[int64]*event.Table) {
	for _, job := range r.running[ts] {
		if job.Type != event.ActionAlterPartitioning && job.Type != event.ActionRemovePartitioning {
			continue
		}
		old := want[job.TableID]
		if old == nil || have[old.ID] != nil {
			continue
		}
		for _, table := range have {
			if want[table.ID] == nil && slices.Equal(table.PhysicalIDs(), old.PhysicalIDs()) &&
				reflect.DeepEqual(table.Columns, old.Columns) && table.FullName() == old.FullName() && r.placed(ts, table) == "" {
				delete(have, table.ID)
				delete(want, old.ID)
				break
			}
		}
	}
}

func union(a, b map[int64]*event.Table) map[int64]*event.Table {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// differ tells in what the store's table differs from the true one, unless a
// job runs whose step before the last changes nothing for rows: they lack a
// column that the store shows still, or cannot go to a table that it holds still.
func (r *replay) differ(ts tso.TS, have, want *event.Table) string {
	switch {
	case have == nil && want == nil:
		return ""
	case have == nil:
		return "the store lacks it"
	case want != nil && r.shapes.of(have) == r.shapes.of(want):
		return r.placed(ts, want)
	}
	for _, job := range r.running[ts] {
		if concerns(job, have) && harmless(job.Type, have, want) {
			return ""
		}
	}
	return "the shapes differ"
}

func concerns(job *schema.Job, table *event.Table) bool {
	switch job.Type {
	case event.ActionDropSchema:
		return job.SchemaID == table.SchemaID
	}
	return job.TableID == table.ID
}

func harmless(a event.Action, have, want *event.Table) bool {
	if want == nil {
		return a == event.ActionDropTable || a == event.ActionDropView || a == event.ActionDropSequence || a == event.ActionDropSchema
	}
	parts := reflect.DeepEqual(have.Partitions, want.Partitions)
	names := have.FullName() == want.FullName()
	return a == event.ActionDropColumn && names && parts && less(have, want)
}

// placed tells whether rows of all of the table's ids, committed just after ts,
// lead to it.
func (r *replay) placed(ts tso.TS, want *event.Table) string {
	for _, id := range want.PhysicalIDs() {
		if got, ok := r.store.TableAt(id, ts+1); !ok || r.shapes.of(got) != r.shapes.of(want) {
			return fmt.Sprintf("id %d leads to %v", id, r.shapes.of(got))
		}
	}
	return ""
}

// less tells whether want has the columns of have but for some.
func less(have, want *event.Table) bool {
	var ids []int64
	for _, c := range have.Columns {
		ids = append(ids, c.ID)
	}
	for _, c := range want.Columns {
		if !slices.Contains(ids, c.ID) {
			return false
		}
	}
	return len(want.Columns) < len(have.Columns)
}

// checkEnd holds every table to the m keys in everything that event.Table has.
func (r *replay) checkEnd(t *testing.T) {
	t.Helper()
	want := r.meta.seen(t)
	have := r.store.Tables(r.rec.end)
	if len(have) != len(want) {
		t.Errorf("%d tables in the end, %d in the m keys", len(have), len(want))
	}
	for _, table := range have {
		if other := want[table.ID]; other == nil || !reflect.DeepEqual(table, other) {
			t.Errorf("in the end\n store  %s\n m keys %s\n%s", r.shapes.of(table), r.shapes.of(other), fieldDiff(table, other))
		}
	}
}

func fieldDiff(a, b *event.Table) string {
	if a == nil || b == nil {
		return ""
	}
	var out strings.Builder
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		if x, y := va.Field(i).Interface(), vb.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			fmt.Fprintf(&out, "  %s: %+v / %+v\n", va.Type().Field(i).Name, x, y)
		}
	}
	return out.String()
}
