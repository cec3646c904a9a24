package servers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/internal/binlog"
)

// What was carried out upstream, in the tests below.
func carriedOut() []origin.Statement {
	return []origin.Statement{
		{DB: "drill0", SQL: "CREATE TABLE t1 (id int)"},
		{DB: "drill0", SQL: "TRUNCATE TABLE t1"},
		{DB: "drill0", SQL: "ALTER TABLE t1 ADD COLUMN c2 int"},
		{DB: "drill0", SQL: "CREATE TABLE t2 (id int)"},
		{DB: "bank", SQL: "ALTER TABLE a0 ADD COLUMN c1 int"},
	}
}

func query(db, text string) binlog.Txn { return binlog.Txn{GTID: "0-1-1", Schema: db, Query: text} }

// The log shows what was lost, what ran twice and what came in another order.
func TestTheVerdictOnDDL(t *testing.T) {
	create, truncate := query("", "CREATE TABLE `drill0`.`t1` (`id` INT)"), query("drill0", "TRUNCATE TABLE `t1`")
	other := query("drill0", "CREATE TABLE t2 (id int)")
	add, bank := query("", "ALTER TABLE `drill0`.`t1` ADD COLUMN `c2` INT"), query("", "ALTER TABLE `bank`.`a0` ADD COLUMN `c1` INT")
	for want, log := range map[string][]binlog.Txn{
		"":                                       {create, query("drill0", "DROP TABLE `_sluice_twin_7`"), truncate, add, bank, other},
		"DDL run again: truncate drill0.t1, 1 ":  {create, truncate, truncate, add, bank, other},
		"DDL run again: add column drill0.t1 c2": {create, truncate, add, add, bank, other},
		"DDL lost: truncate drill0.t1, 1 times":  {create, add, bank, other},
		"DDL lost: add column bank.a0 c1":        {create, other, truncate, add},
		"DDL 1 of drill0.t1: add column":         {create, add, truncate, bank, other},
		"DDL run again: drop drill0.t1":          {create, truncate, add, bank, query("drill0", "DROP TABLE `t1`"), other},
		"in the binary log: OPTIMIZE":            {create, truncate, add, bank, query("", "OPTIMIZE drill0"), other},
	} {
		l := newLog(&Verdict{})
		if err := l.upstream(carriedOut()); err != nil {
			t.Fatal(err)
		}
		for _, x := range log {
			if err := l.take(x); err != nil {
				t.Fatal(err)
			}
		}
		l.ddl()
		if got := strings.Join(l.Wrong, "; "); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A run that has shown nothing is none, nor is one in which a server ended by itself.
func TestWhatIsNoRun(t *testing.T) {
	l := newLog(&Verdict{})
	l.ddl()
	if got := strings.Join(l.Wrong, "; "); !strings.HasPrefix(got, "there is no DDL") {
		t.Errorf("%q", got)
	}
	for _, r := range []*Result{{Verdict: l.Verdict}, {Verdict: &Verdict{}, Fell: []string{"node 1: exit status 1"}}, {Verdict: &Verdict{}, Err: errors.New("x")}} {
		if r.OK() {
			t.Errorf("%+v is taken for right", r)
		}
	}
	if r := (&Result{Verdict: &Verdict{}}); !r.OK() {
		t.Errorf("%+v is taken for wrong", r)
	}
}

// change is a change of the bank's.
func change(table string, columns []string, before, after []any) binlog.Change {
	return binlog.Change{Schema: "bank", Table: table, Columns: columns, Key: []int{0}, Before: before, After: after}
}

// A sync point's accounts are those at the transaction that brings its row.
func TestTheVerdictOnSyncPoints(t *testing.T) {
	account, point := []string{"id", "balance"}, []string{"primary_ts", "secondary_ts"}
	l := newLog(&Verdict{})
	for _, x := range []binlog.Txn{
		{GTID: "0-1-1", Changes: []binlog.Change{change("a0", account, nil, []any{int64(1), int64(900)}), change("a1", account, nil, []any{int64(2), int64(1100)})}},
		{GTID: "0-1-2", Changes: []binlog.Change{{Schema: "tidb_cdc", Table: "syncpoint_v1", Columns: point, Key: []int{0}, After: []any{"7", ""}}}},
		{GTID: "0-1-3", Changes: []binlog.Change{change("a0", account, []any{int64(1), int64(900)}, []any{int64(1), int64(800)})}},
		{GTID: "0-1-4", Changes: []binlog.Change{{Schema: "tidb_cdc", Table: "syncpoint_v1", Columns: point, Key: []int{0}, Before: []any{"7", ""}, After: []any{"7", "0-1-2"}}}},
	} {
		if err := l.take(x); err != nil {
			t.Fatal(err)
		}
	}
	whole := origin.AccountsOf(map[string]int64{"1": 900, "2": 1100})
	for _, c := range []struct {
		want     string
		upstream origin.Accounts
		points   map[string]string
	}{
		{"", whole, map[string]string{"7": "0-1-2"}},
		{"sync point 7 at 0-1-2: ", origin.AccountsOf(map[string]int64{"1": 1100, "2": 900}), map[string]string{"7": "0-1-2"}},
		{"sync point 7: no transaction", whole, map[string]string{"7": "0-1-3"}},
		{"sync point 7: no transaction", whole, map[string]string{"7": "", "8": "0-1-2"}},
		{"there are no sync points", whole, map[string]string{}},
		{"there are no sync points", whole, map[string]string{"7": ""}}, // its writer was stopped
	} {
		l.Wrong, l.SyncPoints, l.points = nil, 0, c.points
		at, err := l.moments()
		if err != nil {
			t.Fatal(err)
		}
		l.syncPoints(slices.Repeat([]origin.Accounts{c.upstream}, len(at)))
		if got := strings.Join(l.Wrong, "; "); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A lag that was small before an event says nothing of what came after it.
func TestWhenTheLagIsBack(t *testing.T) {
	begun := time.UnixMilli(1_000_000)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	l := &Lag{samples: []sample{
		{at(0.1), at(0)}, {at(1), at(0.2)}, {at(3), at(0.2)}, {at(6), at(0.2)}, {at(7), at(4.5)}, {at(8), at(6.5)}, {at(9), at(8.9)}, {at(20), at(9)},
	}}
	for since, want := range map[float64]string{0.5: "8s 5.8s true", 8.5: "9s 100ms true", 8.95: "0s 11s false", 0: "1s 800ms true"} {
		back, ok := l.returned(at(since))
		until := back
		if !ok {
			back, until = begun, at(30)
		}
		if got := fmt.Sprint(back.Sub(begun), most(l.between(at(since), until)), ok); got != want {
			t.Errorf("since %v: %s, want %s", since, got, want)
		}
	}
	if half := part(l.between(begun, at(7)), 0.5); half != 2500*time.Millisecond {
		t.Errorf("the median of five is %v", half)
	}
}

// A script follows from its seed, and has as many events of its main kind as wanted.
func TestScripts(t *testing.T) {
	for name, main := range map[string]string{"kills": KilledName, "pauses": StoppedName, "outages": FellName} {
		once, again := Scripts()[name](3, 20, 2), Scripts()[name](3, 20, 2)
		n := 0
		for i, step := range once {
			if step.Name == main || name == "kills" && step.Name == KilledOwnerName {
				n++
			}
			if step.Name != again[i].Name || step.After != again[i].After || step.Early != again[i].Early || step.Do == nil {
				t.Errorf("%s: step %d is %v at first, and then %v", name, i, step, again[i])
			}
		}
		if n != 20 || once[0].Early {
			t.Errorf("%s: %d times %s; the first is early: %v", name, n, main, once[0].Early)
		}
	}
}
