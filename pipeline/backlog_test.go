package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
)

// What lies between two bounds may be hours: the checkpoint moves with the
// batches, to just below the first row that is not written yet.
func TestTheCheckpointMovesInsideAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) { c.BatchRows = 2 }, table(1, "a"))
		w.sc.resolve(200)
		var rows []event.RawKV
		for i := range tso.TS(5) {
			rows = append(rows, put(1, 110+10*i, int64(i), 1))
		}
		w.up.send(1, 190, rows...)
		w.want("110 a:insert:0=1", "120 a:insert:1=1", "checkpoint 129",
			"130 a:insert:2=1", "140 a:insert:3=1", "checkpoint 149",
			"150 a:insert:4=1", "checkpoint 190")
		if w.memory() != 0 {
			t.Fatalf("%d bytes held", w.memory())
		}
	})
}

// Transactions of one commit-ts are not parted by a checkpoint, although they may
// be parted by batches.
func TestACheckpointPartsNoCommitTS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) { c.BatchRows = 1 }, table(1, "a"))
		w.sc.resolve(200)
		rows := []event.RawKV{put(1, 104, 0, 1)}
		for i := range 4 {
			row := put(1, 105, int64(i+1), 1)
			row.StartTS = tso.TS(90 + i)
			rows = append(rows, row)
		}
		w.up.send(1, 190, append(rows, put(1, 106, 9, 1))...)
		w.want("104 a:insert:0=1", "checkpoint 104",
			"105 a:insert:1=1", "105 a:insert:2=1", "105 a:insert:3=1", "105 a:insert:4=1", "checkpoint 105",
			"106 a:insert:9=1", "checkpoint 190")
	})
}

// The last row before a DDL has its very switch-ts: the checkpoint goes to just
// below it once, and a sync point beyond it is not passed either.
func TestACheckpointStaysBelowWhatIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		at := tso.New(1000, 0)
		w := start(t, func(c *pipeline.Config) {
			c.BatchRows, c.SyncPoints, c.StartTS = 1, time.Second, at-100
		}, a)
		after := *a
		w.sc.ddl(&event.DDL{JobID: 1, SwitchTS: at - 50, Query: "alter a", Tables: []event.TableChange{change(a, &after)}})
		w.sc.resolve(at + 5)
		w.settle() // the table is followed once the schema is known
		w.up.send(1, at+5, put(1, at-60, 1, 1), put(1, at-50, 2, 2), put(1, at-1, 3, 3), put(1, at, 4, 4), put(1, at+1, 5, 5))
		line := func(by int, text string) string { return fmt.Sprintf("%d %s", int(at)+by, text) }
		w.want(line(-60, "a:insert:1=1"), fmt.Sprintf("checkpoint %d", at-51),
			line(-50, "a:insert:2=2"), line(-50, "DDL alter a"), fmt.Sprintf("checkpoint %d", at-50),
			line(-1, "a:insert:3=3"), fmt.Sprintf("checkpoint %d", at-1),
			line(0, "a:insert:4=4"), fmt.Sprintf("sync point %d", at), fmt.Sprintf("checkpoint %d", at),
			line(1, "a:insert:5=5"), fmt.Sprintf("checkpoint %d", at+5))
	})
}

// Whatever checkpoint a run has told, a changefeed that goes on from it delivers
// all that lies above it, and nothing else.
func TestEveryCheckpointIsAPlaceToGoOnFrom(t *testing.T) {
	rules, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		h, first := draw(rt)
		up := past{rows: h.rows, end: h.now + 10, piece: 100} // all of it is one step, but for DDLs
		cfg := pipeline.Config{Changefeed: "test", StartTS: 100, TargetTS: h.now + 5, Filter: rules, FlushEvery: -1,
			BatchRows: rapid.IntRange(1, 3).Draw(rt, "batch")}
		run := func(from tso.TS) (lines []string, err error) {
			synctest.Test(t, func(*testing.T) {
				in, end := ingested(up, sorter.NewMemory(1<<20))
				defer end()
				schema, out, cfg := newTables(first...), &downstream{}, cfg
				cfg.Checkpoint = from
				for _, d := range h.ddls {
					schema.ddl(d)
				}
				schema.resolve(up.end)
				err = pipeline.New(cfg, in, schema, out).Run(context.Background())
				lines = out.take()
			})
			return lines, err
		}
		whole, err := run(0)
		if err != nil {
			rt.Fatal(err)
		}
		for _, l := range slices.DeleteFunc(whole, func(l string) bool { return !strings.HasPrefix(l, "checkpoint") }) {
			var at tso.TS
			if _, err := fmt.Sscanf(l, "checkpoint %d", &at); err != nil {
				rt.Fatal(err)
			}
			if at == cfg.TargetTS {
				continue
			}
			got, err := run(at)
			if wrong := h.judgeRun(at, cfg.TargetTS, err, got); wrong != nil {
				rt.Fatal(wrong)
			}
		}
	})
}
