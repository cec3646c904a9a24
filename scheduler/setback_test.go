package scheduler

import (
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// What an owner has told of the redo log's meta is not taken back by a later one: a capture
// that has written by it ends, and says so. What comes late takes nothing back, nor does who
// has no log.
func TestAMetaThatWasSetBack(t *testing.T) {
	type word struct {
		owner Revision
		seq   uint64
		gate  tso.TS
		known bool
	}
	for what, c := range map[string]struct {
		gated bool
		words []word
		wrong bool
	}{
		"it goes on":              {true, []word{{5, 1, 200, true}, {5, 2, 200, true}, {5, 3, 250, true}, {6, 1, 250, true}, {6, 2, 300, true}}, false},
		"set back":                {true, []word{{5, 1, 200, true}, {6, 1, 199, true}}, true},
		"set back, and further":   {true, []word{{5, 1, 200, true}, {6, 1, 150, true}, {6, 2, 300, true}}, true},
		"by the owner itself":     {true, []word{{5, 1, 200, true}, {5, 2, 150, true}}, true},
		"of who was deposed":      {true, []word{{6, 1, 200, true}, {5, 9, 150, true}}, false},
		"late":                    {true, []word{{5, 2, 200, true}, {5, 1, 150, true}}, false},
		"of who does not know it": {true, []word{{5, 1, 200, true}, {6, 1, 0, false}, {6, 2, 200, true}}, false},
		"without a log":           {false, []word{{5, 1, 200, true}, {6, 1, 0, true}}, false},
	} {
		h, err := NewCapture(CaptureConfig{ID: "a", Epoch: 1, Incarnation: 1, Gated: c.gated, StatusesMax: StatusesMax})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.words {
			h.Step(Orders{Head: Head{Owner: w.owner, Epoch: 1, Capture: "a", Incarnation: 1, Term: 2, Seq: w.seq}, Barrier: Barrier{Known: w.known, Gate: w.gate, Sync: tso.Max}})
		}
		if err := h.Err(); (err != nil) != c.wrong || c.wrong && !cdcerr.RedoGap.Is(err) {
			t.Errorf("%s: %v", what, err)
		}
		if next := h.Next(""); next.Err() != nil {
			t.Errorf("%s: the next life begins with %v", what, next.Err())
		}
	}
}
