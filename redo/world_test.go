package redo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// A pipeline takes the gate as it is.
var _ pipeline.Gate = (*redo.Gate)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var testID = redo.ID{Cluster: 7, Namespace: "default", Changefeed: "orders", Incarnation: "1-x"}

// start is where the changefeeds of these tests begin.
const start tso.TS = 1000

// happening is one thing that the upstream did.
type happening struct {
	raw *event.RawKV
	ddl *event.DDL
}

func (h happening) ts() tso.TS {
	if h.ddl != nil {
		return h.ddl.SwitchTS
	}
	return h.raw.CommitTS
}

var testTable = &event.Table{ID: 1, Schema: "d", Name: "t", Columns: []event.Column{{ID: 1, Name: "a"}}}

// history is what an upstream of this seed did: rows of a few keys, put and
// deleted, several with one commit-ts, and DDLs between.
func history(seed uint64, n int) []happening {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []happening
	ts := start
	for i := range n {
		ts += tso.TS(rng.IntN(3))
		if i == 0 || rng.IntN(9) == 0 {
			ts++
			out = append(out, happening{ddl: &event.DDL{JobID: int64(i + 1), Action: event.ActionAddColumn, SwitchTS: ts, Query: fmt.Sprint("DDL ", i)}})
			ts++
			continue
		}
		raw := &event.RawKV{Op: event.Put, StartTS: start - 1, CommitTS: ts, Key: fmt.Appendf(nil, "k%03d", i*7%11), Value: fmt.Appendf(nil, "v%d", i)}
		if rng.IntN(4) == 0 {
			raw.Op, raw.Value = event.Delete, nil
		}
		// Of one commit-ts every key comes once, in order.
		if last := len(out) - 1; last >= 0 && out[last].raw != nil && !out[last].raw.Less(raw) {
			ts++
			raw.CommitTS = ts
		}
		out = append(out, happening{raw: raw})
	}
	return out
}

// snapshot is the upstream at ts: rows by key, and DDLs by job.
func snapshot(all []happening, ts tso.TS) map[string]string {
	out := map[string]string{}
	for _, h := range all {
		if h.ts() <= ts {
			apply(out, h)
		}
	}
	return out
}

func apply(to map[string]string, h happening) {
	switch {
	case h.ddl != nil:
		to[fmt.Sprint("job ", h.ddl.JobID)] = h.ddl.Query
	case h.raw.Op == event.Delete:
		delete(to, string(h.raw.Key))
	default:
		to[string(h.raw.Key)] = string(h.raw.Value)
	}
}

// target is a downstream that writes keys side by side: above its checkpoint some are
// ahead of others.
type target struct {
	rng        *rand.Rand
	content    map[string]string
	reached    map[string]tso.TS // by key
	highest    tso.TS
	checkpoint tso.TS // what the changefeed remembers of it
}

func newTarget(seed uint64) *target {
	return &target{rng: rand.New(rand.NewPCG(seed, 2)), content: map[string]string{}, reached: map[string]tso.TS{}, checkpoint: start}
}

// write writes what lies in (checkpoint, upto] for some keys, each as far as chance
// has it; whole: for all.
func (d *target) write(all []happening, upto tso.TS, whole bool) {
	stopped := map[string]bool{}
	for _, h := range all {
		if h.ts() <= d.checkpoint || h.ts() > upto {
			continue
		}
		key := "ddl"
		if h.raw != nil {
			key = string(h.raw.Key)
		}
		// A DDL waits for all that comes before it, and holds up all that comes after.
		if h.ddl != nil && len(stopped) > 0 || stopped["ddl"] {
			stopped["ddl"] = true
			continue
		}
		if stopped[key] || !whole && d.rng.IntN(3) == 0 {
			stopped[key] = true
			continue
		}
		if h.ts() > d.reached[key] || h.ddl != nil {
			apply(d.content, h)
			d.reached[key] = h.ts()
			d.highest = max(d.highest, h.ts())
		}
	}
}

// settle moves the checkpoint up to ts.
func (d *target) settle(all []happening, ts tso.TS) {
	d.write(all, ts, true)
	d.checkpoint = max(d.checkpoint, ts)
}

// life is a capture that is its cluster's owner, until ctx ends or all is written.
type life struct {
	bucket   objstore.Bucket
	revision int64
	all      []happening
	down     *target
	cfg      redo.Config
	id       redo.ID
	rounds   int // in how many steps it writes its history; 0 is 6
}

