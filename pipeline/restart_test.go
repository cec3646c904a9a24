package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// past is an upstream to which everything has happened: a subscription gets all
// rows above its start, in pieces, and then the end's resolved-ts.
type past struct {
	rows  map[int64][]event.RawKV
	end   tso.TS
	piece int
}

func (p past) Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error {
	rows := slices.Clone(p.rows[s.Span.TableID])
	rows = slices.DeleteFunc(rows, func(r event.RawKV) bool { return r.CommitTS <= s.StartTS })
	for part := range slices.Chunk(rows, p.piece) {
		resolved := part[0].CommitTS.Prev()
		part = slices.Clone(part)
		slices.Reverse(part)
		if err := out(upstream.Batch{Rows: part, Resolved: resolved}); err != nil {
			return err
		}
	}
	if err := out(upstream.Batch{Resolved: p.end}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// frail is a sink that fails at its nth call, after or before it did its work.
type frail struct {
	downstream
	calls, failAt int
	after         bool
}

func (f *frail) call(work func() error) error {
	f.calls++
	if f.calls == f.failAt && !f.after {
		return errDown
	}
	err := work()
	if f.calls == f.failAt && err == nil {
		return errDown
	}
	return err
}

func (f *frail) Write(ctx context.Context, g sink.Grant, txns []event.Txn) error {
	return f.call(func() error { return f.downstream.Write(ctx, g, txns) })
}

func (f *frail) DDL(ctx context.Context, g sink.Grant, d *event.DDL) error {
	return f.call(func() error { return f.downstream.DDL(ctx, g, d) })
}

func (f *frail) Checkpoint(ctx context.Context, ts tso.TS) error {
	return f.call(func() error { return f.downstream.Checkpoint(ctx, ts) })
}

// A sink fails again and again, at any call; each time the changefeed goes on
// from its checkpoint. Every run delivers, without a gap, what comes after where
// it began, and in the end everything was delivered.
func TestRestartsLoseNothing(t *testing.T) {
	rules, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		h, first := draw(rt)
		fails := rapid.SliceOfN(rapid.IntRange(1, 12), 0, 6).Draw(rt, "fails")
		cfg := pipeline.Config{Changefeed: "test", StartTS: 100, TargetTS: h.now + 5, Filter: rules,
			BatchRows: rapid.IntRange(1, 4).Draw(rt, "batch"), MemoryQuota: 3000}
		up := past{rows: h.rows, end: h.now + 10, piece: rapid.IntRange(1, 5).Draw(rt, "piece")}
		var wrong error
		synctest.Test(t, func(*testing.T) {
			for run := 0; wrong == nil; run++ {
				out := &frail{after: run%2 == 0}
				if run < len(fails) {
					out.failAt = fails[run]
				}
				schema := newTables(first...)
				for _, d := range h.ddls {
					schema.ddl(d)
				}
				schema.DDLs(cfg.StartTS.Prev())
				schema.resolve(up.end)
				p := pipeline.New(cfg, up, schema, out)
				err := p.Run(context.Background())
				wrong = h.judgeRun(cfg.StartTS, p.Checkpoint(), err, out.take())
				if err == nil {
					return
				}
				cfg.StartTS = p.Checkpoint()
				if cfg.StartTS == cfg.TargetTS {
					return // the last checkpoint was delivered, its answer was not
				}
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// judgeRun holds one run against what lay before it.
func (h *history) judgeRun(start, end tso.TS, err error, got []string) error {
	if err != nil && !errors.Is(err, errDown) {
		return err
	}
	var due []string
	covered := 0 // lines at or below end
	for _, l := range h.lines {
		var ts tso.TS
		if _, err := fmt.Sscan(l, &ts); err != nil {
			return err
		}
		if ts < start || ts == start && !strings.Contains(l, "DDL") {
			continue
		}
		due = append(due, l)
		if ts <= end && !(ts == start && end == start) {
			covered = len(due)
		}
	}
	got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "checkpoint") })
	if len(got) > len(due) || !slices.Equal(got, due[:len(got)]) || len(got) < covered || err == nil && len(got) != len(due) {
		return fmt.Errorf("from %d to checkpoint %d (%w)\n\t%s\nwas due\n\t%s", start, end, err, strings.Join(got, "\n\t"), strings.Join(due, "\n\t"))
	}
	return nil
}
