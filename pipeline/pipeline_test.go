package pipeline_test

import (
	"context"
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
	"github.com/sluice-cdc/sluice/upstream"
)

func bubble(name string, t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestRowsOfAllTablesComeInCommitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"), table(2, "b"))
		w.sc.resolve(200)
		w.up.send(1, 110, put(1, 107, 2, 2), put(1, 103, 1, 1), put(1, 120, 9, 9))
		w.want() // table b has said nothing yet
		w.up.send(2, 109, put(2, 107, 1, 3), put(2, 105, 5, 5))
		w.want("103 a:insert:1=1", "105 b:insert:5=5", "107 a:insert:2=2 b:insert:1=3", "checkpoint 109")
		w.resolve(200)
		w.want("120 a:insert:9=9", "checkpoint 200")
		if got := w.p.Progress(); got.Rows != 5 || got.Txns != 4 || got.Checkpoint != 200 || got.Resolved != 200 || w.memory() != 0 {
			t.Fatalf("%+v, %d bytes held", got, w.memory())
		}
		if w.sc.forgotten != 200 {
			t.Fatalf("the schema may forget up to %d", w.sc.forgotten)
		}
	})
}

func TestUpdatesAndDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		update, del, never := put(1, 101, 1, 2), put(1, 102, 1, 0), put(1, 103, 7, 0)
		update.Old = rowValue(1)
		del.Op, del.Value, del.Old = event.Delete, nil, rowValue(2)
		never.Op, never.Value = event.Delete, nil // inserted and deleted by one transaction
		w.up.send(1, 0, update, del, never)
		w.resolve(110)
		w.want("101 a:update:1=2", "102 a:delete:1=2", "checkpoint 110")
	})
}

func TestRowsOfUnknownIDsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, nil, a)
		w.sc.versions[0].to = 105 // no DDL tells
		w.up.send(1, 110, put(1, 104, 1, 1), put(1, 106, 2, 2), put(1, 107, 3, 3))
		w.sc.resolve(110)
		w.want("104 a:insert:1=1", "checkpoint 110")
		if got := w.p.Progress(); got.Unknown != 2 || got.Rows != 1 {
			t.Fatalf("%+v", got)
		}
	})
}

// A transaction is never split, whatever the batch size and the quota say.
func TestTransactionLargerThanEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, 1000, func(c *pipeline.Config) { c.BatchRows, c.BatchBytes = 10, 500 }, table(1, "a"))
		var big []event.RawKV
		for i := range 500 {
			big = append(big, put(1, 105, int64(i), byte(i%100)))
		}
		w.sc.resolve(200)
		w.up.send(1, 101, put(1, 101, 1, 1))
		w.want("101 a:insert:1=1", "checkpoint 101")
		for part := range slices.Chunk(big, 50) {
			w.up.send(1, 0, part...)
		}
		w.up.send(1, 110, put(1, 106, 1, 1))
		w.settle()
		lines := w.down.take()
		if len(lines) != 4 || !strings.HasPrefix(lines[0], "105 a:insert:0=0 ") || strings.Count(lines[0], ":insert:") != 500 || lines[3] != "checkpoint 110" {
			t.Fatalf("%.200q", lines)
		}
		if !slices.Equal(w.down.batches, []int{1, 500, 1}) {
			t.Fatal(w.down.batches)
		}
	})
}

// Two transactions can have one commit-ts; their start-ts tells them apart.
func TestTransactionsOfOneCommitTS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		other := put(1, 105, 1, 1)
		other.StartTS--
		w.up.send(1, 110, put(1, 105, 2, 2), put(1, 105, 3, 3), other)
		w.sc.resolve(110)
		w.want("105 a:insert:1=1", "105 a:insert:2=2 a:insert:3=3", "checkpoint 110")
		if n := w.p.Progress().Txns; n != 2 {
			t.Fatalf("%d transactions", n)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) { c.BatchRows = 10 }, table(1, "a"))
		var rows []event.RawKV
		for i := range 95 {
			rows = append(rows, put(1, 101+tso.TS(i), int64(i), 1))
		}
		w.up.send(1, 300, rows...)
		w.sc.resolve(300)
		w.settle()
		if w.p.Progress().Rows != 95 || slices.Max(w.down.batches) > 10 || len(w.down.batches) != 10 {
			t.Fatal(w.p.Progress(), w.down.batches)
		}
	})
}

