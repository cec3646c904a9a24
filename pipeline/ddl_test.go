package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/tso"
)

// P6: a DDL at T after every row at or below T, before any above.
func TestDDLIsABarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := table(1, "a"), table(2, "b")
		w := start(t, nil, a, b)
		after := table(1, "a2")
		w.sc.ddl(&event.DDL{JobID: 1, SwitchTS: 105, Query: "alter a", Tables: []event.TableChange{change(a, after)}})
		w.sc.ddl(&event.DDL{JobID: 2, SwitchTS: 105, Query: "again", Tables: []event.TableChange{change(after, after)}})
		w.up.send(1, 120, put(1, 106, 1, 3), put(1, 105, 1, 2), put(1, 104, 1, 1))
		w.up.send(2, 120, put(2, 105, 8, 1), put(2, 106, 8, 2))
		w.want() // no row before the schema is known
		w.sc.resolve(103)
		w.want("checkpoint 103")
		w.sc.resolve(120)
		w.want("104 a:insert:1=1", "105 a:insert:1=2 b:insert:8=1", "checkpoint 104", "105 DDL alter a", "105 DDL again", "checkpoint 105",
			"106 a2:insert:1=3 b:insert:8=2", "checkpoint 120")
		if w.p.Progress().DDLs != 2 {
			t.Fatal(w.p.Progress())
		}
	})
}

// While the downstream works on a DDL nothing above it is written, and the
// checkpoint stands just below.
func TestNothingPassesARunningDDL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, nil, a)
		w.down.free = make(chan struct{})
		w.down.blockOn = "DDL"
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "slow", Tables: []event.TableChange{change(a, a)}})
		w.sc.resolve(120)
		w.up.send(1, 120, put(1, 104, 1, 1), put(1, 110, 1, 2))
		w.want("104 a:insert:1=1", "checkpoint 104")
		if c := w.p.Checkpoint(); c != 104 {
			t.Fatalf("checkpoint %d with the DDL at 105 running", c)
		}
		close(w.down.free)
		w.want("105 DDL slow", "checkpoint 105", "110 a:insert:1=2", "checkpoint 120")
	})
}

// A changefeed that starts at the switch-ts of a DDL carries it out.
func TestDDLAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		w.sc.ddl(&event.DDL{SwitchTS: 100, Query: "create b", Tables: []event.TableChange{change(nil, table(2, "b"))}})
		w.up.send(1, 110)
		w.want()
		w.sc.resolve(110)
		w.want("100 DDL create b", "checkpoint 100")
		w.up.send(2, 110, put(2, 100, 7, 7), put(2, 101, 1, 1))
		w.want("101 b:insert:1=1", "checkpoint 110")
	})
}

// One that is resumed at the switch-ts of a DDL has carried it out already,
// however far back its schema begins.
func TestDDLAtTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := table(1, "a"), table(2, "b")
		w := start(t, func(c *pipeline.Config) { c.Checkpoint = 105 }, a)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "create b", Tables: []event.TableChange{change(nil, b)}})
		w.sc.ddl(&event.DDL{SwitchTS: 106, Query: "drop b", Tables: []event.TableChange{change(b, nil)}})
		w.settle()
		if ids := w.up.ids(); len(ids) != 0 {
			t.Fatalf("followed %v before the schema is known at the checkpoint", ids)
		}
		w.sc.resolve(110)
		w.settle()
		w.up.send(1, 110, put(1, 105, 1, 1), put(1, 106, 1, 2))
		w.up.send(2, 110, put(2, 106, 3, 3))
		w.want("106 a:insert:1=2 b:insert:3=3", "106 DDL drop b", "checkpoint 106", "checkpoint 110")
		if w.up.from[1] != 105 || w.up.from[2] != 105 {
			t.Fatal(w.up.from)
		}
	})
}

