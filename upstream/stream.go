package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// stream is one connection's change stream with one store. It lives until it
// fails or falls silent, or until no subscription is left on it.
type stream struct {
	client  *Client
	id      uint64 // new at every connect
	store   uint64
	began   time.Time
	budget  *budget
	pulse   pulse
	address atomic.Pointer[string] // where it is connected to
	opened  atomic.Bool            // the store has taken the call
	wake    chan struct{}          // holds one token while there may be something to send
	idle    chan struct{}          // closed when no subscription is left
	silent  chan struct{}          // closed when it is given up for its silence

	mu     sync.Mutex
	feeds  map[uint64]*feed           // guarded by mu; by number
	gate   *region.Gate[waiting]      // guarded by mu; registrations until they are scanned; one a region that a subscription holds
	live   map[region.Ticket]struct{} // guarded by mu; registrations that are scanned
	scans  time.Duration              // guarded by mu; since began: when something of any scan last came
	leaves []*cdcpb.ChangeDataRequest // guarded by mu; the ends of registrations, sent first; one each at most
	closed bool                       // guarded by mu
}

// waiting is a registration at the gate.
type waiting struct {
	feed    *feed
	request *cdcpb.ChangeDataRequest
}

// streams finds the stream of a store.
type streams struct {
	mu     sync.Mutex
	last   uint64             // guarded by mu; number of the last stream
	by     map[uint64]*stream // guarded by mu; by store
	pauses map[uint64]pause   // guarded by mu; by store
	hushes map[uint64]int     // guarded by mu; by store: streams given up in a row for their silence
}

// pause keeps a store that fails from being connected to in a tight loop.
type pause struct {
	fails int
	until time.Time
}

const (
	pauseMin = 100 * time.Millisecond
	pauseMax = time.Second // a store that returns is back within a second
)

// request puts a registration on the store's stream and says which stream that
// is. The feed will hear when it breaks.
func (c *Client) request(ctx context.Context, f *feed, q region.Request) (*stream, error) {
	for {
		s, fresh := c.streams.get(c, q.Region.Store)
		if fresh {
			c.ears.open(s.store)
			if err := c.launch(ctx, s); err != nil {
				s.close(err)
				return nil, err
			}
		}
		if s.add(f, c.registration(f, q), q.Urgent) {
			return s, nil
		}
	}
}

func (t *streams) get(c *Client, store uint64) (s *stream, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.by[store]; s != nil {
		return s, false
	}
	t.last++
	s = &stream{
		client: c, id: t.last, store: store, began: time.Now(),
		budget: newBudget(c.cfg.StreamBudget),
		wake:   make(chan struct{}, 1),
		idle:   make(chan struct{}),
		silent: make(chan struct{}),
		feeds:  map[uint64]*feed{},
		gate:   region.NewGate[waiting](region.Window{Calm: c.cfg.ScanWindow, Urgent: urgentFactor * c.cfg.ScanWindow}),
		live:   map[region.Ticket]struct{}{},
	}
	s.pulse.heardNow()
	if t.by == nil {
		t.by = map[uint64]*stream{}
		t.pauses = map[uint64]pause{}
		t.hushes = map[uint64]int{}
	}
	t.by[store] = s
	return s, true
}

// forget takes a closed stream out, so that the next request opens a new one.
func (t *streams) forget(s *stream, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[s.store] == s {
		delete(t.by, s.store)
	}
	if failed {
		p := t.pauses[s.store]
		p.until = time.Now().Add(min(pauseMin<<min(p.fails, 8), pauseMax))
		p.fails++
		t.pauses[s.store] = p
	}
}

// works notes that the store answered.
func (t *streams) works(store uint64) {
	t.mu.Lock()
	delete(t.pauses, store)
	t.mu.Unlock()
}

func (t *streams) pausedUntil(store uint64) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pauses[store].until
}

