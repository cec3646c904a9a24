package shells_test

import (
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/scheduler"
)

// partLine is the capture's end of the network.
type partLine struct {
	n     *node
	ready chan struct{}
	in    []scheduler.Orders // guarded by the world's mu
}

func (l *partLine) Ready() <-chan struct{} { return l.ready }

func (l *partLine) Take() []scheduler.Orders {
	l.n.w.mu.Lock()
	defer l.n.w.mu.Unlock()
	in := l.in
	l.in = nil
	return in
}

// Report looks for the owner of the revision that it is for.
func (l *partLine) Report(r scheduler.Report) {
	w := l.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.lead != nil && n.lead.rev == r.Owner {
			w.sendLocked(l.n, n, func() { n.deliver(owner.Heard{From: l.n.id, Report: &r}) })
		}
	}
}

// ownerLine is the owner's.
type ownerLine struct {
	n     *node
	rev   scheduler.Revision
	ready chan struct{}
	in    []owner.Heard // guarded by the world's mu
}

func (l *ownerLine) Ready() <-chan struct{} { return l.ready }

func (l *ownerLine) Take() []owner.Heard {
	l.n.w.mu.Lock()
	defer l.n.w.mu.Unlock()
	in := l.in
	l.in = nil
	return in
}

// Send checks what is sent against what is durable.
func (l *ownerLine) Send(m scheduler.Orders) {
	w := l.n.w
	w.at(l.n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Barrier.Passed > w.durable.Checkpoint {
		w.failLocked("durable, then sent: %s hears that %d is passed, and %d is durable", m.Capture, m.Barrier.Passed, w.durable.Checkpoint)
	}
	if w.storage != nil && m.Barrier.Gate > w.storage.meta.Resolved {
		w.failLocked("durable, then sent: %s hears that the log has everything up to %d, and its meta says %d", m.Capture, m.Barrier.Gate, w.storage.meta.Resolved)
	}
	for _, p := range m.Barrier.Tables {
		for _, c := range w.up.ddls {
			if c.SwitchTS == p.TS && !c.done {
				w.failLocked("durable, then sent: %s hears that DDL %d at %d is done", m.Capture, c.JobID, c.SwitchTS)
			}
		}
	}
	if !time.Now().Before(l.n.lease) {
		w.failLocked("an owner whose lease is over sends orders to %s", m.Capture)
	}
	for _, n := range w.nodes {
		if n.id == m.Capture {
			w.sendLocked(l.n, n, func() {
				if n.line != nil {
					n.line.in = append(n.line.in, m)
					signal(n.line.ready)
				}
			})
		}
	}
}

// deliver hands the owner's loop, if it is there still, what was sent to it.
func (n *node) deliver(h owner.Heard) {
	if n.lead != nil && n.lead.line != nil {
		n.lead.line.in = append(n.lead.line.in, h)
		signal(n.lead.line.ready)
	}
}

// sendLocked puts something on its way, in whatever weather. What a node sends itself
// arrives.
func (w *world) sendLocked(from, to *node, arrive func()) {
	w.sent++
	if from == to {
		arrive()
		return
	}
	copies := 1
	if w.rng.Float64() < w.weather.double {
		copies = 2
	}
	for range copies {
		if w.rng.Float64() < w.weather.drop || time.Now().Before(w.cuts[[2]*node{from, to}]) {
			w.lost++
			continue
		}
		d := time.Duration(200+w.rng.IntN(2000)) * time.Microsecond
		if w.rng.Float64() < w.weather.slow {
			d += time.Duration(w.rng.IntN(600)) * time.Millisecond
		}
		time.AfterFunc(d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !to.dead && !w.over {
				arrive()
			}
		})
	}
}

// breakLocked is what an owner hears when a stream breaks.
func (w *world) breakLocked(id capture.ID) {
	if w.leader != nil && slices.Contains(w.nodes, w.leader) {
		w.leader.deliver(owner.Heard{From: id})
	}
}
