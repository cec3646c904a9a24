package fake

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/pingcap/kvproto/pkg/cdcpb"
)

// TiKV's own limits of what goes into one message.
const (
	eventBytes     = 32 << 10 // rows of one Event, where they can be cut
	responseEvents = 64
	responseBytes  = 6 << 20
)

const (
	// scanShare is the part of a stream's queue that scans may fill: the rest is
	// for live rows, which cannot wait.
	scanShare = 4
	// paceBytes is what a replay as fast as it is read keeps waiting per stream:
	// enough for the sender never to run dry, a few milliseconds' worth.
	paceBytes = 1 << 20
	// queuedResolved is how many resolved-ts messages may wait for a reader. One
	// that is so far behind gets the newest once it has caught up.
	queuedResolved = 256
)

// smallItem is what an event without data counts in the queue.
const smallItem = 64

// item is one Event or ResolvedTs message on its way to a subscriber.
type item struct {
	sub      *subscription // whose rows or error; nil for resolved and late errors
	rows     []*cdcpb.Event_Row
	encoded  []byte // rows that are encoded already, in place of rows
	event    *cdcpb.Event
	resolved *cdcpb.ResolvedTs
	promise  bool // resolved-ts, in either form
	bytes    int64
}

// conn is one EventFeed stream: who subscribed on it, and the queue to its
// reader. The queue is bounded: scans wait for room, live rows that find none
// end their subscription, resolved-ts is left out.
type conn struct {
	store     uint64
	multiplex bool // resolved-ts and deregistering by request_id

	// Set by the first request of the stream.
	greeted       bool
	batchResolved bool // the subscriber knows the ResolvedTs message
	checkCluster  bool

	subs   map[subKey]*subscription // under Cluster.mu
	quota  int64
	scans  chan *subscription // both bounded by scanLimit
	urgent chan *subscription
	wake   chan struct{} // capacity 1: there is something to send
	cut    chan error    // capacity 1: end the stream with this status

	mu       sync.Mutex // guards what follows; taken after Cluster.mu where both are
	queue    []*item
	bytes    int64 // of the queue and of what is being sent
	resolved int   // promises in the queue
	drained  chan struct{}
	closed   bool
	stuck    bool       // a replay waited long enough for it
	rng      *rand.Rand // nil = rows stay in order
}

// scanLimit is how many regions of one stream may wait for their scan.
const scanLimit = 10000

func newConn(store uint64, multiplex bool, quota int64, rng *rand.Rand) *conn {
	return &conn{
		store: store, multiplex: multiplex, quota: quota, rng: rng,
		subs:    map[subKey]*subscription{},
		scans:   make(chan *subscription, scanLimit),
		urgent:  make(chan *subscription, scanLimit),
		wake:    make(chan struct{}, 1),
		cut:     make(chan error, 1),
		drained: make(chan struct{}),
	}
}

// live queues a row that cannot wait; false means that there is no room.
func (cn *conn) live(sub *subscription, row *cdcpb.Event_Row) bool {
	size := rowBytes(row)
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.bytes > 0 && cn.bytes+size > cn.quota {
		return false
	}
	it := sub.open
	if it == nil || it.bytes+size > eventBytes {
		it = &item{sub: sub}
		sub.open = it
		cn.pushLocked(it)
	}
	it.rows = append(it.rows, row)
	it.bytes += size
	cn.bytes += size
	return true
}

// encoded queues rows that are already in their wire form, without asking for
// room: whoever sends those has paced himself.
func (cn *conn) encoded(sub *subscription, entries []byte) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	sub.open = nil
	cn.pushLocked(&item{sub: sub, encoded: entries, bytes: int64(len(entries))})
	cn.bytes += int64(len(entries))
}

