package transport

import (
	"sync"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
)

// address is whose inbox it is: a half of one changefeed.
type address struct {
	changefeed changefeed.ID
	kind       kind
}

// Inbox is what has come for one half of one changefeed. It is taken by one goroutine.
type Inbox struct {
	t     *Transport
	at    address
	ready chan struct{} // holds one token: something waits

	mu sync.Mutex
	q  backlog // guarded by mu: a line a peer
}

// Orders takes what owners say of a changefeed, until Close.
func (t *Transport) Orders(id changefeed.ID) (*Inbox, error) {
	return t.open(address{id, kindOrders})
}

// Reports takes what captures say of a changefeed, and who broke off, until Close.
func (t *Transport) Reports(id changefeed.ID) (*Inbox, error) {
	return t.open(address{id, kindReport})
}

func (t *Transport) open(at address) (*Inbox, error) {
	b := &Inbox{t: t, at: at, ready: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inboxes[at] != nil {
		return nil, cdcerr.Bug("somebody takes the %s of changefeed %s already", at.kind, at.changefeed)
	}
	t.inboxes[at] = b
	return b, nil
}

// Close lets go what has not been taken; what comes after is refused.
func (b *Inbox) Close() {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if b.t.inboxes[b.at] == b {
		delete(b.t.inboxes, b.at)
	}
}

// Ready has a token when there may be something to Take.
func (b *Inbox) Ready() <-chan struct{} { return b.ready }

// Take is all that has come. What one peer said is in its order; Broken stands
// behind what came before it, and is left out where a report came after it.
func (b *Inbox) Take() []Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Received, 0, b.q.n)
	for r, ok := b.q.pop(); ok; r, ok = b.q.pop() {
		all = append(all, r)
	}
	return all
}

// put lets something wait. It never blocks: one half that is slow holds nobody else up.
func (b *Inbox) put(r Received) {
	l := line{peer: r.From, kind: kindBroken}
	if !r.Broken {
		l.kind = b.at.kind
	}
	b.mu.Lock()
	lost := b.q.push(l, r)
	if l.kind == kindReport {
		b.q.drop(line{peer: r.From, kind: kindBroken}) // it is back
	}
	b.mu.Unlock()
	if !r.Broken {
		b.t.meter.replaced.Add(uint64(lost))
	}
	wake(b.ready)
}

// wake leaves a token where there is none.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
