package region

import "github.com/sluice-cdc/sluice/span"

// A region's new version ends every registration of it, and TiKV keeps nothing of
// a scan that it breaks off. A region that gets a new version more often than its
// keys can be scanned, as the last one does while tables are created, would be
// scanned from its beginning for ever. So its keys are divided, and the parts take
// turns: the one with the least resolved-ts is registered by itself until it has a
// higher one, then the next. Once each has had its turn they are registered
// together again, from a resolved-ts that is so new that the scan is short.
//
// Who waits for its turn is looked up every now and then, in case that nobody has it.
//
// Where a part ends is only a guess at what can be scanned in time: whatever it
// is, a part's resolved-ts is TiKV's own for exactly its keys.

// cutsMax is how many registrations news of the region may end, without a move of
// the resolved-ts between, before its keys are divided. One split is no reason.
const cutsMax = 2

// inTurn is the one of a region's vacant holds that is to be registered by itself,
// nil where all are registered together.
func inTurn(holds []*hold) *hold {
	var turn *hold
	alone := false
	for _, h := range holds {
		alone = alone || h.alone
		if turn == nil || h.ts < turn.ts {
			turn = h
		}
	}
	if !alone {
		return nil
	}
	return turn
}

// divide takes the end of h's registration by news of its region. What could be
// scanned of it in the time, less to be sure, becomes a part.
func (t *Tracker) divide(h *hold) {
	h.cuts++
	if t.cfg.PartRows == 0 || h.cuts < cutsMax || h.match == nil || h.match.scanned < t.cfg.PartRows {
		return
	}
	at := t.spanKey(h.match.mark)
	whole := h.span(t.cfg.Span.TableID)
	if !whole.Contains(at) || at == h.start {
		return
	}
	h.alone = true
	rest := h.piece(span.Span{Start: at, End: h.end})
	rest.phase, rest.due, rest.why = vacant, t.now+backoffMax, causes[EpochNotMatch]
	t.cover.shorten(h, at)
	t.cover.add(rest)
	t.counts.Parts++
}

// turn ends the turn of a part whose resolved-ts has moved: the next of the
// region's keys are registered.
func (t *Tracker) turn(h *hold) {
	h.cuts, h.alone = 0, false
	if !h.part {
		return
	}
	r := h.region
	t.end(h)
	t.vacate(h, false, causeTurn)
	t.cover.schedule(h, vacant, t.now+backoffMax)
	t.lock(r)
}

func (t *Tracker) spanKey(raw string) span.Key {
	if t.cfg.SpanKey == nil {
		return span.Key(raw)
	}
	return t.cfg.SpanKey(raw)
}

// note counts an entry that may be the scan's, and remembers the key at a quarter
// to a half of them: scans go through the keys in order.
func (m *matcher) note(e *Entry) {
	m.scanned++
	if m.scanned&(m.scanned-1) == 0 {
		m.mark, m.next = m.next, string(e.Key)
	}
}
