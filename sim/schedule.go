package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
)

// setting is what a seed chooses before the first step.
type setting struct {
	fenced    bool
	tables    int
	nodes     int
	syncEvery int64
	drifts    uint32
	batch     int
	calm      int // rounds without faults at the beginning
	flavour   flavour
	split     bool   // tables are in parts when the calm ends
	gated     bool   // there is a redo log
	lazy      uint32 // stops, and getting ready, take about so many turns
	local     bool   // what captures fail of, or warn of, may be of one of them alone
}

// flavour is of what there is more than usual.
type flavour uint8

const (
	plain flavour = iota
	elections
	shapes // splits and merges, beside elections
	schemas
	moves
	silences
	lives  // of captures' halves, one after the other
	ghosts // fenced off, and back under another owner
	flavours
)

func (s setting) owner() scheduler.Config {
	return scheduler.Config{
		Epoch: 1, SyncEvery: s.syncEvery, Gated: s.gated,
		ResendTicks: 3, SilentTicks: 8, BrokenTicks: 2, HeartbeatTicks: 2, BalanceTicks: 12, DeafTicks: 10,
		Local: func(string) bool { return s.local }, RestTicks: 10, RestMaxTicks: 40, StuckTicks: 4,
		BatchMax: s.batch, OrdersMax: 2, MovesMax: 2,
		Split: scheduler.SplitConfig{Regions: 10, PartMax: 4},
	}
}

// kind is what an action does.
type kind uint8

const (
	doOwnerTick kind = iota
	doNodeTick
	doDeliver
	doStep
	doTask
	doCommit
	doRenew
	doPass
	doOwnerLearn
	doNodeLearn
	doElect
	// The operators' and the upstream's.
	doDDL
	doMove
	doDrain
	doStopping
	doRebalance
	doLoad
	doStart
	// Faults.
	doDrop
	doDouble
	doCut
	doCutOff
	doPause
	doCrash
	doRelive
	doBroken
	doResign
	doUsurp
	doLongPass
	doLate
	kinds
)

func (k kind) String() string {
	return [...]string{
		"owner ticks", "node ticks", "deliver", "data path", "owner's task", "commit", "renew lease", "time", "owner learns schema",
		"node learns schema", "elect", "ddl", "move", "drain", "stopping", "rebalance", "load", "start",
		"drop", "double", "cut", "cut off from etcd", "pause", "crash", "new life", "stream breaks", "resign", "usurp", "long time", "late write",
	}[k]
}

// weights are how often each kind is chosen, in storms and in calmer weather.
func weights(storm bool) [kinds]int {
	w := [kinds]int{
		doOwnerTick: 120, doNodeTick: 160, doDeliver: 480, doStep: 260, doTask: 70, doCommit: 50, doRenew: 70, doPass: 30,
		doOwnerLearn: 30, doNodeLearn: 60, doElect: 20,
		doDDL: 9, doMove: 5, doDrain: 2, doStopping: 1, doRebalance: 1, doLoad: 6, doStart: 6,
		doDrop: 8, doDouble: 8, doCut: 4, doCutOff: 2, doPause: 2, doCrash: 1, doRelive: 1, doBroken: 2, doResign: 2, doUsurp: 1, doLongPass: 1, doLate: 3,
	}
	if storm {
		w[doDrop], w[doDouble], w[doCut], w[doCutOff], w[doPause], w[doCrash], w[doRelive], w[doBroken], w[doResign], w[doLongPass] = 30, 25, 6, 6, 8, 4, 3, 5, 6, 4
	}
	return w
}

// season adds what a flavour has more of.
func (f flavour) season(w *[kinds]int) {
	switch f {
	case elections:
		w[doResign], w[doElect], w[doCrash] = 25, 60, 6
	case shapes:
		w[doLoad], w[doMove], w[doResign], w[doElect], w[doTask] = 60, 20, 14, 50, 110
	case schemas:
		w[doDDL], w[doOwnerLearn], w[doNodeLearn], w[doCommit], w[doUsurp], w[doTask] = 40, 20, 100, 80, 8, 110
	case moves:
		w[doMove], w[doDrain], w[doStopping], w[doRebalance] = 40, 12, 4, 8
	case silences:
		w[doBroken], w[doPause], w[doCut], w[doResign], w[doElect], w[doLate] = 25, 25, 12, 12, 40, 20
	case lives:
		w[doRelive], w[doDouble], w[doMove], w[doBroken], w[doCut] = 15, 60, 15, 6, 25
	case ghosts:
		w[doPause], w[doBroken], w[doUsurp], w[doCommit], w[doTask] = 30, 40, 14, 80, 120
	case plain, flavours:
	}
}

// action is one step of a schedule; a and b pick among what there is.
type action struct {
	kind kind
	a, b uint32
}

func (x action) String() string { return fmt.Sprintf("%v %d %d", x.kind, x.a, x.b) }

