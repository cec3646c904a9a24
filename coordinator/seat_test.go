package coordinator

import (
	"testing"

	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// A changefeed begins with the rows above its start-ts, also where its checkpoint stands
// just below for the DDLs at it. One that was set back loses none on its way there.
func TestRowsAbove(t *testing.T) {
	for _, c := range []struct {
		at   meta.Status
		want tso.TS
	}{
		{meta.Status{CheckpointTS: 99}, 100},
		{meta.Status{CheckpointTS: 200}, 100},
		{meta.Status{CheckpointTS: 50, Epoch: 1}, 50},
		{meta.Status{CheckpointTS: 99, Epoch: 1}, 99},
		{meta.Status{CheckpointTS: 200, Epoch: 1}, 100},
	} {
		if got := rowsAbove(100, c.at); got != c.want {
			t.Errorf("at %d in epoch %d: %d, want %d", c.at.CheckpointTS, c.at.Epoch, got, c.want)
		}
	}
}
