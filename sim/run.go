package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
)

// Steps is how many steps of a schedule have faults; the calm after them is beside.
const Steps = 500

// rounds is how many rounds without faults it may take until everything replicates:
// enough for leases to end, an owner to be elected, and every table to be placed.
const rounds = 400

// Outcome is how a schedule went.
type Outcome struct {
	Seed   uint64
	Steps  int // faults and calm
	Owners int
	Rows   int
	DDLs   int
	Syncs  int
	Causes map[string]int // how many transitions had which cause
	Err    error
}

// Run plays one seed.
func Run(seed uint64) Outcome {
	s, actions := plan(seed, Steps)
	return play(seed, s, actions)
}

func play(seed uint64, s setting, actions []action) (out Outcome) {
	w := newWorld(s)
	defer func() {
		if r := recover(); r != nil {
			out.Err = fmt.Errorf("step %d: %w", w.steps, breaks("P8", "panic: %v", r))
		}
	}()
	for range s.calm {
		w.round()
	}
	if s.split {
		w.split()
	}
	for _, x := range actions {
		if w.do(x); w.err != nil {
			break
		}
	}
	if w.err == nil {
		w.settle()
	}
	return Outcome{Seed: seed, Steps: w.steps, Owners: w.owners, Rows: w.down.rows, DDLs: len(w.down.record), Syncs: w.down.syncs, Causes: w.causes, Err: w.err}
}

// split lets tables be cut into parts, each too large to be merged again.
func (w *world) split() {
	for i := range 12 {
		for _, n := range w.nodes {
			if n == nil {
				continue
			}
			for _, s := range n.spans {
				n.half.Load(s.span, []uint32{36, 8}[i/6], 0)
			}
		}
		w.round()
	}
}

// settle ends all faults, but that some do not hear the upstream while another does, and
// waits until everything replicates.
func (w *world) settle() {
	w.cut = [nodesMax][nodesMax]int{}
	w.lazy = 0
	w.start(0, 0)
	for _, n := range w.nodes {
		if n != nil {
			n.asleep, n.away, n.drain, n.deaf = 0, 0, false, n.deaf && n.at != 0
			if n.life == capture.Stopping {
				w.crash(n.at)
				w.start(n.at, 0)
			}
		}
	}
	for range rounds {
		if w.round(); w.err != nil {
			return
		}
		if w.settled() {
			return
		}
	}
	w.fail(breaks("liveness", "after %d rounds without faults: %s", rounds, w.state()))
}

// round gives everybody a turn.
func (w *world) round() {
	w.pass(1)
	for i, n := range w.nodes {
		if n == nil {
			continue
		}
		w.do(action{doRenew, uint32(i), 0})
		w.do(action{doElect, uint32(i), 0})
		w.do(action{doNodeLearn, uint32(i), 0})
		w.do(action{doNodeTick, uint32(i), 0})
		if n = w.nodes[i]; n != nil {
			for j := range len(n.spans) + 2 {
				w.do(action{doStep, uint32(i), uint32(j)})
			}
		}
	}
	for _, n := range w.nodes {
		if n == nil || n.lead == nil {
			continue
		}
		l := n.lead
		l.learn(w)
		w.steps++
		l.tick(w, true)
		for n.lead == l && w.err == nil && l.work(w, 0) {
		}
	}
	for len(w.net) > 0 && w.err == nil {
		w.do(action{doDeliver, 0, 1})
	}
}

// settled tells whether everything that was committed is downstream, durably known,
// and every span replicates.
func (w *world) settled() bool {
	if w.etcdOwner == nil || w.etcdOwner.lead == nil || w.etcdOwner.lead.rev != w.etcdRev {
		return false
	}
	o := w.etcdOwner.lead.owner
	if !o.Settled() || w.down.saved.Checkpoint != w.up.now {
		return false
	}
	// Nothing is left behind: captures hold what the owner knows of.
	sets, holds := 0, 0
	for _, s := range w.up.sources {
		if len(o.Sets(s.id)) > 0 == s.dropped {
			return false
		}
		sets += len(o.Sets(s.id))
	}
	for _, n := range w.nodes {
		if n != nil {
			holds += n.half.Len()
		}
	}
	return sets == holds
}

func (w *world) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint %d of %d", w.down.saved.Checkpoint, w.up.now)
	if w.etcdOwner == nil || w.etcdOwner.lead == nil {
		return b.String() + ", no owner"
	}
	o := w.etcdOwner.lead.owner
	fmt.Fprintf(&b, ", owner %s, settled %v, rebuilding %v", w.etcdOwner.id, o.Settled(), o.Rebuilding())
	for _, n := range w.nodes {
		if n != nil {
			fmt.Fprintf(&b, ", %s holds %d", n.id, n.half.Len())
		}
	}
	for _, s := range w.up.sources {
		for _, z := range o.Sets(s.id) {
			if z.State != scheduler.ReplicatingState {
				fmt.Fprintf(&b, "; %v is %v at %d with primary %q and secondary %q", z.Span, z.State, z.Checkpoint, z.Primary(), z.Secondary())
			}
		}
	}
	return b.String()
}

// Shrink looks for a short schedule that fails as this seed does: in the same promise.
// It plays at most budget schedules.
func Shrink(seed uint64, budget int) (text string, err error) {
	s, actions := plan(seed, Steps)
	first := play(seed, s, actions).Err
	if first == nil {
		return "", nil
	}
	fails := func(try []action) bool {
		budget--
		err := play(seed, s, try).Err
		return err != nil && promise(err) == promise(first)
	}
	for size := len(actions) / 2; size > 0 && budget > 0; {
		cut := false
		for at := 0; at < len(actions) && budget > 0; {
			try := append(append([]action(nil), actions[:at]...), actions[min(at+size, len(actions)):]...)
			if fails(try) {
				actions, cut = try, true
			} else {
				at += size
			}
		}
		if !cut || size > 1 {
			size /= 2
		}
	}
	err = play(seed, s, actions).Err
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", s)
	for _, x := range actions {
		fmt.Fprintln(&b, x)
	}
	return b.String(), err
}

func promise(err error) string {
	var b *broken
	if errors.As(err, &b) {
		return b.promise
	}
	return ""
}
