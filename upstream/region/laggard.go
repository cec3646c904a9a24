package region

import (
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// Patience is how long a resolved-ts may stand still before something is done.
// A zero field does nothing.
type Patience struct {
	// Stuck: then the region is searched for locks, if it is as far behind PD's
	// time as well.
	Stuck time.Duration
	// Slow: then a region that is as far behind the fastest is named.
	Slow time.Duration
	// Renew: then it is registered anew; again after twice the time, and so on. A
	// region in which an open transaction is seen gets heldFactor times as long.
	Renew time.Duration
}

const (
	// A renewal costs a scan from the resolved-ts on, and for an open transaction
	// all that it has written. It helps when TiKV lost track of the transaction's
	// end, which is rare; mostly the transaction is just long.
	heldFactor = 8
	// renewalsMax is the last doubling: from half a minute, a quarter of an hour.
	renewalsMax = 5
	// renewAtOnce bounds the scans that one look at the clock causes.
	renewAtOnce = 8
	// loneFactor is how much longer a region may stand still that is among the
	// fastest: then all stand still, and it is likely not a region's fault.
	loneFactor = 4
	// stuckAtOnce bounds the searches that one look at the clock asks for; who is
	// left out is asked for at the next.
	stuckAtOnce = 1024
	// namedMax bounds how many laggards are named; the rest is counted.
	namedMax = 8
)

// Lag is who stays behind, as of one look at the clock.
type Lag struct {
	Slow  int       // regions that lag
	Named []Laggard // the slowest of them
}

// StepClock tells PD's time and the highest resolved-ts of any region that is
// followed anywhere. Laggards are judged here and nowhere else: while PD does not
// answer nobody calls it, and nobody is blamed for what PD does not give out.
func (t *Tracker) StepClock(pd, fastest tso.TS) {
	if t.out.Err != nil {
		return
	}
	t.pd = max(t.pd, pd)
	t.stuck()
	t.lag(max(fastest, t.fastest))
}

// StepStarved tells that a stream could not be read for a while, up to now,
// because what came before was not taken: its regions could not move.
func (t *Tracker) StepStarved(stream uint64) { t.starved[stream] = t.now }

// stands tells whether a region's resolved-ts should have moved and has not, for
// as long as d.
func (t *Tracker) stands(h *hold, d time.Duration) bool {
	return h.phase == subscribed && h.match.initialized && t.now-max(h.moved, t.starved[h.stream]) >= d
}

// stuck asks for searches of all regions that may be held back by a lock. Near
// their own resolved-ts: what is locked later cannot hold them back yet.
func (t *Tracker) stuck() {
	if t.cfg.Stuck == 0 {
		return
	}
	t.cover.below(shift(t.pd, -t.cfg.Stuck), func(h *hold) bool {
		if t.stands(h, t.cfg.Stuck) {
			target := min(t.pd, shift(h.ts, t.cfg.Stuck))
			t.out.Stuck = append(t.out.Stuck, Stuck{Region: h.region, Span: h.span(t.cfg.Span.TableID), Target: target})
		}
		return len(t.out.Stuck) < stuckAtOnce
	})
}

// lag names laggards and renews those that have been it for too long.
func (t *Tracker) lag(fastest tso.TS) {
	if t.cfg.Slow == 0 {
		return
	}
	var slow, lone []*hold
	t.cover.below(shift(fastest, -t.cfg.Slow), func(h *hold) bool {
		if t.stands(h, t.cfg.Slow) {
			slow = append(slow, h)
		}
		return true
	})
	if len(slow) == 0 && t.cfg.Renew != 0 {
		t.cover.below(shift(t.pd, -loneFactor*t.cfg.Renew), func(h *hold) bool {
			if t.stands(h, loneFactor*t.cfg.Renew) {
				lone = append(lone, h)
			}
			return true
		})
	}
	slices.SortFunc(slow, slower)
	slices.SortFunc(lone, slower)
	t.out.Lag = &Lag{Slow: len(slow) + len(lone)}
	for _, h := range slow[:min(len(slow), namedMax)] {
		t.name(h, fastest)
	}
	for _, h := range lone[:min(len(lone), namedMax)] {
		t.name(h, t.pd)
	}
	t.renew(slow, 1, renewAtOnce)
	t.renew(lone, loneFactor, 1)
}

func slower(a, b *hold) int {
	switch {
	case a.ts < b.ts, a.ts == b.ts && a.start < b.start:
		return -1
	case a == b:
		return 0
	}
	return 1
}

func (t *Tracker) name(h *hold, ahead tso.TS) {
	l := Laggard{Region: h.region, Span: h.span(t.cfg.Span.TableID), Resolved: h.ts,
		Behind: ahead.Sub(h.ts), Still: t.now - h.moved, Renewals: h.renewals}
	start, key := h.match.oldest()
	l.HeldBy, l.HeldKey = start, []byte(key)
	t.out.Lag.Named = append(t.out.Lag.Named, l)
}

// renew gives up the registrations of those laggards whose time has come, at most
// so many.
func (t *Tracker) renew(slow []*hold, factor, atMost int) {
	if t.cfg.Renew == 0 {
		return
	}
	// One message tells many regions the least resolved-ts among them: those that
	// share it with a region that is held back are so as well.
	held := map[tso.TS]bool{}
	for _, h := range slow {
		if start, _ := h.match.oldest(); start != 0 && start <= shift(h.ts, t.cfg.Slow) {
			held[h.ts] = true
		}
	}
	for _, h := range slow {
		times := factor << min(h.renewals, renewalsMax)
		if held[h.ts] {
			times *= heldFactor
		}
		patience := time.Duration(times) * t.cfg.Renew
		if !t.stands(h, patience) {
			continue
		}
		if atMost--; atMost < 0 {
			return
		}
		t.counts.Renewals++
		h.renewals++
		t.end(h)
		t.vacate(h, false, causeRenewed)
	}
}

// shift moves a timestamp by a wall clock distance, not below zero.
func shift(ts tso.TS, d time.Duration) tso.TS {
	ms := ts.Physical() + d.Milliseconds()
	if ms < 0 {
		return 0
	}
	return tso.New(ms, ts.Logical())
}
