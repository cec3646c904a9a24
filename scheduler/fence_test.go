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

// TestRunsOfOneReignShareNoTerms gives a capture a term in one run and has it again in
// the next, of the same owner: the downstream tells the writes of one from the other's.
func TestRunsOfOneReignShareNoTerms(t *testing.T) {
	var terms []Term
	var last Term
	for run := range uint64(2) {
		cfg := Default()
		cfg.Owner, cfg.Epoch = 7, run
		o, err := New(cfg, Resume{Term: last})
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewCapture(CaptureConfig{ID: "a", Epoch: run, Incarnation: 1, StatusesMax: 10})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			for _, m := range o.Tick(View{Members: []Member{{ID: "a"}}}).Messages {
				a.Step(m)
			}
			if r := a.Tick(capture.Alive); r.Report != nil {
				o.Step(*r.Report)
			}
		}
		terms, last = append(terms, a.Term()), o.Term()
	}
	if terms[0] <= firstTerm(7) || terms[1] <= terms[0] || terms[1].Owner() != 7 {
		t.Fatalf("terms %d of two runs, the first possible is %d", terms, firstTerm(7))
	}
}

// TestARebornCaptureHasATermOfItsOwn lets a new life come under the term of the one
// before, from a message that was doubled: what that one wrote under may be refused.
func TestARebornCaptureHasATermOfItsOwn(t *testing.T) {
	cfg := Default()
	cfg.Owner, cfg.Epoch = 7, 1
	o, err := New(cfg, Resume{})
	if err != nil {
		t.Fatal(err)
	}
	var term Term // of the last message
	tick := func() {
		for range 10 {
			for _, m := range o.Tick(View{Members: []Member{{ID: "a"}}}).Messages {
				term = m.Term
			}
		}
	}
	tick()
	o.Step(Report{Head: Head{Owner: 7, Epoch: 1, Capture: "a", Incarnation: 1, Seq: 1}, Complete: true})
	tick()
	first := term
	o.Step(Report{Head: Head{Owner: 7, Epoch: 1, Capture: "a", Incarnation: 2, Term: first, Seq: 1}, Complete: true})
	tick()
	if first == 0 || term <= first {
		t.Fatalf("the first life has term %d, the second %d", first, term)
	}
}

// TestAFaultTellsAllThereIs has a capture tell a new owner why it takes no part, and never
// anything in full: it has nothing, and is not waited for.
func TestAFaultTellsAllThereIs(t *testing.T) {
	cfg := Default()
	cfg.Owner, cfg.Epoch = 7, 1
	o, err := New(cfg, Resume{})
	if err != nil {
		t.Fatal(err)
	}
	tick := func() { o.Tick(View{Members: []Member{{ID: "a"}}}) }
	tick()
	if !o.Rebuilding() {
		t.Fatal("nobody is waited for")
	}
	o.Step(Report{Head: Head{Owner: 7, Epoch: 1, Capture: "a", Incarnation: 3, Seq: 1}, Fault: "no directory"})
	tick()
	if o.Rebuilding() {
		t.Fatal("a capture without a part is waited for")
	}
}
