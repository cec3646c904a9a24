package transport

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
)

// The version of peers.proto that this is, and the oldest that it talks to: the one
// before, so that captures can be upgraded one after another.
const (
	version       = 2
	oldestVersion = 1
)

// The frames, by their numbers in peers.proto.
const (
	frameHello   protowire.Number = 1
	frameWelcome protowire.Number = 2
	framePing    protowire.Number = 3
	framePong    protowire.Number = 4
	frameRefusal protowire.Number = 5
	frameOrders  protowire.Number = 6
	frameReport  protowire.Number = 7
)

// hello opens a stream.
type hello struct {
	version, oldest uint64
	cluster         string
	from, to        capture.ID
}

// refusal says that nobody takes messages of this kind of a changefeed.
type refusal struct {
	changefeed changefeed.ID
	kind       kind
	reason     string
}

// out is a message that is written. What is zero is left out.
type out []byte

func (m *out) num(id protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, id, protowire.VarintType), v)
	}
}

func (m *out) flag(id protowire.Number, v bool) {
	if v {
		m.num(id, 1)
	}
}

// fixed is for timestamps: as a varint they would be longer.
func (m *out) fixed(id protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendFixed64(protowire.AppendTag(*m, id, protowire.Fixed64Type), v)
	}
}

func (m *out) text(id protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, id, protowire.BytesType), s)
	}
}

// part is a message within, which is there even where all of it is zero.
func (m *out) part(id protowire.Number, fill func(*out)) {
	var p out
	fill(&p)
	*m = protowire.AppendBytes(protowire.AppendTag(*m, id, protowire.BytesType), p)
}

// field is one that is read: a number, or bytes.
type field struct {
	id    protowire.Number
	kind  protowire.Type
	num   uint64
	bytes []byte
	whole []byte // with its number, as it came
}

func (f field) text() string { return string(f.bytes) }
func (f field) flag() bool   { return f.num != 0 }

// fields calls fn with each field of a message. A field of another type than the one
// that is expected reads as zero: no version ever changes a field's type.
func fields(b []byte, fn func(field) error) error {
	for len(b) > 0 {
		id, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("a field's number: %w", protowire.ParseError(n))
		}
		f := field{id: id, kind: typ}
		value, size := b[n:], 0
		switch typ {
		case protowire.VarintType:
			f.num, size = protowire.ConsumeVarint(value)
		case protowire.Fixed64Type:
			f.num, size = protowire.ConsumeFixed64(value)
		case protowire.BytesType:
			f.bytes, size = protowire.ConsumeBytes(value)
		default:
			size = protowire.ConsumeFieldValue(id, typ, value)
		}
		if size < 0 {
			return fmt.Errorf("field %d: %w", id, protowire.ParseError(size))
		}
		f.whole = b[:n+size]
		b = b[n+size:]
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// frame is one frame's bytes: who it is for reads them.
func frame(id protowire.Number, fill func(*out)) []byte {
	var b out
	b.part(id, fill)
	return b
}

// unframe is a frame's number and body; 0 for one that a later version has added.
func unframe(b []byte) (id protowire.Number, body []byte, err error) {
	err = fields(b, func(f field) error {
		if f.kind == protowire.BytesType && f.id <= frameReport {
			id, body = f.id, f.bytes // of several the last counts, as in any oneof
		}
		return nil
	})
	return id, body, err
}

func nothing(*out) {}

func (h hello) frame() []byte {
	return frame(frameHello, func(m *out) {
		m.num(1, h.version)
		m.num(2, h.oldest)
		m.text(3, h.cluster)
		m.text(4, string(h.from))
		m.text(5, string(h.to))
	})
}

func readHello(b []byte) (h hello, err error) {
	err = fields(b, func(f field) error {
		switch f.id {
		case 1:
			h.version = f.num
		case 2:
			h.oldest = f.num
		case 3:
			h.cluster = f.text()
		case 4:
			h.from = capture.ID(f.text())
		case 5:
			h.to = capture.ID(f.text())
		}
		return nil
	})
	return h, err
}

func welcome() []byte {
	return frame(frameWelcome, func(m *out) {
		m.num(1, version)
		m.num(2, oldestVersion)
	})
}

func (r refusal) frame() []byte {
	return frame(frameRefusal, func(m *out) {
		m.part(1, feedPart(r.changefeed))
		m.flag(2, r.kind == kindReport)
		m.text(3, r.reason)
	})
}

func readRefusal(b []byte) (r refusal, err error) {
	err = fields(b, func(f field) error {
		switch f.id {
		case 1:
			return readFeed(f.bytes, &r.changefeed)
		case 2:
			if f.flag() {
				r.kind = kindReport
			}
		case 3:
			r.reason = f.text()
		}
		return nil
	})
	return r, err
}

func feedPart(id changefeed.ID) func(*out) {
	return func(m *out) {
		m.text(1, id.Namespace)
		m.text(2, id.Name)
	}
}

func readFeed(b []byte, id *changefeed.ID) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			id.Namespace = f.text()
		case 2:
			id.Name = f.text()
		}
		return nil
	})
}
