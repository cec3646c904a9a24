package scheduler

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// TestNothingFollowsWhatIsNotDurable carries out a TRUNCATE that only the watermark will
// tell a new owner of, who would carry it out again: until it is durable no row above it
// may be written, and none of the table that it brings.
func TestNothingFollowsWhatIsNotDurable(t *testing.T) {
	for _, unrecorded := range []bool{false, true} {
		cfg := Default()
		cfg.Owner, cfg.Epoch = 7, 1
		o, err := New(cfg, Resume{Watermark: Watermark{Checkpoint: 100, Resolved: 100}, Tables: []span.TableID{1, 3}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewCapture(CaptureConfig{ID: "a", Epoch: 1, Incarnation: 1, StatusesMax: 10})
		if err != nil {
			t.Fatal(err)
		}
		d := DDL{Job: 1, TS: 200, Tables: []span.TableID{1, 3}, Removed: []span.TableID{1}, Added: []span.TableID{2}, Unrecorded: unrecorded}
		o.Schema(300, d)
		a.Schema(300, Block{TS: 200, Tables: d.Tables})
		play := func(saving bool) (r Ready) {
			for range 10 {
				r = o.Tick(View{Members: []Member{{ID: "a"}}})
				for _, x := range r.DDLs {
					o.Executed(x.Job)
				}
				if saving || r.Watermark.Checkpoint < 200 {
					o.Saved(r.Watermark)
				}
				for _, m := range r.Messages {
					a.Step(m)
				}
				for _, x := range a.Tick(capture.Alive).Work {
					switch x.Verb {
					case Prepare:
						a.Prepared(x.Span, 300)
					case Stop:
						a.Ended(x.Span, 200)
					case Write, Reset:
					}
				}
				for _, s := range a.Statuses() {
					if limit := a.Limit(s.Span); s.Phase == Writing {
						a.Progress(s.Span, Progress{limit, 300})
					}
				}
				if rep := a.Tick(capture.Alive).Report; rep != nil {
					o.Step(*rep)
				}
			}
			return r
		}
		r := play(false)
		limit, placed := a.Limit(span.OfTable(3)), len(o.Sets(2)) > 0
		if unrecorded && (limit != 200 || placed || r.Watermark.Checkpoint != 200 || !r.Urgent || o.Settled()) {
			t.Errorf("rows may be written up to %d, the new table is placed: %v, the watermark is at %d and urgent: %v", limit, placed, r.Watermark.Checkpoint, r.Urgent)
		}
		if !unrecorded && (limit != 300 || !placed) {
			t.Errorf("on record: rows may be written up to %d, the new table is placed: %v", limit, placed)
		}
		if r = play(true); r.Watermark.Checkpoint != 300 || !o.Settled() || len(o.Sets(2)) != 1 || r.Urgent {
			t.Errorf("once it is durable the watermark is at %d, settled %v", r.Watermark.Checkpoint, o.Settled())
		}
		if held := a.Statuses(); slices.ContainsFunc(held, func(s Status) bool { return s.Checkpoint < tso.TS(300) }) {
			t.Errorf("held %+v", held)
		}
	}
}
