package sim

import (
	"slices"

	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// keys is how many keys a table has: enough to be cut into some spans.
const keys = 8

// row is one committed change.
type row struct {
	ts      tso.TS
	table   *source
	key     int
	whole   bool // a part of the table may not write it
	applied bool
	files   []logFile // in which the redo log has it
}

// source is an upstream table, with what the downstream has of it.
type source struct {
	id      span.TableID
	slot    int
	from    tso.TS // its rows are above
	dropped bool
	born    *change // the DDL that brought it
	whole   bool    // it may not be in parts
	rows    []*row
	ddls    []*change // those that part its rows, in order

	// The downstream's side.
	applied int          // rows before it are all downstream
	done    int          // ddls before it are all done
	grants  [keys]uint64 // the latest placement that wrote each key
}

// change is a DDL upstream.
type change struct {
	scheduler.DDL
	touched []*source
	done    bool
	logged  bool // in the redo log
}

// upstream is TiDB: a clock, tables, and the log of what was committed.
type upstream struct {
	now     tso.TS
	sources []*source // by id, first is 1
	live    []*source // by slot, nil where there is none
	log     []*row
	ddls    []*change
}

const slots = 5

func newUpstream(tables int) *upstream {
	u := &upstream{now: tso.New(1, 0), live: make([]*source, slots)}
	for i := range tables {
		u.create(i)
	}
	return u
}

func (u *upstream) next() tso.TS {
	u.now = tso.New(u.now.Physical()+1, 0)
	return u.now
}

func (u *upstream) create(slot int) *source {
	s := &source{id: span.TableID(len(u.sources) + 1), slot: slot, from: u.now}
	u.sources = append(u.sources, s)
	u.live[slot] = s
	return s
}

func (u *upstream) source(id span.TableID) *source { return u.sources[id-1] }

// some is a live table, nil if there is none.
func (u *upstream) some(n uint32) *source {
	for i := range slots {
		if s := u.live[(int(n)+i)%slots]; s != nil {
			return s
		}
	}
	return nil
}

// commit writes a row.
func (u *upstream) commit(a, b uint32) {
	s := u.some(a)
	if s == nil {
		return
	}
	r := &row{ts: u.next(), table: s, key: int(b % keys), whole: s.whole}
	s.rows = append(s.rows, r)
	u.log = append(u.log, r)
}

// ddl changes tables: one, two, all, or which there are. Some are ignored: nothing is
// sent of them, and only the watermark tells that they are done.
func (u *upstream) ddl(a, b uint32) {
	ts := u.next()
	c := &change{DDL: scheduler.DDL{Job: int64(len(u.ddls) + 1), TS: ts, Unrecorded: b>>16%4 == 0}}
	touch := func(s *source) {
		c.touched = append(c.touched, s)
		c.Tables = append(c.Tables, s.id)
		c.Names = append(c.Names, slotName(s.slot))
		s.ddls = append(s.ddls, c)
	}
	s := u.some(a)
	kind := b % 9
	switch {
	case s == nil || kind == 0: // create
		slot := int(a % slots)
		if u.live[slot] != nil {
			touch(u.live[slot]) // the name is taken: it is an ALTER
			break
		}
		c.Names = append(c.Names, slotName(slot))
		c.add(u.create(slot))
	case kind == 1: // drop
		touch(s)
		c.Removed = append(c.Removed, s.id)
		s.dropped, u.live[s.slot] = true, nil
	case kind <= 3: // truncate
		touch(s)
		c.Removed = append(c.Removed, s.id)
		s.dropped = true
		c.add(u.create(s.slot))
	case kind == 4: // rename two
		touch(s)
		if o := u.some(a + 1); o != s {
			touch(o)
			s.slot, o.slot = o.slot, s.slot
			u.live[s.slot], u.live[o.slot] = s, o
		}
	case kind == 5: // the whole schema
		for _, l := range u.live {
			if l != nil {
				touch(l)
			}
		}
		c.Names = append(c.Names, scheduler.Name{Schema: "d"})
	case kind == 6: // a unique index comes or goes
		touch(s)
		if s.whole = !s.whole; s.whole {
			c.Whole = append(c.Whole, s.id)
		} else {
			c.Divisible = append(c.Divisible, s.id)
		}
	default:
		touch(s)
	}
	u.ddls = append(u.ddls, c)
}

func (c *change) add(s *source) {
	c.Added = append(c.Added, s.id)
	s.born = c
	if s.whole = c.Job%2 == 1; s.whole {
		c.Whole = append(c.Whole, s.id)
	}
}

// wholeAt tells whether a table may not be in parts above ts.
func (s *source) wholeAt(ts tso.TS) bool {
	whole := s.born != nil && slices.Contains(s.born.Whole, s.id)
	for _, c := range s.ddls {
		if c.TS <= ts && len(c.Added) == 0 {
			whole = (whole || slices.Contains(c.Whole, s.id)) && !slices.Contains(c.Divisible, s.id)
		}
	}
	return whole
}

func slotName(slot int) scheduler.Name {
	return scheduler.Name{Schema: "d", Table: string(rune('a' + slot))}
}

// wholes are the spans of tables; computing one costs more than a step.
type wholes []span.Span

func (w *wholes) of(id span.TableID) span.Span {
	for int(id) >= len(*w) {
		*w = append(*w, span.OfTable(span.TableID(len(*w))))
	}
	return (*w)[id]
}

// border is the key before which keys below n stand.
func border(whole span.Span, n int) span.Key { return whole.Start + span.Key(rune('a'+n)) }

// keysOf are the keys in a span, [lo, hi).
func keysOf(whole, s span.Span) (lo, hi int) {
	hi = keys
	if s.Start != whole.Start {
		lo = int(s.Start[len(whole.Start)] - 'a')
	}
	if s.End != whole.End {
		hi = int(s.End[len(whole.Start)] - 'a')
	}
	return lo, hi
}
