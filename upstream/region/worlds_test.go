package region

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

var seedFlag = flag.Uint64("seed", 0, "run the world of this seed only")

// TestWorlds follows a span of a small TiKV in which everything happens that may
// happen, for many seeds: no row is lost, invented, changed or early (P4),
// resolved-ts do not go back (P3), every key is held once (P2), and once the
// faults end everything is delivered.
func TestWorlds(t *testing.T) {
	if *seedFlag != 0 {
		if err := newFollower(*seedFlag).run(); err != nil {
			t.Fatalf("seed %d: %v", *seedFlag, err)
		}
		return
	}
	worlds, rows, failures, renewals, parts, searches, found := uint64(400), 0, uint64(0), uint64(0), uint64(0), 0, 0
	if testing.Short() {
		worlds = 50
	}
	for seed := uint64(1); seed <= worlds; seed++ {
		f := newFollower(seed)
		if err := f.run(); err != nil {
			t.Fatalf("-seed %d: %v", seed, err)
		}
		rows += len(f.got)
		failures += f.t.Counts().Failures
		renewals += f.t.Counts().Renewals
		parts += f.t.Counts().Parts
		searches += f.searches
		found += f.found
	}
	t.Logf("%d worlds, %d rows, %d failed registrations, %d renewed, %d regions divided, %d searches for locks, %d prewrites put away and found",
		worlds, rows, failures, renewals, parts, searches, found)
	if rows == 0 || failures == 0 || renewals == 0 || parts == 0 || searches == 0 || found == 0 {
		t.Error("nothing happened")
	}
}

// follower is a Tracker in a world, with just enough of a shell.
type follower struct {
	w       *world
	rng     *rand.Rand
	t       *Tracker
	span    span.Span
	start   tso.TS
	now     time.Duration
	sought  []span.Span
	old     []Region // what PD knew a while ago
	got     map[change]event.RawKV
	told    tso.TS
	regions map[uint64]tso.TS
	away    map[uint64][]Lot // of each registration, the oldest first
	taken   map[string]bool  // names of what was found there

	searches int
	found    int
}

func newFollower(seed uint64) *follower {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := &follower{w: newWorld(rng), rng: rng, got: map[change]event.RawKV{}, regions: map[uint64]tso.TS{}, away: map[uint64][]Lot{}, taken: map[string]bool{}}
	for range 100 {
		f.live()
	}
	f.start = f.w.clock - tso.TS(rng.IntN(60))
	f.told = f.start
	f.span = []span.Span{{Start: "c", End: "w"}, {Start: "a"}, {}}[rng.IntN(3)]
	f.t = New(Config{Span: f.span, StartTS: f.start, Seed: seed, Now: f.w.clock, PartRows: 3, Patience: patience})
	return f
}

// patience is short enough for laggards to be judged many times in a world.
var patience = Patience{Stuck: 300 * time.Millisecond, Slow: 400 * time.Millisecond, Renew: time.Second}

func (f *follower) run() error {
	for range 1500 {
		if err := errors.Join(f.step(), f.settle()); err != nil {
			return err
		}
	}
	// The faults end: what is open is finished, unless it was abandoned, and the
	// end is reached.
	for i := len(f.w.txns) - 1; i >= 0; i-- {
		for x := f.w.txns[i]; !x.abandoned && len(x.keys) > 0; {
			f.w.end(i, 0)
		}
	}
	end := f.w.ts()
	for i := range 6000 {
		f.pass(10 * time.Millisecond)
		f.w.tick()
		if i%10 == 0 {
			f.clock()
		}
		if err := errors.Join(f.located(true), f.deliver(), f.deliver(), f.settle()); err != nil {
			return err
		}
		if f.told >= end {
			if held := f.t.Held(); held != (Held{}) {
				return fmt.Errorf("%+v wait for commits, but no transaction is open", held)
			}
			return errors.Join(f.complete(f.told), f.tidy())
		}
	}
	return fmt.Errorf("resolved-ts stays at %d, %d is due", f.told, end)
}

