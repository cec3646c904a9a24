package coordinator

import (
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// What a run reads of the captures has who is drained, whenever the run began, and it is
// told to look.
func TestDrainsReachEveryRun(t *testing.T) {
	r := held(t, tso.At(began)).reign
	r.member.captures["b"] = capture.Info{ID: "b"}
	changed, end := r.member.watch()
	defer end()
	for _, is := range []bool{true, false} {
		r.drain("b", is)
		select {
		case <-changed:
		default:
			t.Error("runs are not told")
		}
		if all := r.members(); len(all) != 1 || all[0] != (scheduler.Member{ID: "b", Draining: is}) {
			t.Errorf("drained %v: %+v", is, all)
		}
	}
}
