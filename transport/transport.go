package transport

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// callersMax bounds how many captures' streams come in at once: far more than a
// cluster has, and a bound for who is let in and does not behave.
const callersMax = 1024

// Transport is one capture's, from its session's begin to its end.
type Transport struct {
	cfg     Config
	changed chan struct{} // holds one token: the members are others
	meter   meter

	mu      sync.Mutex
	peers   map[capture.ID]*peer   // guarded by mu: the members but ourselves
	inboxes map[address]*Inbox     // guarded by mu
	callers map[capture.ID]*caller // guarded by mu: whose streams come in
	over    bool                   // guarded by mu: Run ends, nobody is let in
	serving sync.WaitGroup         // one for each caller; added to under mu while not over
}

// New makes one that knows no peers.
func New(cfg Config) (*Transport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Transport{
		cfg: cfg, changed: make(chan struct{}, 1),
		peers: map[capture.ID]*peer{}, inboxes: map[address]*Inbox{}, callers: map[capture.ID]*caller{},
	}, nil
}

// Run carries messages until ctx ends. Nothing is delivered after it has returned.
func (t *Transport) Run(ctx context.Context) error {
	if s := t.cfg.Service; s != nil {
		if !s.joined.CompareAndSwap(nil, t) {
			return cdcerr.Bug("two captures on one port: %s joins before the last one has left", t.cfg.Self)
		}
		defer s.joined.CompareAndSwap(t, nil)
	}
	defer t.turnOut()
	g, ctx := errgroup.WithContext(ctx)
	running := map[*peer]context.CancelFunc{}
	for {
		now := t.members()
		for _, p := range now {
			if running[p] == nil {
				own, cancel := context.WithCancel(ctx)
				running[p] = cancel
				g.Go(func() error { return p.run(own) })
			}
		}
		for p, cancel := range running {
			if !slices.Contains(now, p) {
				cancel()
				delete(running, p)
			}
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			for _, cancel := range running {
				cancel()
			}
			return cmp.Or(g.Wait(), ctx.Err())
		}
	}
}

// turnOut ends the streams of all callers, and waits for the last message from them.
func (t *Transport) turnOut() {
	t.mu.Lock()
	t.over = true
	for _, c := range t.callers {
		c.cut()
	}
	t.mu.Unlock()
	t.serving.Wait()
}

func (t *Transport) members() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*peer, 0, len(t.peers))
	for _, p := range t.peers {
		all = append(all, p)
	}
	return all
}

// SetPeers says who the members are, as etcd has them. What waits for one that is none
// any more is let go; one whose address is another is called there.
func (t *Transport) SetPeers(members []capture.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := map[capture.ID]bool{}
	for id := range t.peers {
		gone[id] = true
	}
	for _, m := range members {
		if m.ID == t.cfg.Self {
			continue
		}
		delete(gone, m.ID)
		if p := t.peers[m.ID]; p != nil {
			p.move(m.Address)
		} else {
			t.peers[m.ID] = newPeer(t, m)
		}
	}
	for id := range gone {
		delete(t.peers, id)
	}
	wake(t.changed)
}

// Send lets a message go to a member, ourselves included, when there is a stream. It
// never waits, and nothing says whether it arrives. The error says that it cannot:
// there is no such member.
func (t *Transport) Send(to capture.ID, m Message) error {
	if err := m.check(t.cfg.Self, to); err != nil {
		return err
	}
	if to == t.cfg.Self {
		t.deliver(Received{From: to, Message: m})
		return nil
	}
	t.mu.Lock()
	p := t.peers[to]
	t.mu.Unlock()
	if p == nil {
		return cdcerr.CaptureNotFound.New("capture %s is not among the members", to)
	}
	t.meter.replaced.Add(uint64(p.push(m)))
	return nil
}

// deliver gives a message to who takes such, and tells whether there is anybody.
func (t *Transport) deliver(r Received) bool {
	t.mu.Lock()
	b := t.inboxes[address{r.Message.Changefeed, r.Message.kind()}]
	t.mu.Unlock()
	if b == nil {
		t.meter.unclaimed.Add(1)
		return false
	}
	b.put(r)
	return true
}

// broke tells those who lead a changefeed that a peer may be gone.
func (t *Transport) broke(id capture.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, b := range t.inboxes {
		if at.kind == kindReport {
			b.put(Received{From: id, Broken: true})
		}
	}
}

// Peer is how it stands with one member.
type Peer struct {
	ID        capture.ID
	Address   string
	Connected bool   // our stream to it is open
	Version   uint64 // that it speaks, of peers.proto; 0 while that is not known
	Waiting   int    // messages that wait for it
	Why       string // what went wrong last, "" while all is well
}

// Peers are the members but ourselves, by ID.
func (t *Transport) Peers() []Peer {
	var all []Peer
	for _, p := range t.members() {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
