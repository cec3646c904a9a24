package transport

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// errStrange is a value that a later version has added to a list of words. Of a
// status with a phase that nobody knows here one cannot say what the capture may
// write, nor leave it out: the owner would take the span for nobody's (P1).
var errStrange = errors.New("a word of a later version")

// Words by their numbers in peers.proto: what scheduler counts them by is its own.
var (
	verbs     = []scheduler.Verb{1: scheduler.Prepare, 2: scheduler.Write, 3: scheduler.Stop}
	phases    = []scheduler.Phase{scheduler.Absent, scheduler.Preparing, scheduler.Prepared, scheduler.Writing, scheduler.Stopping, scheduler.Stopped}
	livelines = []capture.Liveness{capture.Alive, capture.Stopping}
)

// word is the word of a number.
func word[W ~uint8](words []W, name string, n uint64, first uint64) (W, error) {
	if n < first || n >= uint64(len(words)) {
		return 0, fmt.Errorf("%s %d: %w", name, n, errStrange)
	}
	return words[n], nil
}

// number is a word's number.
func number[W ~uint8](words []W, w W, first uint64) uint64 {
	for n := first; n < uint64(len(words)); n++ {
		if words[n] == w {
			return n
		}
	}
	return uint64(len(words)) // none: whoever reads it drops the message
}

// frame writes a message.
func (m *Message) frame() []byte {
	if m.Report != nil {
		return frame(frameReport, func(b *out) { m.report(b) })
	}
	return frame(frameOrders, func(b *out) { m.orders(b) })
}

func (m *Message) orders(b *out) {
	o := m.Orders
	b.part(1, feedPart(m.Changefeed))
	b.part(2, headPart(o.Head))
	b.num(3, o.Ack)
	b.part(4, func(b *out) {
		b.flag(1, o.Barrier.Known)
		b.fixed(2, uint64(o.Barrier.Passed))
		b.fixed(3, uint64(o.Barrier.Sync))
		for _, p := range o.Barrier.Tables {
			b.part(4, func(b *out) {
				b.num(1, uint64(p.Table))
				b.fixed(2, uint64(p.TS))
			})
		}
		b.fixed(5, uint64(o.Barrier.Gate))
	})
	for i := range o.Orders {
		x := &o.Orders[i]
		b.part(5, func(b *out) {
			b.num(1, number(verbs, x.Verb, 1))
			b.part(2, spanPart(x.Span))
			b.fixed(3, uint64(x.From))
			b.num(4, uint64(x.Grant))
		})
	}
	*b = append(*b, m.Unknown...)
}

func (m *Message) report(b *out) {
	r := m.Report
	b.part(1, feedPart(m.Changefeed))
	b.part(2, headPart(r.Head))
	b.num(3, r.Upto)
	b.flag(4, r.Complete)
	b.num(5, uint64(r.Writes))
	b.part(6, func(b *out) {
		b.fixed(1, uint64(r.Floor.Checkpoint))
		b.fixed(2, uint64(r.Floor.Resolved))
	})
	b.num(7, number(livelines, r.Liveness, 0))
	for i := range r.Statuses {
		s := &r.Statuses[i]
		b.part(8, func(b *out) {
			b.num(1, s.Change)
			b.part(2, spanPart(s.Span))
			b.num(3, number(phases, s.Phase, 0))
			b.fixed(4, uint64(s.Checkpoint))
			b.fixed(5, uint64(s.Resolved))
			b.num(6, uint64(s.Grant))
			b.num(7, uint64(s.Regions))
			b.num(8, s.Traffic)
		})
	}
	b.text(9, r.Fault)
	b.num(10, r.Rows)
	b.fixed(11, uint64(r.Written))
	b.text(12, r.Warning)
	b.text(13, string(r.Extents))
	b.flag(14, r.Deaf)
	*b = append(*b, m.Unknown...)
}

func headPart(h scheduler.Head) func(*out) {
	return func(b *out) {
		b.num(1, uint64(h.Owner))
		b.num(2, h.Epoch)
		b.text(3, string(h.Capture))
		b.num(4, h.Incarnation)
		b.num(5, uint64(h.Term))
		b.num(6, h.Seq)
	}
}

func spanPart(s span.Span) func(*out) {
	return func(b *out) {
		b.num(1, uint64(s.TableID))
		b.text(2, string(s.Start))
		b.text(3, string(s.End))
	}
}

