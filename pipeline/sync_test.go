package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/tso"
)

// at is a moment by the wall clock.
func at(ms int64) tso.TS { return tso.New(ms, 0) }

// At each multiple of the interval the downstream holds everything up to there,
// the DDLs of that very timestamp included, and nothing above.
func TestSyncPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := table(1, "a")
		w := start(t, func(c *pipeline.Config) { c.StartTS, c.SyncPoints = at(900), time.Second }, a)
		w.sc.resolve(at(900))
		w.settle()
		w.sc.ddl(&event.DDL{JobID: 7, Action: event.ActionAddColumn, SwitchTS: at(2000), Query: "alter", Tables: []event.TableChange{change(a, a)}})
		w.up.send(1, at(2500), put(1, at(950), 1, 1), put(1, at(1000), 2, 2), put(1, at(1000)+1, 3, 3), put(1, at(2000), 4, 4), put(1, at(2001), 5, 5))
		w.sc.resolve(at(2500))
		w.want(
			fmt.Sprintf("%d a:insert:1=1", at(950)), fmt.Sprintf("%d a:insert:2=2", at(1000)),
			fmt.Sprintf("sync point %d", at(1000)), fmt.Sprintf("checkpoint %d", at(1000)),
			fmt.Sprintf("%d a:insert:3=3", at(1000)+1), fmt.Sprintf("%d a:insert:4=4", at(2000)), fmt.Sprintf("checkpoint %d", at(2000)-1),
			fmt.Sprintf("%d DDL alter", at(2000)), fmt.Sprintf("sync point %d", at(2000)), fmt.Sprintf("checkpoint %d", at(2000)),
			fmt.Sprintf("%d a:insert:5=5", at(2001)), fmt.Sprintf("checkpoint %d", at(2500)))
		if got := w.p.Progress().SyncPoint; got != at(2000) {
			t.Errorf("the last sync point is %d", got)
		}
	})
}

// One at the checkpoint was noted before the checkpoint came there; one that a
// crash kept from that comes again.
func TestSyncPointsAfterARestart(t *testing.T) {
	for checkpoint, want := range map[tso.TS]tso.TS{at(1000): at(2000), at(1000) - 1: at(1000)} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, func(c *pipeline.Config) {
				c.StartTS, c.Checkpoint, c.SyncPoints = at(900), checkpoint, time.Second
			}, table(1, "a"))
			w.sc.resolve(checkpoint)
			w.settle()
			w.resolve(want)
			w.want(fmt.Sprintf("sync point %d", want), fmt.Sprintf("checkpoint %d", want))
		})
	}
}