// registration is the request in TiKV's words.
func (c *Client) registration(f *feed, q region.Request) *cdcpb.ChangeDataRequest {
	priority := cdcpb.ScanPriority_SCAN_PRIORITY_LOW
	if q.Urgent {
		priority = cdcpb.ScanPriority_SCAN_PRIORITY_HIGH
	}
	return &cdcpb.ChangeDataRequest{
		Header:       &cdcpb.Header{ClusterId: c.cluster, TicdcVersion: protocolVersion},
		RegionId:     q.Region.ID,
		RegionEpoch:  &metapb.RegionEpoch{ConfVer: q.Region.ConfVer, Version: q.Region.Version},
		CheckpointTs: uint64(q.StartTS),
		StartKey:     []byte(q.Span.Start),
		EndKey:       []byte(q.Span.End),
		RequestId:    f.requestID(q.Slot),
		ExtraOp:      kvrpcpb.ExtraOp_ReadOldValue,
		FilterLoop:   f.filterLoop,
		ScanPriority: priority,
	}
}

// deregistration ends one registration, or with region 0 all of a request id.
func (c *Client) deregistration(request, region uint64) *cdcpb.ChangeDataRequest {
	return &cdcpb.ChangeDataRequest{
		Header:    &cdcpb.Header{ClusterId: c.cluster, TicdcVersion: protocolVersion},
		RegionId:  region,
		RequestId: request,
		Request:   &cdcpb.ChangeDataRequest_Deregister_{Deregister: &cdcpb.ChangeDataRequest_Deregister{}},
	}
}

// add lines a registration of f up; false when the stream is over.
func (s *stream) add(f *feed, q *cdcpb.ChangeDataRequest, urgent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.feeds[f.number] = f
	s.gate.Push(region.Ticket{Request: q.RequestId, Region: q.RegionId}, waiting{f, q}, urgent)
	s.signal()
	return true
}

// scanned tells that a registration's scan is through: there is room for another.
func (s *stream) scanned(k region.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.gate.Done(k); known && !s.closed {
		s.live[k] = struct{}{}
		s.signal()
	}
}

// end gives one registration up.
func (s *stream) end(k region.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if sent, waited := s.gate.Done(k); waited && !sent {
		return
	}
	delete(s.live, k)
	s.leaves = append(s.leaves, s.client.deregistration(k.Request, k.Region))
	s.signal()
}

// overLocked notes that the store has ended a registration.
func (s *stream) overLocked(k region.Ticket) {
	s.gate.Done(k)
	delete(s.live, k)
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave ends all registrations of f, which are these. The last one to leave ends
// the stream.
func (s *stream) leave(f *feed, all []region.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.feeds[f.number] != f {
		return
	}
	delete(s.feeds, f.number)
	for _, k := range all { // and no others: a thousand may leave one after the other
		s.gate.Done(k)
		delete(s.live, k)
	}
	if len(s.feeds) == 0 {
		s.closed = true
		close(s.idle)
		s.client.streams.forget(s, false)
		return
	}
	for slot := range uint8(region.Slots) {
		s.leaves = append(s.leaves, s.client.deregistration(f.requestID(slot), 0))
	}
	s.signal()
}

// close ends the stream and tells every subscription on it.
func (s *stream) close(err error) {
	s.mu.Lock()
	feeds := s.feeds
	already := s.closed
	s.closed, s.feeds, s.leaves, s.live = true, nil, nil, nil
	s.gate.DoneAll()
	s.mu.Unlock()
	if already {
		return
	}
	s.client.counts.streamsBroken.Add(1)
	s.client.streams.forget(s, true)
	s.client.ears.broke(s.store)
	for _, f := range feeds {
		f.inbox.put(delivery{stream: s.id, gone: true, err: err})
	}
}

// run connects and moves requests and messages until the stream ends.
func (s *stream) run(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-s.idle:
			return errIdle
		case <-s.silent:
			// The connection may be why: not even its end may come through.
			s.client.conns.drop(s.address.Load())
			return cdcerr.EventFeed.New("the stream of store %d is open, but no resolved-ts came over it for %v", s.store, s.pulse.silence().Round(time.Second))
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		rpc, err := s.connect(ctx)
		if err != nil {
			return err
		}
		g.Go(func() error { return s.send(ctx, rpc) })
		return s.receive(ctx, rpc)
	})
	err := g.Wait()
	s.client.log.Debug("change stream ended", "store", s.store, "stream", s.id, "cause", err)
	s.close(err)
}

var errIdle = errors.New("no subscription is left on the stream")

