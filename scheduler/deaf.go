package scheduler

import "github.com/sluice-cdc/sluice/capture"

// doubtPart of DeafTicks is waited before spans leave a capture that is deaf: others may
// be about to say that they are, too.
const doubtPart = 10

// hearing is what a capture says of how it hears the upstream.
type hearing struct {
	deaf  bool   // it does not hear all of it
	since uint64 // when it began to say so
	until uint64 // for so long after it does not count as one that hears
	poor  bool   // it is not given spans: somebody else hears better
}

// listened takes what a capture says.
func (o *Owner) listened(m *member, deaf bool) {
	h := &m.hearing
	if deaf {
		if !h.deaf {
			h.since = o.now
		}
		h.until = o.now + o.cfg.DeafTicks
	}
	h.deaf = deaf
}

// listen finds out who cannot follow the upstream while somebody else can, and has for
// a while. If nobody hears everything it is the upstream, and moving helps nobody.
func (o *Owner) listen() {
	well := false
	for _, m := range o.members {
		m.hearing.poor = false
		well = well || m.hearing.until <= o.now && m.takes()
	}
	for _, m := range o.members {
		m.hearing.poor = well && m.hearing.until > o.now
	}
}

// Deaf tells whether a capture cannot follow all of the upstream, and another can.
func (o *Owner) Deaf(id capture.ID) bool {
	m := o.member(id)
	return m != nil && o.deaf(m)
}

// deaf tells whether spans of a capture are better off elsewhere.
func (o *Owner) deaf(m *member) bool {
	h := &m.hearing
	return h.poor && h.deaf && o.now-h.since >= o.cfg.DeafTicks/doubtPart
}