// A new changefeed that ended before the DDL at its start-ts was done begins
// with it again, and still leaves out rows at the start-ts.
func TestResumedBeforeTheFirstDDL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := table(2, "b")
		create := &event.DDL{SwitchTS: 100, Query: "create b", Tables: []event.TableChange{change(nil, b)}}
		w := start(t, nil, table(1, "a"))
		w.down.failOn = "create b"
		w.sc.ddl(create)
		w.resolve(110)
		if err := w.ended(); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		at := w.p.Checkpoint()
		w = start(t, func(c *pipeline.Config) { c.Checkpoint = at }, table(1, "a"))
		w.sc.ddl(create)
		w.sc.resolve(110)
		w.up.send(1, 110, put(1, 100, 1, 1), put(1, 101, 1, 2))
		w.want("100 DDL create b", "checkpoint 100")
		w.up.send(2, 110)
		w.want("101 a:insert:1=2", "checkpoint 110")
	})
}

// Ids that a DDL brings are followed from its switch-ts and hold the checkpoint
// there until their first resolved-ts; ids that it takes are left.
func TestTruncate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, nil, a, table(3, "other"))
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "truncate a", Tables: []event.TableChange{change(a, table(2, "a"))}})
		w.up.send(1, 120, put(1, 104, 1, 1), put(1, 106, 2, 2)) // the second was written to the dropped id
		w.up.send(3, 120)
		w.sc.resolve(120)
		w.want("104 a:insert:1=1", "checkpoint 104", "105 DDL truncate a", "checkpoint 105")
		if ids := w.up.ids(); !slices.Equal(ids, []int64{2, 3}) || w.up.from[2] != 105 {
			t.Fatalf("followed: %v, the new one from %d", ids, w.up.from[2])
		}
		w.up.send(2, 110, put(2, 107, 1, 7))
		w.want("107 a:insert:1=7", "checkpoint 110")
	})
}

func TestRecoveredTableIsFollowedFromTheDoneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		w.sc.ddl(&event.DDL{Action: 25, SwitchTS: 105, FinishedTS: 107, Query: "flashback", Tables: []event.TableChange{change(nil, table(4, "p", 41, 42))}})
		w.sc.resolve(120)
		w.want("checkpoint 104", "105 DDL flashback", "checkpoint 105", "checkpoint 107")
		if w.up.from[41] != 107 || w.up.from[42] != 107 {
			t.Fatal(w.up.from)
		}
	})
}

// A table that comes back twice: the second time, known before the first is carried
// out, does not keep it from being followed from the first time on.
func TestATableComesBackTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := table(1, "a"), table(2, "b")
		w := start(t, nil, a, b)
		drop := func(ts tso.TS) {
			w.sc.ddl(&event.DDL{Action: event.ActionDropTable, SwitchTS: ts, FinishedTS: ts, Query: "drop", Tables: []event.TableChange{change(a, nil)}})
		}
		recover := func(ts tso.TS) {
			w.sc.ddl(&event.DDL{Action: event.ActionRecoverTable, SwitchTS: ts, FinishedTS: ts, Query: "flashback", Tables: []event.TableChange{change(nil, a)}})
		}
		drop(110)
		recover(120)
		w.sc.resolve(125)
		w.up.send(1, 110)
		w.up.send(2, 112)
		w.want("checkpoint 109", "110 DDL drop", "checkpoint 110", "checkpoint 112")
		drop(140)
		recover(150)
		w.sc.resolve(160)
		w.settle()
		w.up.send(2, 160)
		w.settle()
		if w.up.from[1] != 120 {
			t.Fatalf("followed from %d", w.up.from[1])
		}
		w.up.send(1, 160, put(1, 130, 1, 1))
		w.want("checkpoint 119", "120 DDL flashback", "checkpoint 120", "130 a:insert:1=1", "checkpoint 139", "140 DDL drop", "checkpoint 140",
			"checkpoint 149", "150 DDL flashback", "checkpoint 150")
		if w.up.from[1] != 150 {
			t.Fatalf("followed from %d", w.up.from[1])
		}
	})
}