func (s *stream) connect(ctx context.Context) (cdcpb.ChangeData_EventFeedV2Client, error) {
	if wait := time.Until(s.client.streams.pausedUntil(s.store)); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	address, err := s.client.storeAddress(ctx, s.store)
	if err != nil {
		return nil, err
	}
	cc, err := s.client.conn(address)
	if err != nil {
		return nil, err
	}
	s.address.Store(&address)
	cc.ResetConnectBackoff() // our own pause is over
	ctx = metadata.AppendToOutgoingContext(ctx, "features", "stream-multiplexing")
	rpc, err := cdcpb.NewChangeDataClient(cc).EventFeedV2(ctx, grpc.ForceCodecV2(feedCodec{}))
	if err != nil {
		return nil, s.broken(err)
	}
	s.opened.Store(true)
	s.client.log.Debug("change stream opened", "store", s.store, "stream", s.id, "address", address)
	return rpc, nil
}

// broken gives a stream's end its code: a store that does not know the protocol
// will not learn it by being asked again.
func (s *stream) broken(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return cdcerr.VersionIncompatible.Wrap(err, "store %d does not speak the multiplexed change stream", s.store)
	}
	return cdcerr.EventFeed.Wrap(err, "the stream of store %d broke", s.store)
}

func (s *stream) send(ctx context.Context, rpc cdcpb.ChangeData_EventFeedV2Client) error {
	for {
		for q := s.next(); q != nil; q = s.next() {
			if err := rpc.Send(q); err != nil {
				return nil //nolint:nilerr // the receiver hears the reason
			}
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// next is what to send next, nil where nothing may be sent now. Ends go first: a
// region's new registration must not meet its old one.
func (s *stream) next() *cdcpb.ChangeDataRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leaves) > 0 {
		q := s.leaves[0]
		s.leaves = s.leaves[1:]
		return q
	}
	w, _ := s.gate.Next(time.Since(s.began), func(w waiting) bool { return !w.feed.tight.Load() })
	return w.request
}

func (s *stream) receive(ctx context.Context, rpc cdcpb.ChangeData_EventFeedV2Client) error {
	spoke := false
	for first := true; ; first = false {
		m := &message{} // never used again: rows alias it
		if err := rpc.RecvMsg(m); err != nil {
			return s.broken(err)
		}
		s.client.counts.messages.Add(1)
		if first {
			s.client.streams.works(s.store)
		}
		if m.resolves {
			s.pulse.heardNow()
			s.client.ears.hear(s.store)
			if !spoke {
				s.client.streams.speaks(s.store)
			}
			spoke = true
		}
		if err := s.deliver(ctx, m); err != nil {
			return err
		}
	}
}

// deliver gives a message to the subscriptions that it is for, as soon as the
// budget has room for it.
func (s *stream) deliver(ctx context.Context, m *message) error {
	parts := s.sort(m)
	if len(parts) == 0 {
		return nil
	}
	lent, err := s.budget.lend(ctx, m.size, len(parts), &s.pulse)
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.share = lent
		p.feed.inbox.put(p.delivery)
	}
	return nil
}

type part struct {
	feed *feed
	delivery
}

// sort splits a message by subscription. What belongs to none, the late answers
// to a subscription that left, is dropped.
func (s *stream) sort(m *message) []part {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.began)
	for i := range m.events {
		k := region.Ticket{Request: m.events[i].request, Region: m.events[i].region}
		if m.events[i].isError {
			s.overLocked(k)
		} else if s.gate.Heard(k, now) {
			s.scans = now
		}
	}
	var parts []part
	of := func(request uint64) *part {
		f := s.feeds[feedNumber(request)]
		if f == nil {
			return nil
		}
		for i := len(parts) - 1; i >= 0; i-- {
			if parts[i].feed == f {
				return &parts[i]
			}
		}
		parts = append(parts, part{feed: f, delivery: delivery{stream: s.id}})
		return &parts[len(parts)-1]
	}
	if alike(m.events) {
		if p := of(m.events[0].request); p != nil {
			p.events = m.events
		}
	} else {
		for _, e := range m.events {
			if p := of(e.request); p != nil {
				p.events = append(p.events, e)
			}
		}
	}
	if len(m.resolved.regions) > 0 {
		if p := of(m.resolved.request); p != nil {
			p.resolved = &m.resolved
		}
	}
	return parts
}

// alike tells whether all events are for one subscription, as in nearly every message.
func alike(events []regionEvent) bool {
	for i := range events {
		if feedNumber(events[i].request) != feedNumber(events[0].request) {
			return false
		}
	}
	return len(events) > 0
}
