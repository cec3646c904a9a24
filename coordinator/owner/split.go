package owner

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

// splits tells whether tables are split at all.
func (c *Config) splits() bool { return c.Scheduler.Split.Regions > 0 || c.Scheduler.Split.Traffic > 0 }

// whole tells whether a table may not be written in parts: the rows of a unit are in one
// order, and others may stand in each other's way downstream.
func (c *Config) whole(t *event.Table) bool {
	return t.Unit() || c.Divisible != nil && !c.Divisible(t)
}

// form says which ids may be in parts from a DDL on: those that it brings, and of those
// that were there those of which it makes something else. Where nothing is split nobody
// needs to know.
func (l *Loop) form(x *scheduler.DDL, changes []event.TableChange) {
	if !l.cfg.splits() {
		return
	}
	was := map[span.TableID]bool{}
	for _, c := range changes {
		if c.Before != nil {
			for _, id := range c.Before.SpanIDs() {
				was[id] = l.cfg.whole(c.Before)
			}
		}
	}
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		is := l.cfg.whole(c.After)
		for _, id := range c.After.SpanIDs() {
			before, there := was[id]
			switch {
			case is && (!there || !before):
				x.Whole = append(x.Whole, id)
			case !is && before:
				x.Divisible = append(x.Divisible, id)
			}
		}
	}
	for _, ids := range []*[]span.TableID{&x.Whole, &x.Divisible} {
		slices.Sort(*ids)
		*ids = slices.Compact(*ids)
	}
}

// askAgain is how long PD is left alone that did not say where regions meet.
const askAgain = time.Second

// cut looks up where a span can be cut into parts of about as many regions each.
func (l *Loop) cut(ctx context.Context, c scheduler.CutRequest) error {
	borders, err := l.cfg.Borders(ctx, c.Span)
	for err != nil {
		l.cfg.Log.Info("a large table waits for its regions to be split", "changefeed", l.cfg.Changefeed, "span", c.Span, "error", err)
		if err := pause(ctx, askAgain); err != nil {
			return err
		}
		borders, err = l.cfg.Borders(ctx, c.Span)
	}
	l.mu.Lock()
	l.owner.Cut(c.Span, even(borders, c.Parts))
	l.mu.Unlock()
	l.look()
	return nil
}

// even are those borders that part what is between all of them, and before the first and
// behind the last, into so many parts of about as many; into fewer where there are fewer.
func even(borders []span.Key, parts int) (out []span.Key) {
	regions := len(borders) + 1
	parts = min(parts, regions)
	for i := 1; i < parts; i++ {
		out = append(out, borders[i*regions/parts-1])
	}
	return out
}
