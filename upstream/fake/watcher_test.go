package fake_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// run starts a cluster and serves it until the test ends.
func run(t testing.TB, cfg fake.Config) *fake.Cluster {
	t.Helper()
	c, err := fake.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return c
}

// guard is when a test gives up on what has to come, on however slow a machine.
const guard = 3 * time.Minute

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// change is a committed row as the watcher puts it together.
type change struct {
	op         cdcpb.Event_Row_OpType
	value, old string
}

type changeKey struct {
	key           string
	start, commit tso.TS
}

// watcher is a subscriber that does everything the protocol asks for, in the
// plainest way: one stream a store, one subscription a region, unmatched rows in
// maps. It fails on anything that a real cluster would never send.
type watcher struct {
	cl    *client
	from  tso.TS
	loop  bool // filter_loop
	storm bool // streams may break, PD may be silent, and all errors come that say how to go on

	mu       sync.Mutex
	nextID   uint64
	subs     map[uint64]*watched // by request id
	streams  map[uint64]cdcpb.ChangeData_EventFeedV2Client
	frontier *span.Frontier
	rows     map[changeKey]change
	reload   chan span.Span // ranges that need a region
	reached  chan struct{}
	target   tso.TS
	seen     map[string]int // how often what happened
}

// watched is one subscribed region.
type watched struct {
	request     uint64
	store       uint64
	region      *metapb.Region
	span        span.Span
	initialized bool
	resolved    tso.TS
	open        map[changeKey]*cdcpb.Event_Row // prewrites; commit is 0
	commits     []*cdcpb.Event_Row             // before INITIALIZED, without a match
	rollbacks   []*cdcpb.Event_Row
}

func newWatcher(cl *client, from, target tso.TS) *watcher {
	return &watcher{
		cl: cl, from: from, target: target,
		subs: map[uint64]*watched{}, streams: map[uint64]cdcpb.ChangeData_EventFeedV2Client{},
		frontier: span.NewFrontier(span.Span{}, from), rows: map[changeKey]change{},
		reload: make(chan span.Span, 100000), reached: make(chan struct{}), seen: map[string]int{},
	}
}

var errReached = errors.New("target reached")

