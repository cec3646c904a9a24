package upstream

import (
	"context"
	"slices"

	"github.com/sluice-cdc/sluice/span"
)

// Regions is how many regions each span that is followed has, as things stood at the
// last look at the clock.
func (c *Client) Regions() map[span.Span]int {
	feeds := c.follows.all()
	out := make(map[span.Span]int, len(feeds))
	for _, f := range feeds {
		s := f.state.Load()
		out[s.Span] = s.Regions
	}
	return out
}

// Borders are the keys inside a span at which one region ends and another begins, in
// order, as PD knows them.
func (c *Client) Borders(ctx context.Context, s span.Span) (out []span.Key, err error) {
	on, err := c.keyspace.span(s)
	if err != nil {
		return nil, err
	}
	for rest := on; !rest.Empty(); {
		found, err := c.locate(ctx, rest)
		if err != nil {
			return nil, err
		}
		for i := range found {
			at := found[i].Span.Start
			if _, err := span.DecodeKey(at); err != nil || at <= on.Start || !on.Contains(at) {
				continue // keys of no row's form are nobody's border
			}
			out = append(out, c.keyspace.inner(span.Span{Start: at}).Start)
		}
		if len(found) == 0 || found[len(found)-1].Span.End == "" || found[len(found)-1].Span.End <= rest.Start {
			break
		}
		rest.Start = found[len(found)-1].Span.End
	}
	return slices.Compact(out), nil
}
