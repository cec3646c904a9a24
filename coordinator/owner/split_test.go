package owner

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

// A span is cut where its regions meet, into parts of about as many; into no more than
// there are regions.
func TestEven(t *testing.T) {
	for _, c := range []struct {
		borders string
		parts   int
		want    string
	}{
		{"", 3, ""}, {"a", 2, "a"}, {"a", 5, "a"}, {"abc", 2, "b"}, {"abcdef", 3, "bd"}, {"abcdefghi", 4, "beg"}, {"abc", 4, "abc"}, {"abc", 1, ""},
	} {
		var borders []span.Key
		for _, b := range c.borders {
			borders = append(borders, span.Key(b))
		}
		got := ""
		for _, k := range even(borders, c.parts) {
			got += string(k)
		}
		if got != c.want {
			t.Errorf("%q into %d: at %q, want %q", c.borders, c.parts, got, c.want)
		}
	}
}

// What a DDL makes of tables: those it brings may not be in parts, or may; of those that
// were there only what is another is told.
func TestForm(t *testing.T) {
	one := []event.Index{{Unique: true, Primary: true}}
	two := append(slices.Clone(one), event.Index{Unique: true})
	all := append(slices.Clone(one), event.Index{Unique: true, Global: true})
	table := func(id int64, x []event.Index, parts ...int64) *event.Table {
		out := &event.Table{ID: id, Handle: event.Handle{Kind: event.IntHandle}, Indexes: x}
		for _, p := range parts {
			out.Partitions = append(out.Partitions, event.Partition{ID: p})
		}
		return out
	}
	for name, c := range map[string]struct {
		changes          []event.TableChange
		whole, divisible []span.TableID
	}{
		"a unique index comes":        {[]event.TableChange{{Before: table(1, one), After: table(1, two)}}, []span.TableID{1}, nil},
		"and goes":                    {[]event.TableChange{{Before: table(1, two), After: table(1, one)}}, nil, []span.TableID{1}},
		"nothing of the kind":         {[]event.TableChange{{Before: table(1, two), After: table(1, two)}, {Before: table(2, one), After: table(2, one)}}, nil, nil},
		"tables are made":             {[]event.TableChange{{After: table(4, two)}, {After: table(3, two)}, {After: table(2, one)}}, []span.TableID{3, 4}, nil},
		"a table is dropped":          {[]event.TableChange{{Before: table(1, one)}}, nil, nil},
		"a table becomes a unit":      {[]event.TableChange{{Before: table(1, one, 7, 8), After: table(1, all, 7, 8)}}, []span.TableID{1}, nil},
		"a partition is exchanged":    {[]event.TableChange{{Before: table(1, two, 7), After: table(1, two, 2)}, {Before: table(2, one), After: table(7, one)}}, []span.TableID{2}, []span.TableID{7}},
		"partitions come, with a key": {[]event.TableChange{{Before: table(1, two, 7), After: table(1, two, 7, 8)}}, []span.TableID{8}, nil},
	} {
		l := &Loop{cfg: Config{Divisible: (*event.Table).OneKey}}
		var off, x scheduler.DDL
		l.form(&off, c.changes)
		l.cfg.Scheduler.Split.Regions = 1
		l.form(&x, c.changes)
		if !slices.Equal(x.Whole, c.whole) || !slices.Equal(x.Divisible, c.divisible) || off.Whole != nil || off.Divisible != nil {
			t.Errorf("%s: whole %v, divisible %v; where nothing is split %v, %v", name, x.Whole, x.Divisible, off.Whole, off.Divisible)
		}
	}
}

// PD is asked again for borders that it does not tell; who is told to end asks no more.
func TestBordersAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := scheduler.New(func() scheduler.Config { c := scheduler.Default(); c.Owner = 1; return c }(), scheduler.Resume{})
		if err != nil {
			t.Fatal(err)
		}
		asked, fails := 0, 2
		l := &Loop{owner: o, wake: make(chan struct{}, 1)}
		l.cfg.Log = slog.New(slog.DiscardHandler)
		l.cfg.Borders = func(context.Context, span.Span) ([]span.Key, error) {
			if asked++; asked <= fails {
				return nil, errors.New("PD is away")
			}
			return nil, nil
		}
		if err := l.cut(t.Context(), scheduler.CutRequest{Span: span.OfTable(1), Parts: 2}); err != nil || asked != 3 || len(l.wake) != 1 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		asked, fails = 0, 100
		if err := l.cut(ctx, scheduler.CutRequest{Span: span.OfTable(1), Parts: 2}); !errors.Is(err, context.Canceled) || asked != 1 {
			t.Errorf("told to end, asked %d times: %v", asked, err)
		}
	})
}
