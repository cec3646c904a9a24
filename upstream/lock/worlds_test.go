package lock

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

var seedFlag = flag.Uint64("seed", 0, "run the world of this seed only")

// TestWorlds lets transactions of all kinds be written, committed and abandoned
// half way while two visitors end what they find, one question at a time: no
// transaction whose owner lives is hindered, all keys of one end alike, what an
// owner was told stays true, and in the end no lock is left.
func TestWorlds(t *testing.T) {
	first, last := uint64(1), uint64(500)
	if testing.Short() {
		last = 100
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	var outcomes [Outcomes]int
	for seed := first; seed <= last; seed++ {
		w := newWorld(seed)
		if err := w.run(); err != nil {
			t.Fatalf("-seed %d: %v", seed, err)
		}
		for i, n := range w.outcomes {
			outcomes[i] += n
		}
	}
	t.Logf("verdicts: %v of %v", outcomes, outcomeNames)
	for _, o := range []Outcome{Alive, Committed, RolledBack, Abandoned} {
		if outcomes[o] == 0 && first != last {
			t.Errorf("no transaction was found %v", o)
		}
	}
	if outcomes[Unclear] != 0 {
		t.Errorf("%d verdicts are unclear", outcomes[Unclear])
	}
}

type world struct {
	rng      *rand.Rand
	s        *store
	owners   []*owner
	visitors []*visitor
	outcomes [Outcomes]int
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 2)), s: &store{cells: map[string]*cell{}, clock: tso.New(1_000_000, 0)}}
	w.visitors = []*visitor{{w: w, known: map[tso.TS]Verdict{}}, {w: w, known: map[tso.TS]Verdict{}}}
	return w
}

func (w *world) run() error {
	for range 600 {
		switch n := w.rng.IntN(100); {
		case n < 12:
			w.owners = append(w.owners, newOwner(w.s, w.rng))
		case n < 60:
			if len(w.owners) > 0 {
				w.owners[w.rng.IntN(len(w.owners))].step(w.s, w.rng)
			}
		case n < 64:
			if len(w.owners) > 0 {
				w.owners[w.rng.IntN(len(w.owners))].dead = true
			}
		case n < 75:
			w.pass(1 + int64(w.rng.IntN(ttlMS/3)))
		default:
			if err := w.visitors[w.rng.IntN(2)].step(); err != nil {
				return err
			}
		}
		for _, o := range w.owners {
			if o.broken != "" {
				return fmt.Errorf("%s", o.broken)
			}
		}
	}
	for _, o := range w.owners {
		for o.step(w.s, w.rng) {
			if o.broken != "" {
				return fmt.Errorf("%s", o.broken)
			}
		}
		o.dead = true
	}
	for range 10 {
		w.s.pass(ttlMS + 1)
		for range 200 {
			if err := w.visitors[0].step(); err != nil {
				return err
			}
		}
	}
	return w.check()
}

// pass lets time go by, not so much that an owner misses a heartbeat or keeps
// its secondaries without a primary for longer than they live.
func (w *world) pass(ms int64) {
	for _, o := range w.owners {
		for o.exposed(w.s) && o.step(w.s, w.rng) {
		}
	}
	w.s.pass(ms)
	for _, o := range w.owners {
		o.renew(w.s)
	}
}

func (w *world) check() error {
	if left := w.s.scan("", "~", tso.Max); len(left) > 0 {
		return fmt.Errorf("lock of %d at %s is left", left[0].StartTS, left[0].Key)
	}
	for _, o := range w.owners {
		first, decided := tso.TS(0), false
		for _, k := range o.keys {
			end, ended := w.s.cell(k).ends[o.start]
			switch {
			case !ended && o.told != 0:
				return fmt.Errorf("transaction %d was told %d, but nothing stands at %s", o.start, o.told, k)
			case ended && o.told != 0 && end != o.told:
				return fmt.Errorf("transaction %d was told %d, but ended at %d at %s", o.start, o.told, end, k)
			case ended && decided && end != first:
				return fmt.Errorf("transaction %d ended at %d and at %d", o.start, first, end)
			case !ended && decided && first != 0:
				return fmt.Errorf("transaction %d ended at %d, but nothing stands at %s", o.start, first, k)
			case ended:
				first, decided = end, true
			}
		}
	}
	return nil
}

// visitor searches a region and ends what it may, a question a step.
type visitor struct {
	w     *world
	known map[tso.TS]Verdict
	from  string
	to    string
	locks []Lock
	cases []*Case
	deeds []Deed
}

func (v *visitor) step() error {
	s, rng := v.w.s, v.w.rng
	switch {
	case len(v.cases) > 0:
		c := v.cases[0]
		a := c.Ask(s.clock)
		if len(a.Keys) > 0 {
			asked := a.Keys[:1+rng.IntN(len(a.Keys))]
			there, commit := s.secondaries(asked, a.StartTS)
			c.StepSecondaries(asked, there, commit)
		} else {
			c.StepStatus(s.status(a), a.Now)
		}
		if c.Open() {
			return nil
		}
		v.w.outcomes[c.Verdict().Outcome]++
		v.known[c.StartTS()] = c.Verdict()
		if v.cases = v.cases[1:]; len(v.cases) == 0 {
			v.deeds = Plan(v.locks, v.known)
			for start, verdict := range v.known { // each alone: the order does not matter
				if !verdict.Outcome.Final() {
					delete(v.known, start)
				}
			}
		}
	case len(v.deeds) > 0:
		d := v.deeds[0]
		v.deeds = v.deeds[1:]
		return s.do(d, v.from, v.to)
	default:
		borders := []string{"", "e", "i", "~"}
		i := rng.IntN(3)
		v.from, v.to = borders[i], borders[i+1]
		v.locks = s.scan(v.from, v.to, s.clock)
		v.cases = Cases(v.locks, v.known, s.clock)
		if len(v.cases) == 0 {
			v.deeds = Plan(v.locks, v.known)
		}
	}
	return nil
}