// readMessage reads the body of one of the two frames. An error that is errStrange
// says that it is sound, and that nobody can act on it here.
func readMessage(id protowire.Number, b []byte) (m Message, err error) {
	if id == frameReport {
		m.Report = &scheduler.Report{}
		return m, fields(b, m.readReport)
	}
	m.Orders = &scheduler.Orders{}
	return m, fields(b, m.readOrders)
}

func (m *Message) readOrders(f field) error {
	o := m.Orders
	switch f.id {
	case 1:
		return readFeed(f.bytes, &m.Changefeed)
	case 2:
		return readHead(f.bytes, &o.Head)
	case 3:
		o.Ack = f.num
	case 4:
		return readBarrier(f.bytes, &o.Barrier)
	case 5:
		x, err := readOrder(f.bytes)
		o.Orders = append(o.Orders, x)
		return err
	default:
		m.Unknown = append(m.Unknown, f.whole...)
	}
	return nil
}

func (m *Message) readReport(f field) (err error) {
	r := m.Report
	switch f.id {
	case 1:
		return readFeed(f.bytes, &m.Changefeed)
	case 2:
		return readHead(f.bytes, &r.Head)
	case 3:
		r.Upto = f.num
	case 4:
		r.Complete = f.flag()
	case 5:
		r.Writes = int(f.num)
	case 6:
		return readProgress(f.bytes, &r.Floor)
	case 7:
		r.Liveness, err = word(livelines, "liveness", f.num, 0)
	case 8:
		s, err := readStatus(f.bytes)
		r.Statuses = append(r.Statuses, s)
		return err
	case 9:
		r.Fault = f.text()
	case 10:
		r.Rows = f.num
	case 11:
		r.Written = tso.TS(f.num)
	case 12:
		r.Warning = f.text()
	case 13:
		r.Extents = slices.Clone(f.bytes)
	case 14:
		r.Deaf = f.flag()
	default:
		m.Unknown = append(m.Unknown, f.whole...)
	}
	return err
}

func readHead(b []byte, h *scheduler.Head) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			h.Owner = scheduler.Revision(f.num)
		case 2:
			h.Epoch = f.num
		case 3:
			h.Capture = capture.ID(f.text())
		case 4:
			h.Incarnation = f.num
		case 5:
			h.Term = scheduler.Term(f.num)
		case 6:
			h.Seq = f.num
		}
		return nil
	})
}

func readBarrier(b []byte, v *scheduler.Barrier) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			v.Known = f.flag()
		case 2:
			v.Passed = tso.TS(f.num)
		case 3:
			v.Sync = tso.TS(f.num)
		case 4:
			var p scheduler.Passed
			err := fields(f.bytes, func(f field) error {
				switch f.id {
				case 1:
					p.Table = span.TableID(f.num)
				case 2:
					p.TS = tso.TS(f.num)
				}
				return nil
			})
			v.Tables = append(v.Tables, p)
			return err
		case 5:
			v.Gate = tso.TS(f.num)
		}
		return nil
	})
}

func readOrder(b []byte) (x scheduler.Order, err error) {
	verb := uint64(0)
	err = fields(b, func(f field) error {
		switch f.id {
		case 1:
			verb = f.num
		case 2:
			return readSpan(f.bytes, &x.Span)
		case 3:
			x.From = tso.TS(f.num)
		case 4:
			x.Grant = scheduler.Term(f.num)
		}
		return nil
	})
	if err == nil {
		x.Verb, err = word(verbs, "verb", verb, 1)
	}
	return x, err
}

func readSpan(b []byte, s *span.Span) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			s.TableID = span.TableID(f.num)
		case 2:
			s.Start = span.Key(f.bytes)
		case 3:
			s.End = span.Key(f.bytes)
		}
		return nil
	})
}

func readProgress(b []byte, p *scheduler.Progress) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			p.Checkpoint = tso.TS(f.num)
		case 2:
			p.Resolved = tso.TS(f.num)
		}
		return nil
	})
}

func readStatus(b []byte) (s scheduler.Status, err error) {
	err = fields(b, func(f field) (err error) {
		switch f.id {
		case 1:
			s.Change = f.num
		case 2:
			return readSpan(f.bytes, &s.Span)
		case 3:
			s.Phase, err = word(phases, "phase", f.num, 0)
		case 4:
			s.Checkpoint = tso.TS(f.num)
		case 5:
			s.Resolved = tso.TS(f.num)
		case 6:
			s.Grant = scheduler.Term(f.num)
		case 7:
			s.Regions = uint32(f.num)
		case 8:
			s.Traffic = f.num
		}
		return err
	})
	return s, err
}
