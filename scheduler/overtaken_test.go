package scheduler

import (
	"testing"

	"github.com/sluice-cdc/sluice/span"
)

// TestOvertaken lets a capture that was fenced off under the owner before, and does not
// know, report a span below what is durable: somebody who is gone by now has written it
// since. It has to let the span go, and that its floor is low breaks no belief.
func TestOvertaken(t *testing.T) {
	cfg := Default()
	cfg.Owner, cfg.Epoch, cfg.Fenced = 7, 1, true
	o, err := New(cfg, Resume{Watermark: Watermark{Checkpoint: 200, Resolved: 200}, Tables: []span.TableID{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	o.Schema(300)
	view := View{Members: []Member{{ID: "a"}}}
	o.Tick(view)
	held := []Status{
		{Change: 1, Span: span.OfTable(1), Phase: Writing, Checkpoint: 150, Resolved: 250, Grant: 3},
		{Change: 2, Span: span.OfTable(2), Phase: Writing, Checkpoint: 250, Resolved: 250, Grant: 4},
	}
	o.Step(Report{
		Head: Head{Owner: 7, Epoch: 1, Capture: "a", Incarnation: 1, Term: 2, Seq: 1},
		Upto: 2, Complete: true, Writes: 2, Floor: Progress{150, 250}, Statuses: held,
	})
	var stops []Order
	for range 3 {
		r := o.Tick(view)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, m := range r.Messages {
			for _, x := range m.Orders {
				if x.Verb == Stop {
					stops = append(stops, x)
				}
			}
		}
	}
	if len(stops) != 1 || stops[0].Span.TableID != 1 {
		t.Errorf("told to stop: %v", stops)
	}
	if s := o.Sets(1)[0]; s.State != AbsentState || s.Checkpoint != 200 {
		t.Errorf("table 1 is %v at %d with primary %q", s.State, s.Checkpoint, s.Primary())
	}
	if s := o.Sets(2)[0]; s.State != ReplicatingState {
		t.Errorf("table 2 is %v", s.State)
	}
}
