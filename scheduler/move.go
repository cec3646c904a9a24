package scheduler

import (
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
)

// wishesMax is how many moves may wait: a tool that moves a thousand tables need not
// wait itself, and each is looked at every tick.
const wishesMax = 1024

// wish is a table that an operator wants on a capture.
type wish struct {
	table span.TableID
	to    capture.ID
}

// moveAsked does what operators asked for. A wish ends when the table is there, or
// cannot get there any more.
func (o *Owner) moveAsked() {
	o.asked = slices.DeleteFunc(o.asked, func(w wish) bool {
		t, m := o.tables[w.table], o.member(w.to)
		if t == nil || m == nil || !m.takes() {
			return true
		}
		there := true
		for _, s := range t.sets {
			if s.primary.m != m || s.State != ReplicatingState {
				there = false
				o.moveSet(s, m, "an operator moves it")
			}
		}
		return there
	})
}
