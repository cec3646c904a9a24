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
	"github.com/sluice-cdc/sluice/sorter"
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

// database is a downstream that takes only rows that fit its tables, and keeps
// what it has over restarts.
type database struct {
	columns map[string][]string // by table
	ran     map[int64]int       // how often each job ran
}

func newDatabase(first ...*event.Table) *database {
	d := &database{columns: map[string][]string{}, ran: map[int64]int{}}
	for _, t := range first {
		d.columns[t.Name] = columnsOf(t)
	}
	return d
}

func columnsOf(t *event.Table) (out []string) {
	for i := range t.Columns {
		out = append(out, t.Columns[i].Name)
	}
	return out
}

func (d *database) write(txns []event.Txn) error {
	for _, txn := range txns {
		for _, r := range txn.Rows {
			if have := d.columns[r.Table.Name]; !slices.Equal(have, columnsOf(r.Table)) {
				return fmt.Errorf("a row of %d for %s%v meets %v", txn.CommitTS, r.Table.Name, columnsOf(r.Table), have)
			}
		}
	}
	return nil
}

func (d *database) ddl(x *event.DDL) {
	d.ran[x.JobID]++
	for _, c := range x.Tables {
		if c.Before != nil {
			delete(d.columns, c.Before.Name)
		}
	}
	for _, c := range x.Tables {
		if c.After != nil {
			d.columns[c.After.Name] = columnsOf(c.After)
		}
	}
}

// failure is one call of a sink that fails: the nth, or the nth DDL, before or
// after it has done its work.
type failure struct {
	n     int
	ddl   bool
	after bool
}

func drawFailure(t *rapid.T) failure {
	return failure{rapid.IntRange(1, 12).Draw(t, "n"), rapid.Bool().Draw(t, "ddl"), rapid.Bool().Draw(t, "after")}
}

// frail is a sink over a database that fails once.
type frail struct {
	downstream
	*database
	failure
	calls int
}

func (f *frail) call(ddl bool, work func() error) error {
	if ddl || !f.failure.ddl {
		f.calls++
	}
	fails := f.calls == f.n && (ddl || !f.failure.ddl)
	if fails && !f.after {
		return errDown
	}
	err := work()
	if fails && err == nil {
		return errDown
	}
	return err
}

func (f *frail) Write(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	return f.call(false, func() error {
		if err := f.write(txns); err != nil {
			return err
		}
		return f.downstream.Write(ctx, g, txns)
	})
}

func (f *frail) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	return f.call(true, func() error {
		f.database.ddl(d)
		return f.downstream.DDL(ctx, g, d)
	})
}

func (f *frail) Checkpoint(ctx context.Context, ts tso.TS) error {
	return f.call(false, func() error { return f.downstream.Checkpoint(ctx, ts) })
}

// A sink fails again and again, at any call; each time the changefeed goes on
// from its checkpoint. Every run delivers, without a gap, what comes after where
// it began, no row meets a table of another shape, and in the end everything was
// delivered. No DDL runs more often than answers to it, or to the checkpoint
// behind it, were lost.
func TestRestartsLoseNothing(t *testing.T) {
	rules, err := filter.New(filter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		h, first := draw(rt)
		fails := rapid.SliceOfN(rapid.Custom(drawFailure), 0, 6).Draw(rt, "fails")
		cfg := pipeline.Config{Changefeed: "test", StartTS: 100, TargetTS: h.now + 5, Filter: rules,
			BatchRows: rapid.IntRange(1, 4).Draw(rt, "batch")}
		if rapid.Bool().Draw(rt, "every checkpoint is told") {
			cfg.FlushEvery = -1
		}
		up := past{rows: h.rows, end: h.now + 10, piece: rapid.IntRange(1, 5).Draw(rt, "piece")}
		early := rapid.Bool().Draw(rt, "schema from the beginning")
		down, lost := newDatabase(first...), map[tso.TS]int{}
		var wrong error
		synctest.Test(t, func(*testing.T) {
			in, end := ingested(up, sorter.NewMemory(3000))
			defer end()
			for run := 0; wrong == nil; run++ {
				out := &frail{database: down}
				if run < len(fails) {
					out.failure = fails[run]
				}
				schema := newTables(first...)
				for _, d := range h.ddls {
					schema.ddl(d)
				}
				if !early {
					schema.DDLs(cfg.SchemaStart().Prev())
				}
				schema.resolve(up.end)
				p := pipeline.New(cfg, in, schema, out)
				err := p.Run(context.Background())
				wrong = h.judgeRun(max(cfg.Checkpoint, 99), p.Checkpoint(), err, out.take())
				if err == nil {
					break
				}
				cfg.Checkpoint = p.Checkpoint()
				lost[cfg.Checkpoint.Next()]++
				if cfg.Checkpoint == cfg.TargetTS {
					break // the last checkpoint was delivered, its answer was not
				}
			}
		})
		for _, d := range h.ddls {
			if n := down.ran[d.JobID]; wrong == nil && (n == 0 || n > 1+lost[d.SwitchTS]) {
				wrong = fmt.Errorf("the DDL at %d ran %d times, runs ended just below it %d times", d.SwitchTS, n, lost[d.SwitchTS])
			}
		}
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
		if ts <= start {
			continue
		}
		due = append(due, l)
		if ts <= end {
			covered = len(due)
		}
	}
	got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "checkpoint") })
	if len(got) > len(due) || !slices.Equal(got, due[:len(got)]) || len(got) < covered || err == nil && len(got) != len(due) {
		return fmt.Errorf("from %d to checkpoint %d (%w)\n\t%s\nwas due\n\t%s", start, end, err, strings.Join(got, "\n\t"), strings.Join(due, "\n\t"))
	}
	return nil
}