// plan is what a seed stands for.
func plan(seed uint64, steps int) (setting, []action) {
	rng := rand.New(rand.NewPCG(seed, 0x51_1CE))
	s := setting{
		fenced: rng.IntN(2) == 0, tables: 1 + rng.IntN(3), nodes: 2 + rng.IntN(3), drifts: rng.Uint32(), batch: 1 + rng.IntN(4),
	}
	if rng.IntN(3) == 0 {
		s.syncEvery = int64(10 + rng.IntN(40))
	}
	if rng.IntN(3) == 0 {
		s.lazy = 6
	}
	s.calm, s.flavour = 4*rng.IntN(4), flavour(rng.IntN(int(flavours)))
	s.split = s.calm > 0 && rng.IntN(3) == 0
	s.fenced = s.fenced || s.flavour == ghosts
	s.gated = rng.IntN(2) == 0
	s.local = s.drifts&1 == 0
	table := weights(rng.IntN(3) == 0)
	s.flavour.season(&table)
	total := 0
	var upto [kinds]int
	for k := range table {
		total += table[k]
		upto[k] = total
	}
	actions := make([]action, steps)
	for i := range actions {
		n := rng.IntN(total)
		k := 0
		for upto[k] <= n {
			k++
		}
		actions[i] = action{kind(k), rng.Uint32(), rng.Uint32()}
	}
	return s, actions
}

// do is one step.
func (w *world) do(x action) {
	w.steps++
	n := w.nodes[x.a%nodesMax]
	switch x.kind {
	case doCommit:
		w.up.commit(x.a, x.b)
	case doDDL:
		w.up.ddl(x.a, x.b)
	case doPass:
		w.pass(1)
	case doLongPass:
		w.pass(leaseTTL / 2)
	case doDeliver, doDrop, doDouble:
		w.network(x)
	case doStart:
		w.start(int(x.a%nodesMax), x.b)
	case doCut:
		w.cut[x.a%nodesMax][x.b%nodesMax] = w.steps + while(x.b>>8)
	case doLate:
		w.late(x.a, x.b)
	case doOwnerTick, doTask, doOwnerLearn, doMove, doRebalance, doBroken:
		if l := w.someLead(x.a); l != nil && !l.node.paused(w) {
			w.lead(l, x)
		}
	default:
		if n != nil {
			w.node(n, x)
		}
	}
}

// while is how many steps a fault lasts: a blink, a lease, or most of the schedule.
func while(b uint32) int {
	return int(b%20) * []int{1, 6, 20}[b>>8%3]
}

func (w *world) network(x action) {
	if len(w.net) == 0 {
		return
	}
	i := 0
	if x.b%4 == 0 || x.kind != doDeliver { // most messages keep their order
		i = int(x.a % uint32(len(w.net)))
	}
	switch x.kind {
	case doDrop:
		w.net = append(w.net[:i], w.net[i+1:]...)
	case doDouble:
		w.deliver(i, true)
	default:
		w.deliver(i, false)
	}
}

func (w *world) someLead(a uint32) *lead {
	for i := range uint32(nodesMax) {
		if n := w.nodes[(a+i)%nodesMax]; n != nil && n.lead != nil {
			return n.lead
		}
	}
	return nil
}

func (w *world) lead(l *lead, x action) {
	switch x.kind {
	case doOwnerTick:
		l.tick(w, x.b%4 != 0)
	case doTask:
		l.work(w, x.b)
	case doOwnerLearn:
		l.learn(w)
	case doMove:
		s, n := w.up.some(x.b), w.nodes[x.b>>8%nodesMax]
		if s != nil && n != nil {
			_ = l.owner.Move(s.id, n.id) // refused is an answer
		}
	case doRebalance:
		l.owner.Rebalance()
	case doBroken:
		if n := w.nodes[x.b%nodesMax]; n != nil {
			l.owner.Broken(n.id)
		}
	default:
	}
}

func (w *world) node(n *node, x action) {
	if n.paused(w) && x.kind != doCrash && x.kind != doCutOff {
		return
	}
	switch x.kind {
	case doNodeTick:
		n.tick(w)
	case doStep:
		n.step(w, x.b, x.b>>8)
	case doRenew:
		w.renew(n)
		if !n.registered && n.clock(w.now) >= n.leaseUntil { // its session is over: it begins anew
			w.nodes[n.at] = nil
			w.start(n.at, x.b)
		}
	case doNodeLearn:
		n.learn(w)
	case doElect:
		w.elect(n)
	case doDrain:
		n.drain, n.deaf = x.b%2 == 0, x.b%3 == 0
	case doStopping:
		n.life = capture.Stopping
	case doLoad:
		if len(n.spans) > 0 {
			s := n.spans[int(x.b)%len(n.spans)]
			n.half.Load(s.span, []uint32{2, 4, 25, 35}[x.b>>8%4], 0)
		}
	case doCutOff:
		n.away = w.steps + while(x.b)
	case doPause:
		n.asleep = w.steps + while(x.b)
	case doCrash:
		w.crash(n.at)
	case doRelive:
		n.begin(w, "it failed")
	case doResign:
		if w.etcdOwner == n && !n.cutOff(w) {
			w.etcdOwner, w.etcdRev = nil, 0
		}
	case doUsurp: // the owner resigns, and this one is elected before anybody does anything else
		if w.etcdOwner != nil && w.etcdOwner != n && !n.cutOff(w) && n.registered {
			w.etcdOwner, w.etcdRev = nil, 0
			w.elect(n)
		}
	default:
	}
}
