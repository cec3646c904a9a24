package pipeline

import (
	"context"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// cover is what has to be followed for a span: itself, or of a unit (event.Table.Unit)
// what its partitions are at the moment. Its reader goes no further than upto, and there
// leaves those that are gone and begins with those that are new.
type cover struct {
	of   span.Span
	unit bool
	as   *event.Table // of a unit
	all  []span.Span
	upto tso.TS // it is so up to here; 0: nothing is known
}

// outdated tells whether the cover has to be settled for rows above ts.
func (c *cover) outdated(ts tso.TS) bool { return c.upto <= ts }

// settle makes the cover that of the rows above ts, up to which the schema has to be
// known, and tells what it does not have any more and what it has from there on. Only a
// unit has to be looked at again: whether a table is partitioned is part of its id.
func (c *cover) settle(schema Schema, ts tso.TS) (leave, join []span.Span, err error) {
	known := schema.Resolved()
	t, upto := schema.Version(c.of.TableID, ts)
	now := c.all
	switch {
	case t != nil && t.Unit():
		if c.of != span.OfTable(t.ID) {
			return nil, nil, cdcerr.Bug("%v is a part of table %s, all of whose rows are in one order", c.of, t.FullName())
		}
		if c.unit = true; t != c.as {
			c.as, now = t, ofAll(t.PhysicalIDs())
		}
	case now == nil:
		now = []span.Span{c.of}
	}
	// A unit that is none any more keeps what it has, and nothing of it is its own: its
	// end was ordered, or will be.
	c.upto = tso.Max
	if c.unit {
		c.upto = min(upto, known)
	}
	leave, join = without(c.all, now), without(now, c.all)
	c.all = now
	return leave, join, nil
}

func ofAll(ids []int64) []span.Span {
	out := make([]span.Span, len(ids))
	for i, id := range ids {
		out[i] = span.OfTable(id)
	}
	return out
}

// without are those of a that are not in b.
func without(a, b []span.Span) (out []span.Span) {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return nil
	}
	in := make(map[span.Span]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return out
}

// hold has a place looked at once a limit has moved, or the schema.
func (r *rounds) hold(p *place) {
	if !p.waits {
		p.waits = true
		r.held = append(r.held, p)
	}
}

// settle follows what the place's rows are stored under from where it stands; false: it
// has to wait for the schema.
func (r *rounds) settle(ctx context.Context, p *place) (bool, error) {
	switch {
	case p.turn != nil, p.phase == following && p.cover.upto > 0, !p.cover.unit && !p.cover.outdated(p.last):
		return true, nil
	}
	if known := r.schema.Resolved(); known <= p.from || known < p.last {
		r.hold(p)
		return false, nil
	}
	leave, join, err := p.cover.settle(r.schema, p.last)
	if err != nil {
		return false, err
	}
	for _, s := range leave {
		p.rows.Leave(s)
	}
	for _, s := range join {
		if err := p.rows.Follow(ctx, s, p.last); err != nil {
			return false, err
		}
	}
	return true, nil
}