func (l *life) run(ctx context.Context) error {
	if err := redo.Claim(ctx, l.cfg, l.bucket, l.id); err != nil {
		return err
	}
	meta, err := redo.OpenMeta(ctx, l.cfg, l.bucket, l.id, l.revision, l.down.checkpoint)
	if err != nil {
		return err
	}
	w := redo.NewWriter(l.cfg, l.bucket, l.id, l.down.checkpoint)
	ddls, err := redo.NewDDLWriter(l.cfg, l.bucket, l.id)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		return l.drive(ctx, meta, w, ddls)
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (l *life) drive(ctx context.Context, meta *redo.Meta, w *redo.Writer, ddls *redo.DDLWriter) error {
	begin, end := l.down.checkpoint, l.all[len(l.all)-1].ts()
	at, rounds := begin, l.rounds
	if rounds == 0 {
		rounds = 6
	}
	for round := range rounds {
		upto := begin + (end-begin)*tso.TS(round+1)/tso.TS(rounds)
		for _, h := range l.all {
			if h.ts() <= at || h.ts() > upto {
				continue
			}
			var err error
			if h.ddl != nil {
				err = ddls.Write(ctx, h.ddl)
			} else {
				err = w.Append(ctx, h.raw, testTable)
			}
			if err != nil {
				return err
			}
		}
		at = upto
		w.Resolve(upto)
		for w.Durable().TS < upto {
			select {
			case <-w.Moved():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := l.settle(ctx, meta, w, ddls, round); err != nil {
			return err
		}
	}
	return nil
}

// settle persists how far it is, lets the sink write, and removes what nobody needs.
func (l *life) settle(ctx context.Context, meta *redo.Meta, w *redo.Writer, ddls *redo.DDLWriter, round int) error {
	d := w.Durable()
	mark := redo.Mark{Checkpoint: l.down.checkpoint, Resolved: d.TS, Extents: []record.Extent{d.Extent, ddls.Extent()}}
	err := meta.Advance(ctx, mark)
	limit := meta.Gate().Limit()
	l.down.write(l.all, limit, false) // a sink does not wait for what the owner hears
	if err != nil {
		return err
	}
	if round%2 == 1 {
		l.down.settle(l.all, limit-(limit-l.down.checkpoint)/2)
		mark.Checkpoint = l.down.checkpoint
		if err := meta.Advance(ctx, mark); err != nil {
			return err
		}
		if _, err := meta.Collect(ctx); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// recovers holds the log to what it promises, whatever has happened to its writers:
// a copy of the downstream becomes the upstream's snapshot at the meta's resolved-ts.
func recovers(t testing.TB, b objstore.Bucket, all []happening, d *target) tso.TS {
	t.Helper()
	inv, err := redo.Open(t.Context(), b, testID)
	must(t, err)
	must(t, inv.Err())
	if d.highest > inv.Meta.Resolved {
		t.Fatalf("P5: %d is downstream, resolved-ts is %d", d.highest, inv.Meta.Resolved)
	}
	if inv.Meta.Checkpoint > d.checkpoint || inv.Meta.Checkpoint > inv.Meta.Resolved {
		t.Fatalf("checkpoint-ts %d, the downstream's is %d, resolved-ts %d", inv.Meta.Checkpoint, d.checkpoint, inv.Meta.Resolved)
	}
	rep, err := redo.Verify(t.Context(), b, inv, 2)
	must(t, err)
	must(t, rep.Err())
	got := maps.Clone(d.content)
	var entries []record.Entry
	must(t, redo.Merge(t.Context(), b, inv, redo.DefaultMerge(inv), func(e record.Entry) error {
		entries = append(entries, e)
		apply(got, happening{raw: e.Raw, ddl: e.DDL})
		return nil
	}))
	i := 0
	for _, h := range all {
		if h.ts() <= inv.Meta.Checkpoint || h.ts() > inv.Meta.Resolved {
			continue
		}
		if i >= len(entries) {
			t.Fatalf("%d entries in (%d, %d], and no %d", i, inv.Meta.Checkpoint, inv.Meta.Resolved, h.ts())
		}
		e := entries[i]
		if h.ddl != nil && (e.DDL == nil || e.DDL.JobID != h.ddl.JobID) || h.raw != nil && (e.Raw == nil || string(e.Raw.Key) != string(h.raw.Key) || e.TS() != h.ts()) {
			t.Fatalf("entry %d is at %d, want %d", i, e.TS(), h.ts())
		}
		i++
	}
	if i != len(entries) {
		t.Fatalf("%d entries, want %d", len(entries), i)
	}
	if want := snapshot(all, inv.Meta.Resolved); !maps.Equal(got, want) {
		t.Fatalf("at %d (checkpoint %d):\n got %v\nwant %v", inv.Meta.Resolved, inv.Meta.Checkpoint, got, want)
	}
	return inv.Meta.Resolved
}
