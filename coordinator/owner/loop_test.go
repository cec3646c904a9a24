package owner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
)

var two = []capture.ID{"a", "b"}

// A changefeed of two tables is spread over two captures, and its watermark follows.
func TestLeads(t *testing.T) {
	cluster(t, two, []int64{1, 2}, func(w *world) {
		l, stop, end := w.lead(5, nil)
		w.to(ms(10))
		if p := l.Progress(); p.Saved.Checkpoint != ms(10) || p.Watermark.Checkpoint != ms(10) || !l.Settled() {
			t.Errorf("%+v, settled: %v", p, l.Settled())
		}
		sets := l.Sets()
		if len(sets) != 2 || sets[0].Primary == sets[1].Primary || sets[0].State != scheduler.ReplicatingState {
			t.Errorf("%+v", sets)
		}
		stop()
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
