package pipeline_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// recorded is a recording as a whole changefeed replicated it.
type recorded struct {
	start, end tso.TS
	schema     *kept
	lives      []life
	mu         sync.Mutex
	rows       map[int64][]event.RawKV // as they came, by physical id
	lines      map[int64][]string      // as the downstream got them, by the span's id
}

// life is a span's id, and when its rows are wanted.
type life struct {
	id       int64
	from, to tso.TS
}

// kept is a schema that forgets nothing, and remembers which DDLs it gave.
type kept struct {
	*schemafeed.Feed
	ddls []*event.DDL
}

func (k *kept) Forget(tso.TS) {}

func (k *kept) DDLs(upto tso.TS) []*event.DDL {
	ddls := k.Feed.DDLs(upto)
	k.ddls = append(k.ddls, ddls...)
	return ddls
}

// Subscribe passes on what an upstream gives, and keeps the rows.
type keeping struct {
	ingest.Upstream
	r *recorded
}

func (k keeping) Subscribe(ctx context.Context, s upstream.Subscription, out func(upstream.Batch) error) error {
	return k.Upstream.Subscribe(ctx, s, func(b upstream.Batch) error {
		k.r.mu.Lock()
		k.r.rows[s.Span.TableID] = append(k.r.rows[s.Span.TableID], b.Rows...)
		k.r.mu.Unlock()
		return out(b)
	})
}

// lined is a downstream that writes down each row, by its span's id.
type lined struct {
	downstream
	take func(id int64, ts tso.TS, line string) error
}

