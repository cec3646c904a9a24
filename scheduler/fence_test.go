package scheduler

import (
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
)

// TestOrdersForSomebodyElse gives a capture orders that do not mean it, or not any more:
// none of them is done. P1 rests on each.
func TestOrdersForSomebodyElse(t *testing.T) {
	right := Orders{
		Head:   Head{Owner: 5, Epoch: 1, Capture: "a", Incarnation: 2, Term: 50, Seq: 10},
		Orders: []Order{{Verb: Prepare, Span: span.OfTable(1), From: 100}},
	}
	for _, c := range []struct {
		name string
		turn func(*Orders)
		done bool
	}{
		{"as it should be", func(*Orders) {}, true},
		{"of an owner that was deposed", func(m *Orders) { m.Owner = 4 }, false},
		{"of another epoch", func(m *Orders) { m.Epoch = 2 }, false},
		{"for another capture", func(m *Orders) { m.Capture = "b" }, false},
		{"for the life before", func(m *Orders) { m.Incarnation = 1 }, false},
		{"of who does not know this life", func(m *Orders) { m.Incarnation = 0 }, false},
		{"under the term before", func(m *Orders) { m.Term = 49 }, false},
		{"under the next term", func(m *Orders) { m.Term = 51 }, true},
		{"that came late", func(m *Orders) { m.Seq = 9 }, false},
		{"of the next owner", func(m *Orders) { m.Owner, m.Seq = 6, 1 }, true},
	} {
		a, err := NewCapture(CaptureConfig{ID: "a", Epoch: 1, Incarnation: 2, Floor: 5, StatusesMax: 10})
		if err != nil {
			t.Fatal(err)
		}
		a.Step(Orders{Head: Head{Owner: 5, Epoch: 1, Capture: "a", Incarnation: 2, Term: 50, Seq: 9}})
		m := right
		c.turn(&m)
		a.Step(m)
		if got := a.Len() > 0; got != c.done {
			t.Errorf("an order %s: done %v", c.name, got)
		}
	}
}

// TestANewLifeKnowsItsOwner shows that what ends is not what was known.
func TestANewLifeKnowsItsOwner(t *testing.T) {
	a, err := NewCapture(CaptureConfig{ID: "a", Epoch: 1, Incarnation: 1, Floor: 3, StatusesMax: 10})
	if err != nil {
		t.Fatal(err)
	}
	a.Step(Orders{Head: Head{Owner: 7, Epoch: 1, Capture: "a", Term: 70, Seq: 1}})
	b := a.Next("it failed")
	b.Step(Orders{Head: Head{Owner: 6, Epoch: 1, Capture: "a", Incarnation: 2, Term: 71, Seq: 1}})
	if r := b.Tick(capture.Alive); r.Report != nil {
		t.Fatalf("it reports to an owner that the life before knew to be deposed: %+v", r.Report)
	}
	b.Step(Orders{Head: Head{Owner: 7, Epoch: 1, Capture: "a", Term: 71, Seq: 2}})
	if r := b.Tick(capture.Alive); r.Report == nil || r.Report.Incarnation != 2 || r.Report.Fault != "it failed" {
		t.Fatalf("%+v", r.Report)
	}
}
