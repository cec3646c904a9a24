package scheduler

import (
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// TestRecount lets captures count other spans than the owner has after they have told all:
// one that writes what nobody gave it, and one whose floor is without what rests on it. Both
// end the changefeed, and no checkpoint moves by that floor. What a capture brings from
// before, that it has to let go too, is known.
func TestRecount(t *testing.T) {
	for _, c := range []struct {
		name   string
		before Report // with which the owner has its answer
		then   int    // how many spans the next one counts
		wrong  bool
	}{
		{"as many", told(2, 1, 2), 2, false},
		{"more", told(2, 1, 2), 3, true},
		{"fewer", told(2, 1, 2), 1, true},
		{"none", told(2, 1, 2), 0, true},
		{"with one to let go", told(2, 1, 9), 2, false},
		{"and another", told(2, 1, 9), 3, true},
		{"more, and it was asked", told(3, 1, 2), 3, true},
		{"fewer, and it was asked", told(1, 1, 2), 2, true},
	} {
		cfg := Default()
		cfg.Owner, cfg.Epoch = 7, 1
		o, err := New(cfg, Resume{Watermark: Watermark{Checkpoint: 100, Resolved: 100}, Tables: []span.TableID{1, 2}})
		if err != nil {
			t.Fatal(err)
		}
		o.Schema(300)
		view := View{Members: []Member{{ID: "a"}}}
		o.Tick(view)
		o.Step(c.before)
		r := o.Tick(view)
		then := c.before
		then.Seq, then.Statuses, then.Writes, then.Floor = 2, nil, c.then, Progress{250, 250}
		if r.Err == nil {
			o.Step(then)
			r = o.Tick(view)
		}
		if (r.Err != nil) != c.wrong || c.wrong && (!cdcerr.Unexpected.Is(r.Err) || r.Watermark.Checkpoint > 150) {
			t.Errorf("%s: %v, the checkpoint is %d", c.name, r.Err, r.Watermark.Checkpoint)
		}
	}
}

// told is a capture's first report: it writes these tables, and counts so many.
func told(writes int, ids ...span.TableID) Report {
	r := Report{
		Head: Head{Owner: 7, Epoch: 1, Capture: "a", Incarnation: 1, Term: 2, Seq: 1},
		Upto: uint64(len(ids)), Complete: true, Writes: writes, Floor: Progress{150, 150},
	}
	for i, id := range ids {
		r.Statuses = append(r.Statuses, Status{Change: uint64(i) + 1, Span: span.OfTable(id), Phase: Writing, Checkpoint: 150, Resolved: 150, Grant: 3})
	}
	return r
}
