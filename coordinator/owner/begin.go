package owner

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// begin makes scheduler's half. The record's fence comes first: what is read after it
// stands is of no earlier owner's making any more.
func (l *Loop) begin(ctx context.Context) (err error) {
	if l.sink, err = l.cfg.Open(ctx); err != nil {
		return err
	}
	at := l.cfg.Watermark.Checkpoint
	r := scheduler.Resume{Watermark: l.cfg.Watermark, Term: l.cfg.Term}
	// Whoever is a member now may make itself a floor after these were read, and be
	// gone before members are looked at again.
	for _, m := range l.cfg.Members() {
		r.Writers = append(r.Writers, m.ID)
	}
	if f, ok := l.sink.(sink.Fencer); ok && f.Fences() {
		l.fencer = f
		floors, err := f.Floors(ctx)
		if err != nil {
			return fmt.Errorf("who has a floor downstream: %w", err)
		}
		for _, c := range floors {
			if id := capture.ID(c); !slices.Contains(r.Writers, id) {
				r.Writers = append(r.Writers, id)
			}
		}
	} else {
		r.Writers = nil // their leases are waited for
	}
	if k, ok := l.sink.(sink.Recorder); ok && k.Keeps() {
		l.keeps = true
		all, err := k.Recorded(ctx)
		if err != nil {
			return fmt.Errorf("the record of executed DDLs: %w", err)
		}
		l.record = newRecord(all)
	}
	r.Recorded = l.record.last(at)
	if err := l.openRedo(ctx, &r); err != nil {
		return err
	}
	if err := l.openJournal(ctx, at); err != nil {
		return err
	}
	if err := l.sink.Checkpoint(ctx, at); err != nil {
		return err
	}
	if l.feed, err = l.cfg.Load(ctx, at); err != nil {
		return err
	}
	l.feed.DDLs(at) // of a feed that began further back: they are downstream
	if r.Tables, r.Whole, err = l.tablesAt(at); err != nil {
		return err
	}
	cfg := l.cfg.Scheduler
	cfg.Fenced, cfg.Gated = l.fencer != nil, l.redo != nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, err = scheduler.New(cfg, r)
	return err
}

// tablesAt are the ids of the spans that are replicated at a checkpoint, and those of
// them that may not be in parts.
func (l *Loop) tablesAt(at tso.TS) (ids, whole []span.TableID, err error) {
	for _, t := range l.feed.Tables(at) {
		switch l.cfg.Scope.Table(t) {
		case filter.Wanted:
			if _, err := l.cfg.Scope.Rules.Rows(t); err != nil {
				return nil, nil, err
			}
			ids = append(ids, t.SpanIDs()...)
			if l.cfg.splits() && l.cfg.whole(t) {
				whole = append(whole, t.SpanIDs()...)
			}
		case filter.Keyless:
			l.skip(t.FullName())
		case filter.OutOfRule:
		}
	}
	return ids, whole, nil
}

// skip says that a table is not replicated although the rules take it.
func (l *Loop) skip(name string) {
	l.cfg.Log.Warn("table is not replicated: no key names its rows", "changefeed", l.cfg.Changefeed,
		"table", name, "remedy", cdcerr.TableIneligible.Remedy)
}

// record is what was on record downstream when the run began.
type record struct {
	jobs map[int64]sink.Recorded
	// below: all DDLs whose switch-ts is below it are done; that is what sinks that
	// carried out a changefeed's DDLs in one order have noted.
	below tso.TS
}

func newRecord(all []sink.Recorded) record {
	r := record{jobs: make(map[int64]sink.Recorded, len(all))}
	for _, x := range all {
		if x.Job == 0 {
			r.below = max(r.below, x.TS)
		} else {
			r.jobs[x.Job] = x
		}
	}
	return r
}

// last is the switch-ts up to which the schema has to be known before rows may go on
// from a checkpoint; 0: no further than there.
func (r *record) last(at tso.TS) (ts tso.TS) {
	ts = r.below.Prev()
	for _, x := range r.jobs {
		ts = max(ts, x.TS)
	}
	if ts <= at {
		return 0
	}
	return ts
}

// of is what is on record of a DDL.
func (r *record) of(job int64, ts tso.TS) (on sink.Recorded, ok bool) {
	if on, ok = r.jobs[job]; ok {
		return on, true
	}
	return sink.Recorded{Job: job, TS: ts, Done: true}, ts < r.below
}
