package owner_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// plainSink is an owner's sink in a downstream that keeps no record and fences nobody.
type plainSink struct {
	w    *world
	rev  scheduler.Revision
	busy bool // one call at a time, but for Checkpoint
}

// fullSink does both.
type fullSink struct{ *plainSink }

func (w *world) open(rev scheduler.Revision) (sink.Sink, error) {
	w.foreign(rev, "open")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down.open++
	p := &plainSink{w: w, rev: rev}
	if w.down.plain {
		return p, nil
	}
	if floor := w.down.floors[""]; scheduler.Term(rev) < floor {
		w.down.open--
		return nil, cdcerr.Fenced.New("the record's fence is at %d", floor)
	}
	w.down.floors[""] = scheduler.Term(rev)
	return fullSink{p}, nil
}

func (s *plainSink) Write(context.Context, sink.Leave, []event.Txn) error {
	s.w.t.Error("an owner writes rows")
	return nil
}
func (s *plainSink) Flush(context.Context) error { return errors.New("an owner flushes") }
func (s *plainSink) Whole() bool                 { return false }

// enter is one call's begin: under the lease, and beside no other.
func (s *plainSink) enter(leave sink.Leave, what string) error {
	s.w.foreign(s.rev, what)
	if err := leave.Check(); err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.busy {
		s.w.t.Error("two calls at a time")
	}
	s.busy = true
	if !s.w.down.plain && scheduler.Term(s.rev) < s.w.down.floors[""] {
		s.busy = false
		return cdcerr.Fenced.New("the record's fence is at %d", s.w.down.floors[""])
	}
	return nil
}

func (s *plainSink) leave() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.busy = false
}

func (s *plainSink) DDL(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	if err := s.enter(leave, "DDL"); err != nil {
		return err
	}
	defer s.leave()
	w := s.w
	w.mu.Lock()
	for _, c := range d.Tables {
		if c.Before != nil && w.down.at[c.Before.ID] < d.SwitchTS {
			w.t.Errorf("DDL %d at %d is carried out, table %d is at %d", d.JobID, d.SwitchTS, c.Before.ID, w.down.at[c.Before.ID])
		}
		if c.Before != nil && w.down.at[c.Before.ID] > d.SwitchTS && w.down.begun != d {
			w.t.Errorf("DDL %d at %d is carried out, table %d is at %d already", d.JobID, d.SwitchTS, c.Before.ID, w.down.at[c.Before.ID])
		}
	}
	if b := w.down.begun; b != nil && b != d {
		w.t.Errorf("DDL %d is begun, and DDL %d may be done", d.JobID, b.JobID)
	}
	if w.down.plain && w.durable.Checkpoint < d.SwitchTS.Prev() {
		w.t.Errorf("DDL %d at %d is carried out without a record, and %d is durable", d.JobID, d.SwitchTS, w.durable.Checkpoint)
	}
	w.happened("DDL %d is begun", d.JobID)
	w.down.begun = d
	hook := w.down.ddl
	w.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, d); err != nil {
			return err
		}
	}
	w.foreign(s.rev, "note that the DDL is done")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.down.plain && scheduler.Term(s.rev) < w.down.floors[""] {
		return cdcerr.Fenced.New("the record's fence is at %d", w.down.floors[""])
	}
	w.down.done[d.JobID] = d.SwitchTS
	w.down.begun = nil
	for _, c := range d.Tables {
		if c.After != nil {
			w.down.at[c.After.ID] = max(w.down.at[c.After.ID], d.SwitchTS)
		}
	}
	w.happened("DDL %d is done", d.JobID)
	return nil
}

func (s *plainSink) SyncPoint(ctx context.Context, leave sink.Leave, p event.SyncPoint) error {
	if err := s.enter(leave, "sync point"); err != nil {
		return err
	}
	defer s.leave()
	s.w.mu.Lock()
	for id, at := range s.w.down.at {
		if at > p.TS {
			s.w.t.Errorf("sync point %d is noted, table %d is at %d", p.TS, id, at)
		}
	}
	hook := s.w.down.sync
	s.w.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, p.TS); err != nil {
			return err
		}
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.happened("sync point %d", p.TS.Physical())
	return nil
}

func (s *plainSink) Checkpoint(_ context.Context, ts tso.TS) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if ts > s.w.durable.Checkpoint {
		s.w.t.Errorf("the sink hears that %d is durable, and %d is", ts, s.w.durable.Checkpoint)
	}
	return nil
}

func (s *plainSink) Close() error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.down.open--
	return nil
}

func (s fullSink) Fences() bool { return true }

func (s fullSink) Floors(context.Context) (out []string, err error) {
	s.w.foreign(s.rev, "who has floors")
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for c := range s.w.down.floors {
		if c != "" {
			out = append(out, string(c))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (s fullSink) Raise(ctx context.Context, c string, term uint64) error {
	s.w.foreign(s.rev, "fence off")
	s.w.mu.Lock()
	hook := s.w.down.raise
	s.w.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, capture.ID(c)); err != nil {
			return err
		}
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	id := capture.ID(c)
	s.w.down.floors[id] = max(s.w.down.floors[id], scheduler.Term(term))
	s.w.happened("%s is fenced off", c)
	return nil
}

func (s fullSink) Keeps() bool { return !s.w.down.noKept }

func (s fullSink) Recorded(context.Context) (out []sink.Recorded, err error) {
	s.w.foreign(s.rev, "read the record")
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for job, ts := range s.w.down.done {
		if ts > s.w.durable.Checkpoint {
			out = append(out, sink.Recorded{Job: job, TS: ts, Done: true, Tables: s.tables(job)})
		}
	}
	if d := s.w.down.begun; d != nil {
		out = append(out, sink.Recorded{Job: d.JobID, TS: d.SwitchTS, Tables: s.tables(d.JobID)})
	}
	slices.SortFunc(out, func(a, b sink.Recorded) int { return strings.Compare(a.TS.String(), b.TS.String()) })
	return out, nil
}

func (s fullSink) tables(job int64) (ids []int64) {
	for _, d := range s.w.up.ddls {
		if d.JobID == job {
			for _, c := range d.Tables {
				if c.Before != nil {
					ids = append(ids, c.Before.PhysicalIDs()...)
				}
			}
		}
	}
	return ids
}
