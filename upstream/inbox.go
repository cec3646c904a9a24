package upstream

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// delivery is what one message of one stream holds for one subscription, or the
// news that the stream is gone.
type delivery struct {
	stream   uint64
	events   []regionEvent
	resolved *resolvedEvent
	share    *share
	gone     bool
	err      error // why it is gone
}

// inbox is a feed loop's queue. It has no bound of its own: what is in it counts
// against the budgets of the streams that put it there, plus one notice for
// each stream that broke.
type inbox struct {
	ready chan struct{} // holds one token while the inbox is not empty

	mu     sync.Mutex
	items  []delivery // guarded by mu
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
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take empties the inbox; spare becomes its next buffer.
func (q *inbox) take(spare []delivery) []delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = spare[:0]
	return items
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
// then give back. One that is larger than the whole budget takes all of it.
func (b *budget) lend(ctx context.Context, bytes int64, parts int) (*share, error) {
	n := min(bytes+int64(parts)*deliveryCost, b.size)
	if err := b.sem.Acquire(ctx, n); err != nil {
		return nil, err
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
