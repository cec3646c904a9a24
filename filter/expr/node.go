package expr

import (
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/event"
)

// form is what is known of a node's values before there are any.
type form uint8

const (
	formNull   form = iota
	formNumber      // signed, unsigned, exact or double
	formText
	formMember // of an ENUM or SET: a name and a number
	formBits   // a BIT column: a number, and no text
	formBinary // a hexadecimal or bit literal: a number or bytes
	formDate   // a moment at midnight
	formMoment // DATETIME, TIMESTAMP
	formClock  // TIME
	formOpaque // JSON, vectors
)

var formNames = [...]string{"NULL", "a number", "a string", "an ENUM or SET", "a BIT", "a binary literal", "a DATE", "a date and time", "a TIME", "JSON or a vector"}

// rank is the weight of a node's collation; the lowest one rules.
type rank uint8

const (
	byCollate rank = iota
	byColumn
	byLiteral
	byNumber
)

// node is one compiled part of an expression.
type node struct {
	text      phrase
	form      form
	collation string // of text
	rank      rank
	column    *event.Column // whose printing the value has; nil where that is not needed
	constant  bool
	year      bool // a YEAR column
	eval      evaluator
}

// literalCollation is TiDB's default for literals.
const literalCollation = "utf8mb4_bin"

func (n *node) isText() bool { return n.form == formText || n.form == formMember }

func (n *node) isMoment() bool { return n.form == formDate || n.form == formMoment }

// condition says whether the node can stand where a truth value is wanted.
func (n *node) condition() error {
	switch n.form {
	case formOpaque, formBinary:
		return fmt.Errorf("%s is %s, which is neither true nor false", n.text, formNames[n.form])
	}
	return nil
}

// number is the node where arithmetic wants one.
func (n *node) number() (evaluator, error) {
	switch n.form {
	case formOpaque:
		return nil, fmt.Errorf("%s is %s, which is no number", n.text, formNames[n.form])
	case formBinary:
		return binaryNumber(n.eval), nil
	}
	eval := n.eval
	return func(row event.Image) (datum, error) {
		d, err := eval(row)
		if err != nil || d.isNull() {
			return d, err
		}
		return d.numeric(), nil
	}, nil
}

// binaryNumber reads the bytes of a literal as one integer.
func binaryNumber(eval evaluator) evaluator {
	return func(row event.Image) (datum, error) {
		d, err := eval(row)
		if err != nil || d.isNull() {
			return d, err
		}
		if len(d.text) > 8 {
			return datum{}, fmt.Errorf("a literal of %d bytes is no integer", len(d.text))
		}
		var v uint64
		for _, b := range d.text {
			v = v<<8 | uint64(b)
		}
		return uintDatum(v), nil
	}
}

// asText is the node where a string is wanted.
func (n *node) asText() (node, error) {
	out := *n
	switch n.form {
	case formText, formMember, formNull:
		return out, nil
	case formBinary:
		out.form, out.collation = formText, "binary"
		return out, nil
	case formOpaque, formBits:
		return node{}, fmt.Errorf("%s is %s, which is no string here", n.text, formNames[n.form])
	}
	out.form, out.collation, out.rank = formText, literalCollation, byNumber
	eval, column := n.eval, n.column
	out.eval = func(row event.Image) (datum, error) {
		d, err := eval(row)
		if err != nil || d.isNull() {
			return d, err
		}
		return textDatum(d.print(column)), nil
	}
	return out, nil
}

// print is the text of a number or a time; column has its digits.
func (d datum) print(column *event.Column) []byte {
	if column == nil {
		column = &event.Column{Type: event.TypeDouble, Decimal: -1}
	}
	switch d.kind {
	case signed:
		return fmt.Append(nil, int64(d.num))
	case unsigned:
		return fmt.Append(nil, d.num)
	case exact:
		return []byte(d.dec.String())
	case double:
		return event.FloatValue(d.float()).AppendText(nil, column)
	case moment:
		return event.TimeValue(d.num).AppendText(nil, column)
	case clock:
		return event.DurationValue(int64(d.num)).AppendText(nil, column)
	}
	return d.text
}

// together is the collation in which two strings meet, and its rank.
func together(a, b *node) (string, rank, error) {
	switch {
	case a.form == formNull:
		return b.collation, b.rank, nil
	case b.form == formNull || a.rank < b.rank || a.collation == b.collation:
		return a.collation, min(a.rank, b.rank), nil
	case b.rank < a.rank:
		return b.collation, b.rank, nil
	case a.collation == "binary" || b.collation == "binary":
		return "binary", a.rank, nil
	}
	aSet, aOrder, _ := strings.Cut(a.collation, "_")
	bSet, bOrder, _ := strings.Cut(b.collation, "_")
	if aSet == bSet && a.rank != byCollate {
		switch {
		case aOrder == "bin":
			return a.collation, a.rank, nil
		case bOrder == "bin":
			return b.collation, b.rank, nil
		}
	}
	return "", 0, fmt.Errorf("%s is in %s and %s in %s: say which of them by COLLATE", a.text, a.collation, b.text, b.collation)
}

// ordered refuses collations of which no order is known.
func ordered(name string) error {
	if !collation.Known(name) {
		return fmt.Errorf("the order of collation %s is not known here: compare by COLLATE utf8mb4_bin, or leave the column out", name)
	}
	return nil
}