// A sink that cannot keep up stops the upstream at the quota, and lets it go on
// as it writes.
func TestSlowSinkHoldsTheUpstreamBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, 5000, func(c *pipeline.Config) { c.BatchRows = 2 }, table(1, "a"))
		w.down.free = make(chan struct{})
		w.down.blockOn = "a:insert"
		const n = 300
		w.sc.resolve(100 + n)
		w.settle()
		for i := range tso.TS(n) {
			w.up.send(1, 101+i, put(1, 101+i, int64(i), 1))
		}
		w.settle()
		if m := w.memory(); m < 4000 || m > 6000 {
			t.Fatalf("%d bytes held at a quota of 5000", m)
		}
		close(w.down.free)
		w.settle()
		if got := w.p.Progress(); got.Rows != n || got.Checkpoint != 100+n || w.memory() != 0 {
			t.Fatalf("%+v, %d bytes held", got, w.memory())
		}
	})
}

func TestSinkErrorsEndTheRun(t *testing.T) {
	for on, left := range map[string]struct {
		lines      []string
		checkpoint tso.TS
	}{
		"103":            {[]string{"checkpoint 102"}, 102},
		"DDL":            {[]string{"checkpoint 102", "103 a:insert:1=1", "checkpoint 104"}, 104},
		"checkpoint 104": {[]string{"checkpoint 102", "103 a:insert:1=1"}, 102},
		"checkpoint 105": {[]string{"checkpoint 102", "103 a:insert:1=1", "checkpoint 104", "105 DDL alter"}, 104},
		"107":            {[]string{"checkpoint 102", "103 a:insert:1=1", "checkpoint 104", "105 DDL alter", "checkpoint 105"}, 105},
	} {
		bubble(on, t, func(t *testing.T) {
			a := table(1, "a")
			w := start(t, nil, a)
			w.down.set(func(d *downstream) { d.failOn = on })
			w.resolve(102)
			w.settle()
			w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "alter", Tables: []event.TableChange{change(a, a)}})
			w.up.send(1, 120, put(1, 103, 1, 1), put(1, 107, 1, 2))
			w.sc.resolve(120)
			w.want(left.lines...)
			if err := w.ended(); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			if w.p.Checkpoint() != left.checkpoint {
				t.Fatalf("checkpoint %d", w.p.Checkpoint())
			}
		})
	}
}

// A row that cannot be decoded: every whole transaction before it is written,
// nothing of its own, and the checkpoint stays below.
func TestCorruptRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		bad := put(1, 105, 2, 1)
		bad.Value = []byte{128, 0, 1}
		w.up.send(1, 110, put(1, 103, 1, 1), put(1, 105, 1, 2), bad, put(1, 105, 3, 2), put(1, 107, 1, 3))
		w.sc.resolve(110)
		w.want("103 a:insert:1=1")
		if err := w.ended(); !cdcerr.CorruptRow.Is(err) || !strings.Contains(err.Error(), "test.a") {
			t.Fatal(err)
		}
		if w.p.Checkpoint() != 99 {
			t.Fatal(w.p.Checkpoint())
		}
	})
}

func TestUpstreamErrorsEndTheRun(t *testing.T) {
	for name, give := range map[string]error{"terminal": cdcerr.PrewriteNotMatch.New("x"), "plain": errDown} {
		bubble(name, t, func(t *testing.T) {
			w := start(t, nil, table(1, "a"), table(2, "b"))
			w.up.give(2, delivery{err: give})
			if err := w.ended(); !errors.Is(err, give) || !strings.Contains(err.Error(), "table 2") {
				t.Fatal(err)
			}
		})
	}
	bubble("late row", t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"), table(2, "b"))
		w.up.send(1, 110)
		w.up.send(1, 0, put(1, 105, 1, 1))
		if err := w.ended(); !cdcerr.ResolvedTsRegressed.Is(err) {
			t.Fatal(err)
		}
	})
}

func TestCancelInTheMiddleOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		w.down.blockOn = "103" // until the context ends
		w.up.send(1, 120, put(1, 103, 1, 1))
		w.sc.resolve(120)
		w.want()
		w.stop()
		if err := w.ended(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if w.p.Checkpoint() != 99 {
			t.Fatal(w.p.Checkpoint())
		}
	})
}