// A changefeed that catches up follows what many DDLs bring at once, and does not
// wait for one after the other.
func TestDDLsArePlannedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		var want []string
		for i := range int64(1100) {
			ts := tso.TS(101 + i)
			w.sc.ddl(&event.DDL{SwitchTS: ts, Query: fmt.Sprint("create ", i), Tables: []event.TableChange{change(nil, table(10+i, "t"))}})
			want = append(want, fmt.Sprintf("%d DDL create %d", ts, i), fmt.Sprintf("checkpoint %d", ts))
		}
		w.sc.resolve(1300)
		w.settle()
		if n := len(w.up.ids()); n != 1025 { // as many as are planned ahead, and a
			t.Fatalf("%d spans are followed", n)
		}
		w.resolve(1300)
		w.settle()
		if n := len(w.up.ids()); n != 1101 {
			t.Fatalf("%d spans are followed", n)
		}
		w.resolve(1300)
		w.want(append(want, "checkpoint 1300")...)
		if w.up.from[10] != 101 || w.up.from[1109] != 1200 {
			t.Fatal(w.up.from)
		}
	})
}

// A physical id that goes and comes back is followed anew, and one that comes
// and goes is left, also when both were planned at once.
func TestIDsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := table(1, "a"), table(2, "b")
		w := start(t, nil, a)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "drop a", Tables: []event.TableChange{change(a, nil)}})
		w.sc.ddl(&event.DDL{Action: 25, SwitchTS: 110, Query: "recover a", Tables: []event.TableChange{change(nil, table(1, "a"))}})
		w.sc.ddl(&event.DDL{SwitchTS: 112, Query: "create b", Tables: []event.TableChange{change(nil, b)}})
		w.sc.ddl(&event.DDL{SwitchTS: 114, Query: "drop b", Tables: []event.TableChange{change(b, nil)}})
		w.sc.resolve(120)
		w.up.send(1, 120, put(1, 104, 1, 1), put(1, 108, 2, 2))
		w.up.send(2, 113, put(2, 113, 1, 7))
		w.want("104 a:insert:1=1", "checkpoint 104", "105 DDL drop a", "checkpoint 105", "checkpoint 109", "110 DDL recover a", "checkpoint 110")
		if w.up.from[1] != 110 {
			t.Fatalf("followed anew from %d", w.up.from[1])
		}
		w.settle()
		w.up.send(1, 130, put(1, 111, 3, 3))
		w.up.send(2, 130, put(2, 113, 1, 7))
		w.want("111 a:insert:3=3", "checkpoint 111", "112 DDL create b", "checkpoint 112", "113 b:insert:1=7", "checkpoint 113", "114 DDL drop b", "checkpoint 114", "checkpoint 120")
		if ids := w.up.ids(); !slices.Equal(ids, []int64{1}) {
			t.Fatal(ids)
		}
	})
}

// After EXCHANGE PARTITION both ids are followed on, each by its new table.
func TestExchangePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := table(9, "p", 10, 11), table(20, "n")
		w := start(t, nil, p, n)
		w.sc.ddl(&event.DDL{Action: 42, SwitchTS: 105, Query: "exchange",
			Tables: []event.TableChange{change(p, table(9, "p", 10, 20)), change(n, table(11, "n"))}})
		w.up.send(10, 120)
		w.up.send(11, 120, put(11, 104, 1, 1), put(11, 106, 2, 2))
		w.up.send(20, 120, put(20, 104, 3, 3), put(20, 106, 4, 4))
		w.sc.resolve(120)
		w.want("104 p:insert:1=1 n:insert:3=3", "checkpoint 104", "105 DDL exchange", "checkpoint 105", "106 n:insert:2=2 p:insert:4=4", "checkpoint 120")
		if ids := w.up.ids(); !slices.Equal(ids, []int64{10, 11, 20}) {
			t.Fatal(ids)
		}
	})
}

