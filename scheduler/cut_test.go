package scheduler

import (
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
)

// Borders that come while nobody takes spans are asked for again later: what is large stays
// so, whether or not its capture tells of it again.
func TestACutThatNobodyTakes(t *testing.T) {
	cfg := Default()
	cfg.Owner, cfg.Epoch, cfg.Split.Regions = 7, 1, 6
	o, err := New(cfg, Resume{Watermark: Watermark{Checkpoint: 100, Resolved: 100}, Tables: []span.TableID{1}})
	if err != nil {
		t.Fatal(err)
	}
	o.Schema(300)
	asked := func(stage capture.Liveness, ticks uint64) (cuts int) {
		for range ticks {
			cuts += len(o.Tick(View{Members: []Member{{ID: "a", Liveness: stage}}}).Cuts)
		}
		return cuts
	}
	asked(capture.Alive, 1)
	first := told(1, 1)
	first.Statuses[0].Regions = 3 * cfg.Split.Regions
	o.Step(first)
	if n := asked(capture.Alive, 2); n != 1 {
		t.Fatalf("asked %d times where to cut", n)
	}
	asked(capture.Stopping, 1)
	o.Cut(span.OfTable(1), []span.Key{span.OfTable(1).Start + "m"})
	if n := asked(capture.Stopping, 1) + asked(capture.Alive, cfg.BalanceTicks); n != 1 || len(o.Sets(1)) != 1 {
		t.Fatalf("asked %d times again; %d parts", n, len(o.Sets(1)))
	}
}
