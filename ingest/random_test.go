package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/tso"
)

// crowd is readers that come and go over two tables. Each row has a commit-ts of
// its own: those of table 1 are odd, those of table 2 even, every third is not there.
type crowd struct {
	*world
	t       *rapid.T
	at      map[*sub]tso.TS
	readers []*member
	top     tso.TS
}

type member struct {
	*ingest.Reader
	last tso.TS
}

func rowsOf(table int64, lower, upper tso.TS) (out []tso.TS) {
	for ts := lower + 1; ts <= upper; ts++ {
		if int64(ts)%2 == table%2 && ts%3 != 0 {
			out = append(out, ts)
		}
	}
	return out
}

// join begins a reader at some ts, high or low.
func (c *crowd) join() {
	if len(c.readers) > 5 {
		c.t.Skip("enough")
	}
	from := tso.TS(rapid.IntRange(1, int(c.top)).Draw(c.t, "from"))
	c.readers = append(c.readers, &member{c.reader(false, from, 1, 2), from})
}

func (c *crowd) leave() {
	if len(c.readers) == 0 {
		c.t.Skip("nobody")
	}
	i := rapid.IntRange(0, len(c.readers)-1).Draw(c.t, "who")
	c.readers[i].Close()
	c.readers = slices.Delete(c.readers, i, i+1)
	synctest.Wait()
}

// deliver lets one subscription come on.
func (c *crowd) deliver() {
	if len(c.up.subs) == 0 {
		c.t.Skip("nobody")
	}
	c.push(rapid.IntRange(0, len(c.up.subs)-1).Draw(c.t, "which"), tso.TS(rapid.IntRange(1, 20).Draw(c.t, "by")))
}

func (c *crowd) push(i int, by tso.TS) {
	s := c.up.subs[i]
	from := max(c.at[s], s.StartTS)
	to := from + by
	c.at[s] = to
	c.top = max(c.top, to)
	c.up.send(i, to, rowsOf(s.Span.TableID, from, to)...)
	synctest.Wait()
}

func (c *crowd) advance() {
	if len(c.readers) == 0 {
		c.t.Skip("nobody")
	}
	c.take(rapid.SampledFrom(c.readers).Draw(c.t, "who"))
}

// take reads what a reader can, which must be just what there is.
func (c *crowd) take(m *member) {
	before := m.last
	if m.Resolved() < before {
		return // one of its pulls is not there yet
	}
	var got string
	m.last, got = c.read(m.Reader, before)
	var want []string
	for _, ts := range slices.Sorted(slices.Values(append(rowsOf(1, before, m.last), rowsOf(2, before, m.last)...))) {
		want = append(want, fmt.Sprint(ts))
	}
	if got != strings.Join(want, " ") {
		c.t.Fatalf("(%d, %d]: got %s, want %v", before, m.last, got, want)
	}
	synctest.Wait()
}

// settleDown lets everybody catch up: then one subscription a table is left.
func (c *crowd) settleDown() {
	for range 2 {
		for i := range c.up.subs {
			s := c.up.subs[i]
			if at := max(c.at[s], s.StartTS); at < c.top {
				c.push(i, c.top-at)
			}
		}
		for _, m := range c.readers {
			c.take(m)
		}
	}
	if n := len(c.up.subs); n != 2 && len(c.readers) > 0 {
		c.t.Fatalf("%d subscriptions for two tables: %q", n, c.up.list())
	}
	for _, m := range c.readers {
		c.take(m)
		m.Close()
	}
	synctest.Wait()
	if used := c.rows.Used(); used.Memory != 0 || len(c.up.subs) != 0 {
		c.t.Fatalf("%+v in use, subscriptions %q", used, c.up.list())
	}
}

func TestRandomReaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		acts := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(rt, "acts")
		var failed any
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{world: start(t), t: rt, at: map[*sub]tso.TS{}, top: 50}
			defer func() { // rapid's own end of a case, out of the bubble
				if failed = recover(); failed != nil {
					for _, m := range c.readers {
						m.Close()
					}
				}
			}()
			for _, act := range acts {
				c.act(act)
			}
			c.settleDown()
		})
		if failed != nil {
			panic(failed)
		}
	})
}

func (c *crowd) act(n int) {
	switch {
	case n == 0 && len(c.readers) < 6:
		c.join()
	case n == 1 && len(c.readers) > 0:
		c.leave()
	case n < 6 && len(c.up.subs) > 0:
		c.deliver()
	case len(c.readers) > 0:
		c.advance()
	}
}
