package sim

import (
	"fmt"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
)

// nodesMax is how many nodes there are at a time.
const nodesMax = 5

// world is a cluster, all that it talks to, and what has gone wrong.
type world struct {
	fenced      bool
	gated       bool // there is a redo log
	ownerConfig scheduler.Config

	now    int64
	up     *upstream
	down   *downstream
	wholes wholes

	nodes     [nodesMax]*node
	graves    []*node // that are not there, and whose leases live
	born      int
	rev       scheduler.Revision // etcd's, as far as it matters
	etcdOwner *node
	etcdRev   scheduler.Revision

	net    []packet
	cut    [nodesMax][nodesMax]int // from, to: the step until which nothing arrives
	lazy   uint32
	owners int
	steps  int
	causes map[string]int // of transitions
	err    error
}

// packet is a message on its way.
type packet struct {
	from, to int
	orders   *scheduler.Orders
	report   *scheduler.Report
}

// netMax is how many messages are on their way; more push the oldest out.
const netMax = 48

func newWorld(s setting) *world {
	w := &world{fenced: s.fenced, gated: s.gated, ownerConfig: s.owner(), up: newUpstream(s.tables), rev: 1, lazy: s.lazy, causes: map[string]int{}}
	w.down = &downstream{
		up: w.up, floors: map[capture.ID]scheduler.Term{}, record: map[int64]bool{}, syncEvery: s.syncEvery,
		synced: w.up.now, saved: scheduler.Watermark{Checkpoint: w.up.now, Resolved: w.up.now},
	}
	if s.gated {
		w.down.log = &redoLog{checkpoint: w.up.now, resolved: w.up.now, extents: map[string]int{}}
	}
	for i := range s.nodes {
		w.start(i, uint32(s.drifts>>(4*i)))
	}
	return w
}

func (w *world) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("step %d: %w", w.steps, err)
	}
}

// start begins a node in a free slot.
func (w *world) start(at int, drift uint32) {
	if w.nodes[at] != nil {
		return
	}
	w.born++
	n := &node{id: capture.ID(fmt.Sprintf("c%02d", w.born)), at: at, drift: int64(drift%(2*driftMax+1)) - driftMax}
	w.nodes[at] = n
	n.registered = true
	w.renew(n)
	w.rev++
	// The owner of the moment, or whoever comes after this moment.
	floor := w.etcdRev
	if w.etcdOwner == nil {
		floor = w.rev + 1
	}
	c, err := scheduler.NewCapture(scheduler.CaptureConfig{ID: n.id, Epoch: w.ownerConfig.Epoch, Incarnation: 1, Floor: floor, Gated: w.gated, StatusesMax: 2})
	if err != nil {
		w.fail(err)
		return
	}
	n.half = c
	n.learn(w)
}

// crash ends a node; its lease runs on.
func (w *world) crash(at int) {
	n := w.nodes[at]
	if n == nil {
		return
	}
	w.nodes[at] = nil
	if n.registered {
		w.dead(n)
	}
}

// dead keeps what etcd has of a node that is not there.
func (w *world) dead(n *node) {
	n.lead = nil
	w.graves = append(w.graves, n)
}

// late lets what a dead node had on its way arrive after all.
func (w *world) late(a, b uint32) {
	if len(w.graves) == 0 {
		return
	}
	n := w.graves[int(a)%len(w.graves)]
	if len(n.spans) == 0 {
		return
	}
	if s := n.spans[int(b)%len(n.spans)]; s.batch != nil {
		n.flush(w, s)
	}
}

// renew renews a node's lease.
func (w *world) renew(n *node) {
	if n.registered && !n.cutOff(w) && !n.paused(w) {
		n.expires = w.now + leaseTTL
		n.leaseUntil = n.clock(w.now) + leaseTTL - leaseMargin
	}
}

// pass lets time go on, and leases end.
func (w *world) pass(ticks int64) {
	w.now += ticks
	for _, n := range w.nodes {
		if n != nil && n.registered && w.now > n.expires {
			w.expire(n)
		}
	}
	kept := w.graves[:0]
	for _, n := range w.graves {
		if w.now > n.expires {
			w.expire(n)
		} else {
			kept = append(kept, n)
		}
	}
	w.graves = kept
}

// expire is etcd's end of a lease: the capture's key and the owner's go with it.
func (w *world) expire(n *node) {
	n.registered = false
	if w.etcdOwner == n {
		w.etcdOwner = nil
		w.etcdRev = 0
	}
}

// members are the captures in etcd, by id.
func (w *world) members() []scheduler.Member {
	var out []scheduler.Member
	add := func(n *node) {
		if n == nil || !n.registered {
			return
		}
		x := scheduler.Member{ID: n.id, Liveness: n.life, Draining: n.drain}
		i := len(out)
		out = append(out, x)
		for ; i > 0 && out[i-1].ID > x.ID; i-- {
			out[i] = out[i-1]
		}
		out[i] = x
	}
	for _, n := range w.nodes {
		add(n)
	}
	for _, n := range w.graves {
		add(n)
	}
	return out
}

// ownerOf is where the owner of a revision is, -1 for nowhere.
func (w *world) ownerOf(rev scheduler.Revision) int {
	for _, n := range w.nodes {
		if n != nil && n.lead != nil && n.lead.rev == rev {
			return n.at
		}
	}
	return -1
}

// slotOf is where a capture is, -1 for nowhere.
func (w *world) slotOf(id capture.ID) int {
	for _, n := range w.nodes {
		if n != nil && n.id == id {
			return n.at
		}
	}
	return -1
}

func (w *world) send(p packet) {
	if p.to < 0 {
		return
	}
	if len(w.net) == netMax {
		copy(w.net, w.net[1:])
		w.net = w.net[:netMax-1]
	}
	w.net = append(w.net, p)
}

// deliver takes a message from the network and hands it over; keep leaves a copy there.
func (w *world) deliver(i int, keep bool) {
	p := w.net[i]
	if !keep {
		w.net = append(w.net[:i], w.net[i+1:]...)
	}
	n := w.nodes[p.to]
	if n == nil || n.paused(w) || p.from != p.to && w.cut[p.from][p.to] > w.steps {
		return
	}
	switch {
	case p.orders != nil:
		n.half.Step(*p.orders)
	case n.lead != nil:
		n.lead.owner.Step(*p.report)
	}
}

// effective tells whether what a node writes for a span could still arrive.
func (w *world) effective(n *node, s *writing) bool {
	if s.phase == scheduler.Prepare {
		return false
	}
	if w.fenced {
		floor, ok := w.down.floors[n.id]
		return ok && s.term >= floor || !ok && s.term.Owner() >= w.down.fence
	}
	return n.registered || n.clock(w.now) < n.leaseUntil
}

// begins is where P1 is checked as such: when somebody begins to write, nobody else
// can write any of these keys.
func (w *world) begins(by *node, s *writing) {
	if !w.effective(by, s) {
		return
	}
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		for _, o := range n.spans {
			if o != s && o.source == s.source && o.lo < s.hi && s.lo < o.hi && w.effective(n, o) {
				w.fail(breaks("P1", "%s begins to write %v while %s may write %v", by.id, s.span, n.id, o.span))
			}
		}
	}
}
