package scheduler

import "github.com/sluice-cdc/sluice/capture"

// ailment is what a capture fails of that others may not: its way to the downstream, its
// disk. It is given nothing for a while, longer each time, and then one span at first.
type ailment struct {
	text  string // what it told
	times uint64 // it has failed, in a row
	until uint64 // the tick up to which it rests
	trial uint64 // and up to which it is tried with one span

	stuck uint64 // the tick since which it warns while its floor stands where it stood; 0: it does not
	floor Progress

	// What follows, as of this look.
	out bool // it is given nothing: somebody else can take its spans
	one bool // it is given no second span
}

// fails takes a fault: another capture may not have it, or it is the changefeed's.
func (o *Owner) fails(m *member, text string) {
	if !o.cfg.local(text) {
		o.faults = append(o.faults, Fault{m.id, text})
		return
	}
	o.rest(m, text)
}

// rest keeps a capture out, twice as long as the last time; one that went on for the
// longest time of rest begins anew.
func (o *Owner) rest(m *member, text string) {
	a := &m.ail
	if o.now > a.until+o.cfg.RestMaxTicks {
		a.times = 0
	}
	d := min(o.cfg.RestTicks<<min(a.times, 30), o.cfg.RestMaxTicks)
	*a = ailment{text: text, times: a.times + 1, until: o.now + d, trial: o.now + d + trialRests*o.cfg.RestTicks}
	o.ailing = append(o.ailing, Fault{m.id, text})
}

// trialRests is how many times RestTicks a trial lasts: long enough for a span to come, and
// for a dial to fail.
const trialRests = 6

// feels takes what a capture rides out. Where its floor moves it gets over it, and where
// the floor waits for somebody else nothing can be told of it.
func (m *member) feels(o *Owner, r *Report) {
	a := &m.ail
	switch {
	case m.raising != 0 || r.Warning == "" || r.Writes == 0 || !o.cfg.local(r.Warning) || o.held(r.Floor):
		a.stuck = 0
	case a.stuck == 0 || r.Floor.Checkpoint != a.floor.Checkpoint: // it goes back with a span that lags
		a.stuck, a.floor = o.now, r.Floor
	}
}

// held tells whether a floor stands where it is told to: below a DDL, at a sync point or
// the target, at the redo log's gate.
func (o *Owner) held(p Progress) bool {
	limit := o.limit()
	if o.cfg.Gated {
		limit = min(limit, o.barrier.Gate)
	}
	if len(o.pending) > 0 {
		limit = min(limit, o.pending[0].TS.Prev())
	}
	return p.Checkpoint >= limit
}

// nurse finds out whose spans go elsewhere. Where nobody else is well the trouble is not
// one capture's, and what it told is the changefeed's. While the owner finds out who has
// what, it does not know who is well.
func (o *Owner) nurse() {
	if o.rebuilding {
		return
	}
	for _, m := range o.members {
		if a := &m.ail; a.stuck != 0 && o.now-a.stuck >= o.cfg.StuckTicks && o.cfg.Fenced && m.raising == 0 && o.spares(m, true) {
			// It would not let go before its sink gives up. The fence is raised by the
			// owner's own way: nobody's spans move while that is no better.
			o.rest(m, m.warning)
			o.fenceOff(m)
		}
	}
	for _, m := range o.members {
		a := &m.ail
		a.out = a.until > o.now && o.spares(m, true)
		a.one = a.trial > o.now && o.spares(m, false)
	}
	all := o.ailing
	o.ailing = nil
	for _, f := range all {
		if m := o.member(f.Capture); m != nil && !m.ail.out {
			o.faults = append(o.faults, f)
		} else {
			o.spared = append(o.spared, f)
		}
	}
}

// spares tells whether somebody else is there who can take what a capture has, and is well,
// or on trial at most.
func (o *Owner) spares(not *member, trials bool) bool {
	for _, m := range o.members {
		if m != not && m.told && m.term != 0 && !m.gone && m.liveness == capture.Alive && !m.draining && m.raising == 0 && !m.broken &&
			!m.hearing.poor && m.ail.until <= o.now && (trials || m.ail.trial <= o.now) && m.ail.stuck == 0 && o.now-m.heard <= o.cfg.SilentTicks {
			return true
		}
	}
	return false
}

// local tells whether an error may be of one capture alone.
func (c *Config) local(text string) bool { return c.Local != nil && c.Local(text) }
