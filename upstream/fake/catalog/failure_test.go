package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// resting is a table as far as a job that failed has to bring it back.
func resting(t *testing.T, c *Catalog, name string) string {
	t.Helper()
	info := c.Table("d0", name)
	if info == nil {
		t.Fatalf("no table %s", name)
	}
	out := info.clone()
	out.UpdateTS, out.Revision, out.MaxColumnID, out.MaxIndexID, out.MaxConstraintID = 0, 0, 0, 0, 0
	if len(out.Constraints) == 0 {
		out.Constraints = nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A job that meets a duplicate, or a value that does not fit, turns round, undoes
// what it has done and ends as rolled back, from whatever step it is at.
func TestJobsThatFailAreUndone(t *testing.T) {
	for _, sql := range []string{
		"alter table t0 add column c int",
		"alter table t0 add index x(b)",
		"alter table t0 add unique index x(b, a)",
		"alter table t0 add index x((a+1))",
		"alter table t1 add unique index x(id, b)",
		"alter table t1 add primary key (id) nonclustered",
		"alter table t0 modify column b varchar(5)",
		"alter table t0 modify column b int",
		"alter table t0 modify column a varchar(10) not null first",
		"alter table t0 modify column a int not null",
		"alter table t0 add constraint k check (a > 0)",
		"alter table t1 exchange partition p0 with table t2",
		"alter table t1 reorganize partition p0 into (partition x values less than (5), partition y values less than (10))",
		"alter table t1 partition by hash(id) partitions 3",
		"alter table t1 remove partitioning",
		"alter table t0 add column c int, add unique index x(b)",
		"alter table t0 add column c int, drop column d, add column e int",
		"alter table t0 modify column b int, add index x(a, d)",
		"alter table t0 add index x(b), rename index a to aa, add unique index y(a, b)",
	} {
		steps := failAt(t, sql, -1)
		failed := 0
		for at := range steps {
			if failAt(t, sql, at) < 0 {
				failed++
			}
		}
		if failed < 2 {
			t.Errorf("%s: only %d of %d steps could fail", sql, failed, steps)
		}
	}
}

// failAt runs a statement and makes its job fail after so many steps, -1 for
// never. It returns the number of steps of a job that did not fail, else -1.
func failAt(t *testing.T, sql string, at int) int {
	t.Helper()
	b := newBench(t, small()...)
	before := map[string]string{}
	tables := []string{"t0", "t1", "t2"}
	for _, name := range tables {
		before[name] = resting(t, b.c, name)
	}
	jobs, err := b.c.Plan(sql, b.session())
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%s: %d jobs, %v", sql, len(jobs), err)
	}
	j := jobs[0]
	var states []JobState
	failed := false
	for !j.Ended() {
		if len(states) == at {
			was := j.Info().State
			failed = j.Fail(1062, "Duplicate entry") == nil
			if failed && j.Fail(1062, "Duplicate entry") == nil {
				t.Errorf("%s: the job failed twice", sql)
			}
			if was == JobDone && failed {
				t.Errorf("%s: a job that is done fails", sql)
			}
		}
		states = append(states, b.next(j).Job.State)
		if len(states) > 100 {
			t.Fatalf("%s failed after %d steps: the job does not end: %v", sql, at, states)
		}
	}
	what := fmt.Sprintf("%s failed after %d steps: states %v", sql, at, states)
	info := j.Info()
	if !failed {
		if info.State != JobSynced || info.Err != nil {
			t.Errorf("%s: %+v", what, info.Err)
		}
		return len(states)
	}
	checkUndone(t, what, states, info)
	for _, name := range tables {
		if got := resting(t, b.c, name); got != before[name] {
			i := 0
			for i < min(len(got), len(before[name])) && got[i] == before[name][i] {
				i++
			}
			from := max(0, i-60)
			t.Errorf("%s: %s is left behind as\n%.160s\nand was\n%.160s", what, name, got[from:], before[name][from:])
		}
	}
	if _, err := b.run("alter table t0 add column after_it int, add index after_it(after_it)"); err != nil {
		t.Errorf("%s: after it: %v", what, err)
	}
	return -1
}

func checkUndone(t *testing.T, what string, states []JobState, info JobInfo) {
	t.Helper()
	last := states[len(states)-1]
	switch {
	case info.Err == nil || info.Err.Code != 1062:
		t.Errorf("%s: the error is %+v", what, info.Err)
	case last != JobRollbackDone && last != JobCancelled:
		t.Errorf("%s", what)
	case (last == JobCancelled) == slices.Contains(states, JobRunning):
		t.Errorf("%s: cancelled is what never ran", what)
	}
	order := []JobState{JobQueueing, JobRunning, JobRollingback, JobRollbackDone, JobCancelled}
	for i := 1; i < len(states); i++ {
		if slices.Index(order, states[i]) < slices.Index(order, states[i-1]) {
			t.Errorf("%s: a state comes back", what)
		}
	}
}