// watch follows everything until the target is resolved.
func (w *watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	ctx = metadata.AppendToOutgoingContext(ctx, "features", "stream-multiplexing", "pd-allow-follower-handle", "true")
	for id := range w.cl.conns {
		for err := w.open(ctx, id); err != nil; err = w.open(ctx, id) {
			if !w.storm {
				return err
			}
			if err := nap(ctx); err != nil {
				return err
			}
		}
		g.Go(func() error { return w.follow(ctx, id) })
	}
	w.reload <- span.Span{}
	g.Go(func() error {
		for {
			select {
			case s := <-w.reload:
				if err := w.subscribe(ctx, s); err != nil {
					return err
				}
			case <-w.reached:
				return errReached
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err := g.Wait(); !errors.Is(err, errReached) {
		return err
	}
	return nil
}

func (w *watcher) open(ctx context.Context, store uint64) error {
	stream, err := cdcpb.NewChangeDataClient(w.cl.conns[store]).EventFeedV2(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[store] = stream
	return nil
}

// follow reads one store's stream, and in a storm the next when it breaks.
func (w *watcher) follow(ctx context.Context, store uint64) error {
	for {
		w.mu.Lock()
		stream := w.streams[store]
		w.mu.Unlock()
		var broken error
		for broken == nil {
			var ev *cdcpb.ChangeDataEvent
			if ev, broken = stream.Recv(); broken == nil {
				if err := w.take(ev); err != nil {
					return err
				}
			}
		}
		if !w.storm || ctx.Err() != nil {
			return broken
		}
		w.mu.Lock()
		w.seen["broken stream"]++
		for id, sub := range w.subs {
			if sub.store == store {
				delete(w.subs, id)
				w.reload <- sub.span
			}
		}
		w.mu.Unlock()
		for w.open(ctx, store) != nil {
			if err := nap(ctx); err != nil {
				return err
			}
		}
	}
}

// nap is the pause before something is tried again.
func nap(ctx context.Context) error {
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watcher) subscribe(ctx context.Context, s span.Span) error {
	regions, err := w.cl.regions(ctx, s.Start, s.End)
	if err != nil && w.storm {
		w.reload <- s
		return nap(ctx)
	}
	if err != nil {
		return err
	}
	for _, r := range regions {
		part, ok := s.Intersect(span.Span{Start: span.Key(r.Region.StartKey), End: span.Key(r.Region.EndKey)})
		if !ok {
			continue
		}
		w.mu.Lock()
		w.nextID++
		sub := &watched{request: w.nextID, store: r.Leader.StoreId, region: r.Region, span: part, open: map[changeKey]*cdcpb.Event_Row{}}
		w.subs[sub.request] = sub
		sub.resolved = w.frontier.MinOf(part)
		stream := w.streams[sub.store]
		w.mu.Unlock()
		err := stream.Send(&cdcpb.ChangeDataRequest{
			Header:   &cdcpb.Header{ClusterId: w.cl.cluster.ClusterID(), TicdcVersion: "8.5.0"},
			RegionId: r.Region.Id, RegionEpoch: r.Region.RegionEpoch, RequestId: sub.request,
			CheckpointTs: uint64(sub.resolved), StartKey: []byte(part.Start), EndKey: []byte(part.End),
			ExtraOp: kvrpcpb.ExtraOp_ReadOldValue, FilterLoop: w.loop,
		})
		if err != nil && !w.storm {
			return err
		}
		if err != nil {
			w.lost(sub)
		}
	}
	return nil
}

// lost gives up a registration that never went out, or went out on a stream
// that had broken and that nobody reads any more.
func (w *watcher) lost(sub *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[sub.request] == sub {
		delete(w.subs, sub.request)
		w.reload <- sub.span
	}
}

func (w *watcher) take(ev *cdcpb.ChangeDataEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := ev.ResolvedTs; r != nil {
		if len(ev.Events) > 0 {
			return errors.New("events and resolved-ts in one message")
		}
		sub := w.subs[r.RequestId]
		if sub == nil {
			return nil
		}
		return w.resolve(sub, tso.TS(r.Ts))
	}
	if len(ev.Events) > 64 {
		return fmt.Errorf("%d events in one message", len(ev.Events))
	}
	for _, e := range ev.Events {
		if rows := e.GetEntries().GetEntries(); len(rows) > 1 && e.Size() > 34<<10 {
			return fmt.Errorf("%d rows of %d bytes in one event", len(rows), e.Size())
		}
		sub := w.subs[e.RequestId]
		if sub == nil && w.storm {
			continue // of a stream that was given up
		}
		if sub == nil {
			return fmt.Errorf("event of request %d after its end: %v", e.RequestId, e)
		}
		if e.RegionId != sub.region.Id {
			return fmt.Errorf("event of region %d, subscribed to %d", e.RegionId, sub.region.Id)
		}
		switch x := e.Event.(type) {
		case *cdcpb.Event_Error:
			w.seen["error"]++
			plain := x.Error.EpochNotMatch != nil || x.Error.NotLeader != nil || x.Error.Congested != nil
			fatal := x.Error.DuplicateRequest != nil || x.Error.Compatibility != nil || x.Error.ClusterIdMismatch != nil
			if !plain && (!w.storm || fatal) {
				return fmt.Errorf("error event %v", x.Error)
			}
			delete(w.subs, e.RequestId)
			w.reload <- sub.span
		case *cdcpb.Event_Entries_:
			for _, row := range x.Entries.Entries {
				w.seen[row.Type.String()]++
				if err := w.row(sub, row); err != nil {
					return fmt.Errorf("%v: %w", row, err)
				}
			}
		}
	}
	return nil
}

func (w *watcher) resolve(sub *watched, ts tso.TS) error {
	if !sub.initialized {
		return errors.New("resolved-ts before INITIALIZED")
	}
	if ts <= sub.resolved {
		return nil
	}
	sub.resolved = ts
	w.frontier.Forward(sub.span, ts)
	if w.frontier.Min() >= w.target {
		select {
		case <-w.reached:
		default:
			close(w.reached)
		}
	}
	return nil
}

func (w *watcher) row(sub *watched, row *cdcpb.Event_Row) error {
	k := changeKey{key: string(row.Key), start: tso.TS(row.StartTs)}
	if row.Type != cdcpb.Event_UNKNOWN && row.Type != cdcpb.Event_INITIALIZED && !sub.span.Contains(span.EncodeKey(row.Key)) {
		return errors.New("key outside the subscribed range")
	}
	switch row.Type {
	case cdcpb.Event_UNKNOWN:
		if len(row.Key) != 0 {
			return errors.New("unknown row with a key")
		}
	case cdcpb.Event_PREWRITE:
		if old := sub.open[k]; old != nil {
			w.seen["repeated prewrite"]++
			if len(row.Value) == 0 {
				return nil
			}
		}
		sub.open[k] = row
	case cdcpb.Event_COMMIT:
		if len(row.OldValue) != 0 || len(row.Value) > 255 {
			return errors.New("commit with an old or a long value")
		}
		return w.commit(sub, k, row)
	case cdcpb.Event_ROLLBACK:
		if !sub.initialized {
			sub.rollbacks = append(sub.rollbacks, row)
			return nil
		}
		delete(sub.open, k)
	case cdcpb.Event_COMMITTED:
		return w.emit(sub, row, row.Value, row.OldValue)
	case cdcpb.Event_INITIALIZED:
		if sub.initialized {
			return errors.New("initialized twice")
		}
		sub.initialized = true
		for _, c := range sub.commits {
			k := changeKey{key: string(c.Key), start: tso.TS(c.StartTs)}
			if pre := sub.open[k]; pre == nil || (c.OpType == cdcpb.Event_Row_PUT && len(pre.Value) == 0) {
				delete(sub.open, k) // a heartbeat's copy
				w.seen["commit told as committed"]++
				continue
			}
			w.seen["commit before prewrite"]++
			if err := w.commit(sub, k, c); err != nil {
				return err
			}
		}
		for _, r := range sub.rollbacks {
			delete(sub.open, changeKey{key: string(r.Key), start: tso.TS(r.StartTs)})
		}
		sub.commits, sub.rollbacks = nil, nil
	}
	return nil
}

func (w *watcher) commit(sub *watched, k changeKey, row *cdcpb.Event_Row) error {
	pre := sub.open[k]
	if pre == nil || (!sub.initialized && row.OpType == cdcpb.Event_Row_PUT && len(pre.Value) == 0) {
		if sub.initialized {
			return errors.New("commit without a prewrite")
		}
		sub.commits = append(sub.commits, row)
		return nil
	}
	delete(sub.open, k)
	if len(row.Value) != 0 && string(row.Value) != string(pre.Value) {
		return errors.New("commit and prewrite differ")
	}
	return w.emit(sub, row, pre.Value, pre.OldValue)
}

func (w *watcher) emit(sub *watched, row *cdcpb.Event_Row, value, old []byte) error {
	if tso.TS(row.CommitTs) <= w.from {
		return nil // live, but from before the start-ts
	}
	if tso.TS(row.CommitTs) <= sub.resolved {
		return fmt.Errorf("commit-ts at or below the resolved-ts %d", sub.resolved)
	}
	if row.TxnSource > 255 || (w.loop && row.TxnSource != 0) {
		return errors.New("a row that must not be sent")
	}
	k := changeKey{string(row.Key), tso.TS(row.StartTs), tso.TS(row.CommitTs)}
	c := change{row.OpType, string(value), string(old)}
	if had, ok := w.rows[k]; ok && had != c {
		return fmt.Errorf("the same change %x of %d/%d with other data: %v of %d and %d bytes, before %v of %d and %d; values equal: %t, values before equal: %t",
			row.Key, row.StartTs, row.CommitTs, c.op, len(c.value), len(c.old), had.op, len(had.value), len(had.old), c.value == had.value, c.old == had.old)
	}
	w.rows[k] = c
	return nil
}