func TestTargetTS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, func(c *pipeline.Config) { c.TargetTS = 105 }, a)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "alter", Tables: []event.TableChange{change(a, a)}})
		w.sc.ddl(&event.DDL{SwitchTS: 106, Query: "too late", Tables: []event.TableChange{change(a, a)}})
		w.up.send(1, 120, put(1, 105, 1, 1), put(1, 106, 1, 2))
		w.sc.resolve(120)
		w.want("105 a:insert:1=1", "checkpoint 104", "105 DDL alter", "checkpoint 105")
		if err := w.ended(); err != nil {
			t.Fatal(err)
		}
	})
}

// stopGate is a gate that the test opens.
type stopGate struct {
	limit tso.TS
	moved chan struct{}
}

func (g *stopGate) Limit() tso.TS          { return g.limit }
func (g *stopGate) Moved() <-chan struct{} { return g.moved }

// P5: nothing above the gate is written.
func TestGateHoldsRowsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &stopGate{limit: 103, moved: make(chan struct{}, 1)}
		w := start(t, func(c *pipeline.Config) { c.Gate = gate }, table(1, "a"))
		w.up.send(1, 120, put(1, 103, 1, 1), put(1, 104, 1, 2))
		w.sc.resolve(120)
		w.want("103 a:insert:1=1", "checkpoint 103")
		gate.limit = 110
		gate.moved <- struct{}{}
		w.want("104 a:insert:1=2", "checkpoint 110")
	})
}

func TestRowsThatComeTwiceAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil, table(1, "a"))
		w.up.send(1, 0, put(1, 103, 1, 1), put(1, 108, 2, 2), put(1, 103, 1, 1))
		w.sc.resolve(120)
		w.up.send(1, 105, put(1, 103, 1, 1))
		w.want("103 a:insert:1=1", "checkpoint 105")
		w.up.send(1, 110, put(1, 103, 1, 1), put(1, 108, 2, 2))
		w.want("108 a:insert:2=2", "checkpoint 110")
	})
}

func TestHistoryTellsWhyTimestampsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, func(c *pipeline.Config) { c.Recorder = pipeline.NewRecorder(2) }, a)
		w.sc.ddl(&event.DDL{SwitchTS: 105, Query: "alter", Tables: []event.TableChange{change(a, a)}})
		w.resolve(102)
		w.settle()
		for i := range tso.TS(10) {
			w.up.give(1, delivery{Batch: upstream.Batch{Moves: []tso.Move{{Stage: tso.StageRegion, From: i, To: i + 1, Cause: "region"}}}})
		}
		w.settle()
		w.resolve(120)
		w.want("checkpoint 102", "checkpoint 104", "105 DDL alter", "checkpoint 105", "checkpoint 120")
		var got []string
		for _, m := range w.p.History() {
			if m.Stage != tso.StageCheckpoint { // the writer's, side by side with the reader's
				got = append(got, fmt.Sprintf("%s %d-%d %s", m.Stage, m.From, m.To, m.Cause))
			}
		}
		want := []string{
			"region resolved-ts 8-9 region", "region resolved-ts 9-10 region",
			"changefeed resolved-ts 102-105 a DDL comes next", "changefeed barrier-ts 102-105 a DDL comes next",
			"changefeed resolved-ts 105-120 the schema is known up to here",
		}
		if !slices.Equal(got, want) || len(w.p.History()) != len(want)+2 {
			t.Fatalf("%q", got)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	for words, change := range map[string]func(*pipeline.Config){
		"StartTS":    func(c *pipeline.Config) { c.StartTS = 0 },
		"Checkpoint": func(c *pipeline.Config) { c.Checkpoint = 98 },
		"TargetTS":   func(c *pipeline.Config) { c.TargetTS = 100 },
		"TargetTS 105: not above StartTS 100 and Checkpoint 105": func(c *pipeline.Config) { c.Checkpoint, c.TargetTS = 105, 105 },
		"Filter":    func(c *pipeline.Config) { c.Filter = nil },
		"TxnBytes":  func(c *pipeline.Config) { c.TxnBytes = -1 },
		"BatchRows": func(c *pipeline.Config) { c.BatchRows = -1 },
	} {
		bubble(words, t, func(t *testing.T) {
			w := start(t, change)
			if err := w.ended(); !cdcerr.InvalidArgument.Is(err) || !strings.Contains(err.Error(), words) {
				t.Fatal(err)
			}
		})
	}
}
