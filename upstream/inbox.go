package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// delivery is what one message of one stream holds for one subscription, or the
// news that the stream is gone.
type delivery struct {
	stream   uint64
	events   []regionEvent
	resolved *resolvedEvent
	share    *share
	gone     bool
	err      error           // why it is gone
	overdue  []region.Ticket // registrations that are given up because nothing was heard of them
}

// clock is one look at PD's clock.
type clock struct {
	pd      tso.TS
	fastest tso.TS // the highest resolved-ts of any region of the client
}

// inbox is a feed loop's queue. It has no bound of its own: what is in it counts
// against the budgets of the streams that put it there, plus one notice for
// each stream that broke and for each scan that is overdue, of which a window's
// worth runs at a time.
type inbox struct {
	ready chan struct{} // holds one token while the inbox is not empty

	mu     sync.Mutex
	items  []delivery // guarded by mu
	clock  *clock     // guarded by mu: the latest that was not taken
	closed bool       // guarded by mu: nobody takes any more
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (q *inbox) put(d delivery) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		d.share.release()
		return
	}
	q.items = append(q.items, d)
	q.mu.Unlock()
	q.signal()
}

func (q *inbox) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// tell puts the time in; a feed that is busy sees the last one only.
func (q *inbox) tell(c clock) {
	q.mu.Lock()
	q.clock = &c
	q.mu.Unlock()
	q.signal()
}

// take empties the inbox; spare becomes its next buffer. The time was told after
// the items came, or in between.
func (q *inbox) take(spare []delivery) ([]delivery, *clock) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, clock := q.items, q.clock
	q.items, q.clock = spare[:0], nil
	return items, clock
}

// close gives back what nobody will take.
func (q *inbox) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, d := range q.items {
		d.share.release()
	}
	q.items = nil
}

// budget bounds the bytes of one stream that are received and not handed on.
type budget struct {
	sem  *semaphore.Weighted
	size int64
}

// deliveryCost is what a delivery costs beside its bytes; it keeps a flood of
// tiny messages in bounds too.
const deliveryCost = 256

func newBudget(size int64) *budget {
	return &budget{sem: semaphore.NewWeighted(size), size: size}
}

// lend waits until the budget has room for a message, which parts subscriptions
// then give back. One that is larger than the whole budget takes all of it. While
// it waits the stream is starved: nothing can be heard.
func (b *budget) lend(ctx context.Context, bytes int64, parts int, p *pulse) (*share, error) {
	n := min(bytes+int64(parts)*deliveryCost, b.size)
	if !b.sem.TryAcquire(n) {
		p.starve()
		err := b.sem.Acquire(ctx, n)
		p.feed()
		if err != nil {
			return nil, err
		}
	}
	s := &share{budget: b, bytes: n}
	s.parts.Store(int32(parts))
	return s, nil
}

// share is a message's part of a budget.
type share struct {
	budget *budget
	bytes  int64
	parts  atomic.Int32
}

// release gives one part back; the last one frees the bytes.
func (s *share) release() {
	if s != nil && s.parts.Add(-1) == 0 {
		s.budget.sem.Release(s.bytes)
	}
}

// pulse is whether a stream is heard, and whether we listen.
type pulse struct {
	mu      sync.Mutex
	heard   time.Time // guarded by mu: when a resolved-ts last came, or could not have come
	starved time.Time // guarded by mu: when we last did not listen
	hungry  bool      // guarded by mu: we do not listen now
}

func (p *pulse) heardNow() {
	p.mu.Lock()
	p.heard = time.Now()
	p.mu.Unlock()
}

func (p *pulse) starve() {
	p.mu.Lock()
	p.hungry = true
	p.mu.Unlock()
}

// feed ends a time of not listening. What was said in it comes now.
func (p *pulse) feed() {
	p.mu.Lock()
	p.hungry = false
	p.heard = time.Now()
	p.starved = p.heard
	p.mu.Unlock()
}

// silence is for how long nothing was heard although we listened.
func (p *pulse) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hungry {
		return 0
	}
	return time.Since(p.heard)
}

// starvedSince tells whether there was a time after t at which we did not listen.
func (p *pulse) starvedSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hungry || p.starved.After(t)
}