func (l *lined) Write(_ context.Context, _ sink.Leave, txns []event.Txn) error {
	for _, txn := range txns {
		for _, r := range txn.Rows {
			if err := l.take(idOf(r), r.CommitTS, lineOf(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

func idOf(r *event.Row) int64 {
	if r.Table.Unit() {
		return r.Table.ID
	}
	for _, id := range r.Table.PhysicalIDs() {
		if strings.HasPrefix(string(r.Key), string(span.RecordPrefix(id))) {
			return id
		}
	}
	return 0
}

func lineOf(r *event.Row) string {
	return fmt.Sprintf("%d %d %X of %d: %v > %v", r.CommitTS, r.StartTS, r.Key, r.Table.ID, r.Before, r.After)
}

var everything = filter.Scope{ForceReplicate: true}

// record replays a recording through a whole changefeed.
func record(t *testing.T, path string) *recorded {
	t.Helper()
	rec, err := fake.LoadRecording(path + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fake.Start(fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 5 * time.Millisecond, Calm: true})
	if err != nil {
		t.Fatal(err)
	}
	out := &recorded{start: rec.StartTS, end: rec.EndTS, rows: map[int64][]event.RawKV{}, lines: map[int64][]string{}}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	g.Go(func() error {
		cfg := upstream.Default()
		cfg.PD = cluster.PD()
		client, err := upstream.Open(ctx, cfg)
		if err != nil {
			return err
		}
		g.Go(func() error {
			defer client.Close()
			return client.Run(ctx)
		})
		out.schema = &kept{Feed: schemafeed.New(schemafeed.Config{StartTS: rec.StartTS}, client)}
		if err := out.schema.Load(ctx); err != nil {
			return err
		}
		out.begin(rec.StartTS)
		g.Go(func() error { return out.schema.Run(ctx) })
		in := ingest.New(keeping{client, out}, sorter.NewMemory(1<<30))
		g.Go(func() error { return in.Run(ctx) })
		down := &lined{take: func(id int64, _ tso.TS, line string) error {
			out.lines[id] = append(out.lines[id], line)
			return nil
		}}
		err = pipeline.New(pipeline.Config{Changefeed: "whole", StartTS: rec.StartTS, TargetTS: rec.EndTS, Filter: everything.Rules, ForceReplicate: true}, in, out.schema, down).Run(ctx)
		stop()
		if cdcerr.RenameIntoScope.Is(err) || cdcerr.FlashbackCluster.Is(err) || cdcerr.TableIneligible.Is(err) {
			return nil // the changefeed ends here, and what follows is nobody's
		}
		return err
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	out.sort()
	for _, d := range out.schema.ddls {
		turn := everything.Turn(d, func() []*event.Table { return nil })
		if turn.Err != nil {
			out.end = d.SwitchTS
			break
		}
		for _, id := range turn.Removed {
			i := slices.IndexFunc(out.lives, func(l life) bool { return l.id == id && l.to == tso.Max })
			out.lives[i].to = d.SwitchTS
		}
		for _, id := range turn.Added {
			out.lives = append(out.lives, life{id, turn.AddedAt, tso.Max})
		}
	}
	return out
}

// sort puts rows in order, which they did not come in, and each once.
func (r *recorded) sort() {
	for id, rows := range r.rows { // as they came: not in order, and some twice
		slices.SortFunc(rows, func(a, b event.RawKV) int {
			return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
		})
		r.rows[id] = slices.CompactFunc(rows, func(a, b event.RawKV) bool {
			return a.CommitTS == b.CommitTS && a.StartTS == b.StartTS && bytes.Equal(a.Key, b.Key)
		})
	}
}

func (r *recorded) begin(start tso.TS) {
	for _, table := range r.schema.Tables(start.Prev()) {
		if everything.Table(table) != filter.Wanted {
			continue
		}
		for _, id := range table.SpanIDs() {
			r.lives = append(r.lives, life{id, start, tso.Max})
		}
	}
}

// still is the schema once everything is known.
type still struct {
	*schemafeed.Feed
	upto tso.TS
}

func (s still) Resolved() tso.TS { return s.upto }

// play is Spans that get their orders from a seed: spans come, stop and go on again
// at any moment, and their limits rise in steps.
type play struct {
	*recorded
	*rand.Rand
	s      *pipeline.Spans
	tokens chan struct{} // one lets the sink take one Write

	mu     sync.Mutex
	at     map[int64]*playing
	got    map[int64][]string
	breaks int // spans that were stopped before their end
}

// playing is a span's part in a play.
type playing struct {
	life
	next       []life        // a table that was dropped may be recovered
	phase      pipeline.What // 0: nobody has it, Moved: it is written
	prepared   bool
	stopping   bool
	since      tso.TS // when it was ordered last
	checkpoint tso.TS
	resolved   tso.TS
	limit      tso.TS
}

func (p *play) tell(t pipeline.Told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.at[t.Span.TableID]
	switch {
	case t.What == pipeline.Arrived && x.phase == 0 && x.prepared && t.Resolved > x.since:
		x.phase = pipeline.Arrived
	case t.What == pipeline.Moved && x.phase == pipeline.Moved && t.Checkpoint >= x.checkpoint && t.Resolved >= x.resolved && t.Checkpoint <= t.Resolved && t.Resolved <= x.limit:
		x.checkpoint, x.resolved = t.Checkpoint, t.Resolved
	case t.What == pipeline.Ended && x.stopping && (t.Checkpoint >= x.checkpoint || x.phase != pipeline.Moved && t.Checkpoint == 0):
		x.checkpoint = max(x.checkpoint, t.Checkpoint)
		x.phase, x.prepared, x.stopping = 0, false, false
		if x.checkpoint >= x.to && len(x.next) > 0 {
			x.life, x.next = x.next[0], x.next[1:]
			x.checkpoint, x.limit = x.from, x.from
		}
	default:
		panic(fmt.Sprintf("%+v was told of %+v", t, *x))
	}
}

func (p *play) limit(s span.Span) tso.TS {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[s.TableID].limit
}

// take is the sink's.
func (p *play) take(id int64, ts tso.TS, line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.at[id]
	if x == nil || x.phase != pipeline.Moved || ts <= x.since || ts > x.limit || ts <= x.checkpoint {
		return fmt.Errorf("%s comes when it is at %+v", line, x)
	}
	if got := p.got[id]; !slices.Contains(got[max(0, len(got)-64):], line) { // of its commit-ts, again
		p.got[id] = append(got, line)
	}
	return nil
}

// step gives one order, or lets something move.
func (p *play) step() {
	p.mu.Lock()
	var open []*playing
	for _, x := range p.at {
		if x.phase != 0 || x.checkpoint < min(x.to, p.end) || len(x.next) > 0 {
			open = append(open, x)
		}
	}
	if len(open) == 0 { // the last of them ended since it was asked
		p.mu.Unlock()
		return
	}
	slices.SortFunc(open, func(a, b *playing) int { return int(a.id - b.id) })
	x := open[p.IntN(len(open))]
	s := span.OfTable(x.id)
	give := func() {}
	switch dice := p.IntN(10); {
	case dice < 2:
		for range p.IntN(4) {
			select {
			case p.tokens <- struct{}{}:
			default:
			}
		}
	case dice < 5:
		x.limit = min(x.to, x.limit+tso.TS(p.Uint64N(uint64(p.end-p.start)/4+1)))
		give = p.s.Look
	case x.stopping:
	case x.phase == pipeline.Moved && (x.checkpoint >= min(x.to, p.end) || dice == 9):
		if x.checkpoint < p.end {
			p.breaks++
		}
		x.stopping = true
		give = func() { p.s.Stop(s) }
	case x.phase == pipeline.Arrived && dice == 8, x.prepared && dice == 7:
		x.stopping = true
		give = func() { p.s.Stop(s) }
	case x.phase == pipeline.Arrived:
		x.phase = pipeline.Moved
		from := x.checkpoint
		x.limit = max(x.limit, from)
		x.since, x.resolved = max(from, p.start), from
		give = func() { p.s.Write(s, from) }
	case !x.prepared:
		x.prepared, x.since = true, x.checkpoint
		from := x.checkpoint
		give = func() { p.s.Prepare(s, from) }
	}
	p.mu.Unlock()
	give()
}

func (p *play) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.at {
		if x.phase != 0 || x.checkpoint < min(x.to, p.end) || len(x.next) > 0 {
			return false
		}
	}
	return true
}

// slow is a sink that takes a Write for a token.
type slow struct {
	lined
	tokens chan struct{}
}

func (s *slow) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	select {
	case <-s.tokens:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.lined.Write(ctx, leave, txns)
}

// run plays a seed to the end.
func (r *recorded) play(t *testing.T, seed uint64) {
	p := &play{recorded: r, Rand: rand.New(rand.NewPCG(seed, 1)), tokens: make(chan struct{}, 8), at: map[int64]*playing{}, got: map[int64][]string{}}
	for _, l := range r.lives {
		if x := p.at[l.id]; x != nil {
			x.next = append(x.next, l)
			continue
		}
		p.at[l.id] = &playing{life: l, checkpoint: l.from, limit: l.from}
	}
	total := 0 // so that a play of many rows is no longer than others
	for _, rows := range r.rows {
		total += len(rows)
	}
	up := past{rows: r.rows, end: r.end, piece: 1 + p.IntN(50) + total/100}
	in, end := ingested(up, sorter.NewMemory(1<<uint(10+p.IntN(10))))
	defer end()
	down := &slow{lined{take: p.take}, p.tokens}
	p.s = pipeline.NewSpans(pipeline.SpansConfig{
		Changefeed: "parts", StartTS: r.start, Filter: everything.Rules, ForceReplicate: true,
		BatchRows: 1 + p.IntN(20) + total/1000, TxnBytes: 1 << uint(10+p.IntN(14)), FlushEvery: time.Duration(p.IntN(3)-1) * time.Millisecond,
		Limit: p.limit, Tell: p.tell,
		Open: func(context.Context) (sink.Sink, error) { return down, nil },
	}, in, still{r.schema.Feed, r.end})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.s.Run(ctx) }()
	steps := 0
	for ; !p.over(); steps++ {
		if steps > 1_000_000 {
			t.Fatalf("seed %d: still not over", seed)
		}
		p.step()
		if p.IntN(3) > 0 {
			synctest.Wait()
		}
		select {
		case err := <-done:
			t.Fatalf("seed %d: %v", seed, err)
		default:
		}
	}
	stop()
	<-done
	for _, l := range r.lives {
		if got, want := p.got[l.id], r.lines[l.id]; !slices.Equal(got, want) {
			t.Fatalf("seed %d: table %d got %d rows, want %d", seed, l.id, len(got), len(want))
		}
	}
	t.Logf("%d steps, %d spans, %d of them stopped and begun again", steps, len(r.lives), p.breaks)
}

// Whatever spans come, stop and go on again, at whatever moment, the sink gets of each
// the rows that a whole changefeed gets, in the same order, and none above a limit.
func TestSpansWriteWhatAWholeChangefeedWrites(t *testing.T) {
	var err error
	if everything.Rules, err = filter.New(filter.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range golden.Recordings(t) {
		name := golden.Name(t, path)
		if testing.Short() && name != "08_txn" && name != "11_partition" && name != "12_ddl_table" {
			continue
		}
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			if strings.HasPrefix(name, "workloads") || name == "10_large" {
				t.Skip("too many rows to be written by the handful")
			}
			r := record(t, path)
			for range 3 {
				seed := rand.Uint64()
				synctest.Test(t, func(t *testing.T) { r.play(t, seed) })
			}
		})
	}
}