// scanned queues rows of a scan; false means that they must wait for room.
func (cn *conn) scanned(sub *subscription, rows []*cdcpb.Event_Row, size int64) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.bytes >= cn.quota/scanShare {
		return false
	}
	sub.open = nil // live rows go behind the scan's, in the order of the queue
	cn.pushLocked(&item{sub: sub, rows: rows, bytes: size})
	cn.bytes += size
	return true
}

// initialized queues the end of a scan.
func (cn *conn) initialized(sub *subscription) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	sub.open = nil
	cn.pushLocked(&item{sub: sub, rows: []*cdcpb.Event_Row{{Type: cdcpb.Event_INITIALIZED}}, bytes: smallItem})
	cn.bytes += smallItem
}

// tell queues an Event other than rows.
func (cn *conn) tell(ev *cdcpb.Event) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.pushLocked(&item{event: ev, bytes: smallItem})
	cn.bytes += smallItem
}

// resolve queues the resolved-ts messages of one tick, behind all rows queued
// so far; subs are those that they speak of.
func (cn *conn) resolve(subs []*subscription, items []*item) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.resolved+len(items) > max(queuedResolved, 2*len(items)) {
		return
	}
	for _, sub := range subs {
		sub.open = nil // rows to come must not overtake the promise backwards
	}
	cn.resolved += len(items)
	for _, it := range items {
		it.promise = true
		cn.pushLocked(it)
	}
}

func (cn *conn) pushLocked(it *item) {
	if cn.closed {
		return
	}
	cn.queue = append(cn.queue, it)
	select {
	case cn.wake <- struct{}{}:
	default:
	}
}

// room waits until less than limit is queued.
func (cn *conn) room(ctx context.Context, limit int64) error {
	for {
		cn.mu.Lock()
		ok, drained := cn.bytes < limit || cn.closed, cn.drained
		cn.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take is the next message for the subscriber, nil where nothing waits, and
// what it weighs. A message holds either Events or one ResolvedTs.
func (cn *conn) take() (resp *outgoing, weight int64) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	for len(cn.queue) > 0 {
		it := cn.queue[0]
		if resp != nil && (it.resolved != nil || len(resp.events) == responseEvents || weight+it.bytes > responseBytes) {
			break
		}
		cn.queue = cn.queue[1:]
		if it.promise {
			cn.resolved--
		}
		if it.resolved != nil {
			return &outgoing{resolved: it.resolved}, it.bytes
		}
		if resp == nil {
			resp = &outgoing{}
		}
		if it.sub != nil && it.sub.open == it {
			it.sub.open = nil
		}
		if cn.rng != nil {
			shuffle(cn.rng, it.rows)
		}
		resp.add(it)
		weight += it.bytes
	}
	return resp, weight
}

// sent gives back the room of what take returned.
func (cn *conn) sent(weight int64) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.bytes -= weight
	close(cn.drained)
	cn.drained = make(chan struct{})
}

// close lets go of everything that waits; nobody reads any more.
func (cn *conn) close() {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.closed, cn.queue, cn.bytes = true, nil, 0
	close(cn.drained)
	cn.drained = make(chan struct{})
}

// behind tells whether the reader has limit bytes or more to catch up with, and
// is worth waiting for.
func (cn *conn) behind(limit int64) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.bytes < limit {
		cn.stuck = false
	}
	return cn.bytes >= limit && !cn.stuck
}

// giveUp says that the reader is not worth waiting for until it has caught up.
func (cn *conn) giveUp() {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.stuck = true
}

// shuffle puts the rows of one Event in random order, but keeps the order of
// those of one key, as TiKV does.
func shuffle(rng *rand.Rand, rows []*cdcpb.Event_Row) {
	if len(rows) < 2 {
		return
	}
	byKey := make(map[string][]*cdcpb.Event_Row, len(rows))
	for _, r := range rows {
		byKey[string(r.Key)] = append(byKey[string(r.Key)], r)
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	for i, r := range rows {
		k := string(r.Key)
		rows[i], byKey[k] = byKey[k][0], byKey[k][1:]
	}
}
