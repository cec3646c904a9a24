package verify

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/event"
)

// CellKind tells the printed forms of a cell apart.
type CellKind uint8

// The forms. The zero Cell is NULL.
const (
	NullCell CellKind = iota
	TextCell
	HexCell
)

// Cell is one printed cell of a recording: NULL, a text, or bytes in lower-case
// hexadecimal. Two cells are the same when they are ==.
type Cell struct {
	Kind CellKind
	Text string
}

// Text is a cell of characters.
func Text(s string) Cell { return Cell{Kind: TextCell, Text: s} }

// Hex is a cell of bytes.
func Hex(b []byte) Cell { return Cell{Kind: HexCell, Text: hex.EncodeToString(b)} }

// cellShown is how much of a cell a message shows: enough to recognise it.
const cellShown = 120

// String is the cell for a message: NULL, a quoted text or x'…', cut when long.
func (c Cell) String() string {
	s, tail := c.Text, ""
	if len(s) > cellShown {
		cut := cellShown
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s, tail = s[:cut], "… ("+strconv.Itoa(len(c.Text))+" bytes)"
	}
	switch c.Kind {
	case NullCell:
		return "NULL"
	case HexCell:
		return "x'" + s + "'" + tail
	}
	return strconv.Quote(s) + tail
}

// asText is a cell of bytes as the text that JSON makes of them: what is no
// UTF-8 becomes U+FFFD, byte by byte.
func (c Cell) asText() Cell {
	b, err := hex.DecodeString(c.Text)
	if c.Kind != HexCell || err != nil {
		return c
	}
	return Text(string([]rune(string(b))))
}

// CellOf prints a value as TiDB's recorder did. NULL is the zero Cell; a Missing
// value has no print, callers ask before.
func CellOf(v event.Value, c *event.Column) Cell {
	switch {
	case v.IsNull() || v.IsMissing():
		return Cell{}
	case v.IsText(c):
		return Text(v.Text(c))
	}
	// A BINARY(n) that has grown since the row was written is padded when read.
	return Hex(event.PadBinary(c, v.AppendText(nil, c)))
}