// tidy wants no store to serve a registration that nobody listens to.
func (f *follower) tidy() error {
	for _, r := range f.w.regs {
		if h := f.t.regions[r.src.Region]; !r.over && (h == nil || h.slot != r.src.Slot || h.stream != r.src.Stream) {
			return fmt.Errorf("%+v is still served", r.src)
		}
	}
	for of := range f.away { // each alone: the order does not matter
		if !slices.ContainsFunc(slices.Collect(maps.Values(f.t.regions)), func(h *hold) bool { return h.match != nil && h.match.number == of }) {
			return fmt.Errorf("prewrites of registration %d are still put away", of)
		}
	}
	return nil
}

// live lets one thing happen that is no fault.
func (f *follower) live() {
	switch f.rng.IntN(8) {
	case 0, 1:
		f.w.prewrite()
	case 2, 3, 4:
		f.w.finish()
	case 5:
		f.w.onePhase()
	case 6:
		f.w.heartbeat()
	case 7:
		f.w.tick()
	}
}

func (f *follower) step() error {
	switch n := f.rng.IntN(100); {
	case n < 39:
		f.live()
	case n < 78:
		return f.deliver()
	case n < 86:
		return f.located(false)
	case n < 89:
		f.evict()
	case n < 92:
		f.pass(time.Duration(f.rng.IntN(300)) * time.Millisecond)
	case n == 92:
		f.clock()
	case n == 93:
		f.w.abandon()
	case n == 94:
		f.w.stall()
	case n == 95:
		f.w.split()
	case n == 96:
		f.w.merge()
	case n == 97:
		f.w.lead()
	case n == 98:
		f.old = slices.Clone(f.w.regions)
	case n == 99:
		f.t.StepStreamGone(f.w.cut(1 + f.rng.Uint64N(3)))
	}
	return nil
}

func (f *follower) pass(d time.Duration) {
	f.now += d
	f.w.now = f.now
}

// clock tells the time; another subscription's regions may be faster.
func (f *follower) clock() {
	f.t.Tick(f.now)
	f.t.StepClock(f.w.ts(), f.w.clock)
}

// located answers a lookup: as things are, or (unless honest) as they were, in
// part, or not at all.
func (f *follower) located(honest bool) error {
	if len(f.sought) == 0 {
		return nil
	}
	s := f.sought[0]
	f.sought = f.sought[1:]
	known := f.w.regions
	if !honest && f.old != nil && f.rng.IntN(4) == 0 {
		known = f.old
	}
	var found []Region
	for _, r := range known {
		if r.Span.Overlaps(s) && (honest || f.rng.IntN(8) > 0) {
			if !honest && f.rng.IntN(20) == 0 {
				r.Store = 0
			}
			found = append(found, r)
		}
	}
	if !honest && f.rng.IntN(6) == 0 {
		found = found[:f.rng.IntN(len(found)+1)]
	}
	f.t.StepLocated(s, found)
	return nil
}

// deliver hands on a few things of one registration.
func (f *follower) deliver() error {
	if len(f.w.strays) > 0 && f.rng.IntN(2) == 0 {
		s := f.w.strays[0]
		f.w.strays = f.w.strays[1:]
		f.rows(s.src, s.entry)
	}
	if len(f.w.regs) == 0 {
		return nil
	}
	r := f.w.regs[f.rng.IntN(len(f.w.regs))]
	if r.stalled && !r.over {
		return nil
	}
	for range 1 + f.rng.IntN(6) {
		if len(r.scan) > 0 && (len(r.live) == 0 || f.rng.IntN(2) == 0) {
			e := r.scan[0]
			r.scan = r.scan[1:]
			r.ready = r.ready || e.Type == Initialized
			f.rows(r.src, e)
			continue
		}
		if len(r.live) == 0 {
			return nil
		}
		e := r.live[0]
		r.live = r.live[1:]
		switch e := e.(type) {
		case Entry:
			f.rows(r.src, e)
		case resolved:
			f.t.StepResolved(r.src.Stream, r.src.Slot, []uint64{r.src.Region}, tso.TS(e))
		case Failure:
			f.w.regs = slices.DeleteFunc(f.w.regs, func(o *registration) bool { return o == r })
			f.t.StepFailure(r.src, e)
			f.w.strays = append(f.w.strays, r.late...)
			return nil
		}
	}
	return nil
}

