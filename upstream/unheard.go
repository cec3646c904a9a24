package upstream

import (
	"sync"
	"time"
)

// Unheard is for how long at most nothing has come from a store from which something
// has to: its stream is open, has regions that are scanned, and is silent, or none can
// be opened. Whether it is the store, or the way from here to it, only somebody
// elsewhere can tell. While PD is away, and where we do not listen, it is 0.
func (c *Client) Unheard() time.Duration {
	var most time.Duration
	for _, s := range c.streams.all() {
		switch {
		case !s.opened.Load():
			most = max(most, c.ears.silence(s.store))
		case s.expected(): // else it has only scans to do, which may take their time
			most = max(most, s.pulse.silence())
		}
	}
	return most
}

// ears is when stores were heard, over all streams that there have been.
type ears struct {
	mu sync.Mutex
	by map[uint64]ear // guarded by mu; by store
}

// ear is one store's: when a resolved-ts last came, or began to be waited for; and when
// its last stream broke.
type ear struct{ heard, broke time.Time }

// earMax is how long after its last stream a store may be wanted again for that to be
// the same wish: feeds ask again within a second.
const earMax = 5 * time.Second

// open notes that a store is to be heard.
func (e *ears) open(store uint64) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[uint64]ear{}
	}
	if one, ok := e.by[store]; !ok || now.Sub(one.broke) > earMax {
		e.by[store] = ear{heard: now}
	}
}

// hear notes that it was heard, and broke that its stream broke.
func (e *ears) hear(store uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by[store] = ear{heard: time.Now()}
}

func (e *ears) broke(store uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by[store] = ear{heard: e.by[store].heard, broke: time.Now()}
}

// forgive lets nobody be waited for but from now on.
func (e *ears) forgive() {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for store, one := range e.by {
		one.heard = now
		e.by[store] = one
	}
}

func (e *ears) silence(store uint64) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.by[store].heard)
}
