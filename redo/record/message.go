package record

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/tso"
)

// Messages are in the wire form of protocol buffers, which anybody can read and
// which grows: a field that a reader does not know it passes over. The numbers are
// never used again for something else.

// message is one that is written. What is zero is left out, except by the methods
// whose names begin with each.
type message []byte

func (m *message) num(field protowire.Number, v uint64) {
	if v != 0 {
		m.eachNum(field, v)
	}
}

func (m *message) eachNum(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

// signed is for small numbers of either sign.
func (m *message) signed(field protowire.Number, v int) {
	m.num(field, protowire.EncodeZigZag(int64(v)))
}

func (m *message) flag(field protowire.Number, v bool) {
	if v {
		m.num(field, 1)
	}
}

func (m *message) text(field protowire.Number, s string) {
	if s != "" {
		m.eachText(field, s)
	}
}

func (m *message) eachText(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) texts(field protowire.Number, list []string) {
	for _, s := range list {
		m.eachText(field, s)
	}
}

func (m *message) bytes(field protowire.Number, b []byte) {
	if len(b) > 0 {
		m.eachBytes(field, b)
	}
}

func (m *message) eachBytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

// field is one that is read: a number, or bytes.
type field struct {
	id    protowire.Number
	num   uint64
	bytes []byte
}

func (f field) text() string { return string(f.bytes) }
func (f field) signed() int  { return int(protowire.DecodeZigZag(f.num)) }
func (f field) flag() bool   { return f.num != 0 }
func (f field) ts() tso.TS   { return tso.TS(f.num) }

// fields calls fn with each field of a message.
func fields(b []byte, fn func(field) error) error {
	for len(b) > 0 {
		id, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("a field's number: %w", protowire.ParseError(n))
		}
		b = b[n:]
		f := field{id: id}
		switch kind {
		case protowire.VarintType:
			f.num, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.num, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(id, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", id, protowire.ParseError(n))
		}
		b = b[n:]
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

func appendHead(b []byte, h *Head) []byte {
	m := message(b)
	m.num(1, uint64(h.Kind))
	m.num(2, h.Cluster)
	m.text(3, h.Namespace)
	m.text(4, h.Changefeed)
	m.text(5, h.Incarnation)
	m.text(6, h.Writer)
	m.num(7, h.Run)
	m.num(8, h.Number)
	m.num(9, uint64(h.BeforeMax))
	m.text(10, h.Program)
	return m
}

func parseHead(b []byte, h *Head) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			h.Kind = Kind(f.num)
		case 2:
			h.Cluster = f.num
		case 3:
			h.Namespace = f.text()
		case 4:
			h.Changefeed = f.text()
		case 5:
			h.Incarnation = f.text()
		case 6:
			h.Writer = f.text()
		case 7:
			h.Run = f.num
		case 8:
			h.Number = f.num
		case 9:
			h.BeforeMax = f.ts()
		case 10:
			h.Program = f.text()
		}
		return nil
	})
}

func appendEnd(b []byte, e *End) []byte {
	m := message(b)
	m.num(1, e.Rows)
	m.num(2, e.DDLs)
	m.num(3, uint64(e.Min))
	m.num(4, uint64(e.Max))
	m.num(5, e.Blocks)
	return m
}

func parseEnd(b []byte, e *End) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			e.Rows = f.num
		case 2:
			e.DDLs = f.num
		case 3:
			e.Min = f.ts()
		case 4:
			e.Max = f.ts()
		case 5:
			e.Blocks = f.num
		}
		return nil
	})
}