// rows hands an entry on, and looks for what it needs of what was put away.
func (f *follower) rows(src Source, e Entry) {
	f.t.StepRows(src, []Entry{e})
	of, keys := f.t.Sought()
	for i, want := range keys {
		for n, l := range f.away[of] {
			for p := range l.All() {
				name := fmt.Sprintf("%d %d %d %s", of, n, p.StartTS, p.Key)
				if p.StartTS == want.StartTS && string(p.Key) == string(want.Key) && !f.taken[name] {
					f.taken[name] = true
					f.found++
					f.t.StepFound(i, p)
				}
			}
		}
	}
	f.t.StepMatched()
}

// evict puts some prewrites away.
func (f *follower) evict() {
	for _, l := range f.t.Evict(int64(f.rng.IntN(200))) {
		f.away[l.Of] = append(f.away[l.Of], l)
	}
}

// settle does what the Tracker decided and judges it.
func (f *follower) settle() error {
	f.t.Tick(f.now)
	r := f.t.Ready()
	if r.Err != nil {
		return r.Err
	}
	for _, src := range r.Ends {
		f.w.deregister(src)
	}
	for _, of := range r.Gone {
		delete(f.away, of)
	}
	for _, s := range r.Stuck {
		f.searches++
		f.w.search(s)
	}
	for _, q := range r.Requests {
		src, err := f.w.register(q)
		if err != nil {
			return err
		}
		f.t.Placed(q, src.Stream)
	}
	f.sought = append(f.sought, r.Reloads...)
	for _, row := range r.Rows {
		if err := f.judge(row); err != nil {
			return err
		}
	}
	for _, m := range r.Moves {
		if m.Stage == tso.StageRegion && m.From != 0 && (m.From != f.regions[m.Region] || m.To <= m.From) {
			return fmt.Errorf("%v, but it was at %d", m, f.regions[m.Region])
		}
		if m.Stage == tso.StageRegion {
			f.regions[m.Region] = m.To
		}
	}
	if r.Resolved != 0 {
		if r.Resolved <= f.told {
			return fmt.Errorf("resolved-ts %d after %d", r.Resolved, f.told)
		}
		f.told = r.Resolved
		if err := f.complete(f.told); err != nil {
			return err
		}
	}
	return f.t.Check()
}

// judge compares a row with the store's history.
func (f *follower) judge(row event.RawKV) error {
	h := f.w.history[string(row.Key)]
	i := slices.IndexFunc(h, func(c commit) bool { return c.commit == row.CommitTS && c.start == row.StartTS })
	if i < 0 {
		return fmt.Errorf("row %s", showRow(row)+"was never committed")
	}
	old := ""
	if i > 0 {
		old = h[i-1].value
	}
	if h[i].value != string(row.Value) || old != string(row.Old) || (row.Op == event.Delete) != (h[i].value == "") {
		return fmt.Errorf("row %s is wrong: %+v, old %q", showRow(row), h[i], old)
	}
	if row.CommitTS <= f.told {
		return fmt.Errorf("row %s comes after resolved-ts %d", showRow(row), f.told)
	}
	f.got[change{key: string(row.Key), start: row.StartTS, commit: row.CommitTS}] = row
	return nil
}

// complete wants every commit of the span up to ts.
func (f *follower) complete(ts tso.TS) error {
	for key, h := range f.w.history { // each is judged alone: the order does not matter
		for _, c := range h {
			_, ok := f.got[change{key: key, start: c.start, commit: c.commit}]
			if c.commit > f.start && c.commit <= ts && f.span.Contains(span.Key(key)) && !ok {
				return fmt.Errorf("resolved-ts is %d, but key %s commit-ts %d is missing", ts, key, c.commit)
			}
		}
	}
	return nil
}