func TestRenames(t *testing.T) {
	out := func(t *testing.T) (*world, *event.Table) {
		a := table(1, "in.a")
		w := start(t, rules(t, "in.*"), a, table(5, "out.x"))
		if ids := w.up.ids(); !slices.Equal(ids, []int64{1}) {
			t.Fatalf("followed %v", ids)
		}
		return w, a
	}
	bubble("out of scope", t, func(t *testing.T) {
		w, a := out(t)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "rename", Tables: []event.TableChange{change(a, table(1, "out.a"))}})
		w.up.send(1, 120, put(1, 104, 1, 1), put(1, 106, 2, 2))
		w.sc.resolve(120)
		w.want("104 a:insert:1=1", "checkpoint 104", "105 DDL rename", "checkpoint 105", "checkpoint 120")
		if ids := w.up.ids(); len(ids) != 0 {
			t.Fatalf("still followed: %v", ids)
		}
	})
	bubble("into scope", t, func(t *testing.T) {
		w, _ := out(t)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "rename", Tables: []event.TableChange{change(table(5, "out.x"), table(5, "in.x"))}})
		w.up.send(1, 120, put(1, 104, 1, 1), put(1, 105, 3, 3), put(1, 106, 2, 2))
		w.sc.resolve(120)
		w.want("104 a:insert:1=1", "105 a:insert:3=3", "checkpoint 104")
		err := w.ended()
		if !cdcerr.RenameIntoScope.Is(err) || !strings.Contains(err.Error(), "out.x") || !strings.Contains(err.Error(), "in.x") {
			t.Fatal(err)
		}
	})
	bubble("outside", t, func(t *testing.T) {
		w, _ := out(t)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "rename", Tables: []event.TableChange{change(table(5, "out.x"), table(5, "out.y"))}})
		w.resolve(120)
		w.want("checkpoint 104", "checkpoint 105", "checkpoint 120")
	})
}

func TestTablesWithoutKey(t *testing.T) {
	bubble("are skipped with one warning, TRUNCATE too", t, func(t *testing.T) {
		k := keyless(table(1, "k"))
		w := start(t, nil, k, table(2, "a"))
		k2 := keyless(table(3, "k"))
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "truncate k", Tables: []event.TableChange{change(k, k2)}})
		w.sc.ddl(&event.DDL{SwitchTS: 106, Query: "create k2", Tables: []event.TableChange{change(nil, keyless(table(4, "k2")))}})
		w.sc.ddl(&event.DDL{SwitchTS: 107, Query: "alter k2", Tables: []event.TableChange{change(keyless(table(4, "k2")), keyless(table(4, "k2")))}})
		w.resolve(120)
		w.want("checkpoint 104", "checkpoint 105", "checkpoint 106", "checkpoint 107", "checkpoint 120")
		if ids := w.up.ids(); !slices.Equal(ids, []int64{2}) {
			t.Fatalf("followed %v", ids)
		}
		if logs := w.logs.String(); strings.Count(logs, "level=WARN") != 2 || !strings.Contains(logs, "test.k ") || !strings.Contains(logs, "test.k2") {
			t.Fatal(logs)
		}
	})
	bubble("are replicated by force", t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) { c.ForceReplicate = true }, keyless(table(1, "k")))
		w.up.send(1, 110, put(1, 104, 1, 1))
		w.sc.resolve(110)
		w.want("104 k:insert:1=1", "checkpoint 110")
	})
	bubble("that had one stop the changefeed", t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, nil, a)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "drop the key", Tables: []event.TableChange{change(a, keyless(a))}})
		w.up.send(1, 120, put(1, 103, 1, 1), put(1, 106, 2, 2))
		w.sc.resolve(120)
		w.want("103 a:insert:1=1", "checkpoint 104")
		if err := w.ended(); !cdcerr.TableIneligible.Is(err) || !strings.Contains(err.Error(), "test.a") {
			t.Fatal(err)
		}
	})
}
