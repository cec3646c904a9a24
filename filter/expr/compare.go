package expr

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/sluice-cdc/sluice/event"
)

// comparer orders two values that are not null.
type comparer func(a, b datum) (int, error)

// pair settles how the values of two nodes are compared. A constant may become
// another one: a date that is written as text becomes a date.
func (c *compiler) pair(a, b *node) (comparer, error) {
	if a.form == formNull || b.form == formNull {
		return func(_, _ datum) (int, error) { return 0, nil }, nil
	}
	refuse := func(why string) (comparer, error) {
		return nil, fmt.Errorf("%s is %s and %s is %s: %s", a.text, formNames[a.form], b.text, formNames[b.form], why)
	}
	switch {
	case a.form == formOpaque || b.form == formOpaque:
		return refuse("they cannot be compared")
	case a.isText() && b.isText(), a.form == formText && b.form == formBinary, a.form == formBinary && b.form == formText, a.form == formBinary && b.form == formBinary:
		return c.texts(a, b)
	case a.isMoment() || b.isMoment() || a.form == formClock || b.form == formClock:
		if err := meetInTime(a, b); err != nil {
			return nil, err
		}
		return compareTimes, nil
	case a.form == formBits && b.isText() || b.form == formBits && a.isText():
		return refuse("write the bits as a number or as b'…'")
	}
	meetInNumbers(a, b)
	meetInNumbers(b, a)
	for _, n := range []*node{a, b} {
		if n.form == formBinary {
			n.eval, n.form = binaryNumber(n.eval), formNumber
			if d, err := n.eval(nil); err != nil {
				return nil, err
			} else if n.constant {
				n.fix(d)
			}
		}
	}
	return func(a, b datum) (int, error) { return compareNumbers(a.numeric(), b.numeric()), nil }, nil
}

func (c *compiler) texts(a, b *node) (comparer, error) {
	left, err := a.asText()
	if err != nil {
		return nil, err
	}
	right, err := b.asText()
	if err != nil {
		return nil, err
	}
	name, _, err := together(&left, &right)
	if err != nil {
		return nil, err
	}
	if err := ordered(name); err != nil {
		return nil, err
	}
	order := c.session.Order
	return func(a, b datum) (int, error) { return order.Compare(name, a.text, b.text) }, nil
}

func compareTimes(a, b datum) (int, error) {
	if a.kind == moment {
		switch {
		case a.num < b.num:
			return -1, nil
		case a.num > b.num:
			return 1, nil
		}
		return 0, nil
	}
	return compareNumbers(intDatum(int64(a.num)), intDatum(int64(b.num))), nil
}

// meetInTime makes both nodes moments, or both clock times. What is not one has
// to be a constant.
func meetInTime(a, b *node) error {
	if a.isMoment() && b.isMoment() || a.form == formClock && b.form == formClock {
		return nil
	}
	of, other := a, b
	if !of.isMoment() && of.form != formClock {
		of, other = b, a
	}
	if !other.constant || other.isMoment() || other.form == formClock {
		return fmt.Errorf("%s is %s and %s is %s: write one of them as a constant of the other's kind",
			a.text, formNames[a.form], b.text, formNames[b.form])
	}
	d := other.value()
	if d.isNull() {
		other.form = of.form
		return nil
	}
	t := &event.Column{Name: "constant", Type: event.TypeDatetime, Decimal: 6}
	if of.form == formClock {
		t.Type = event.TypeDuration
	}
	v, err := event.ParseText(t, string(d.print(nil)))
	if err != nil {
		return fmt.Errorf("%s is %s, and %s is none", of.text, formNames[of.form], other.text)
	}
	other.form = of.form
	if of.form == formClock {
		other.fix(datum{kind: clock, num: uint64(v.Int())})
	} else {
		other.fix(datum{kind: moment, num: v.Uint()})
	}
	return nil
}

// meetInNumbers makes a constant text exact where it meets numbers, so that a
// large integer is not compared as a rounded one; and a year of two digits whole.
func meetInNumbers(of, other *node) {
	if !other.constant || of.isText() {
		return
	}
	d := other.value()
	switch d.kind {
	case text:
		if v, ok := parseNumber(numberPrefix(string(d.text))); ok && !d.member && other.form == formText {
			other.form = formNumber
			other.fix(exactDatum(v))
		}
	case signed:
		if v := int64(d.num); of.year && v > 0 && v < 100 {
			if v += 1900; v < 1970 {
				v += 100
			}
			other.fix(intDatum(v))
		}
	}
}

// comparison is a op b.
func (c *compiler) comparison(op opcode.Op, a, b *node) (*node, error) {
	left, right := *a, *b
	compare, err := c.pair(&left, &right)
	if err != nil {
		return nil, err
	}
	holds := map[opcode.Op]func(int) bool{
		opcode.EQ: func(c int) bool { return c == 0 }, opcode.NE: func(c int) bool { return c != 0 },
		opcode.LT: func(c int) bool { return c < 0 }, opcode.LE: func(c int) bool { return c <= 0 },
		opcode.GT: func(c int) bool { return c > 0 }, opcode.GE: func(c int) bool { return c >= 0 },
		opcode.NullEQ: func(c int) bool { return c == 0 },
	}[op]
	safe := op == opcode.NullEQ
	return derived(formNumber, func(row event.Image) (datum, error) {
		x, err := left.eval(row)
		if err != nil || x.isNull() && !safe {
			return datum{}, err
		}
		y, err := right.eval(row)
		if err != nil {
			return datum{}, err
		}
		switch {
		case safe && (x.isNull() || y.isNull()):
			return boolDatum(x.isNull() && y.isNull()), nil
		case y.isNull():
			return datum{}, nil
		}
		order, err := compare(x, y)
		return boolDatum(holds(order)), err
	}, a, b), nil
}

// not turns a truth value round where it is wanted.
func not(wanted bool, n *node, err error) (*node, error) {
	if !wanted || err != nil {
		return n, err
	}
	eval := n.eval
	return derived(formNumber, func(row event.Image) (datum, error) {
		d, err := eval(row)
		if err != nil || d.isNull() {
			return datum{}, err
		}
		return boolDatum(!d.truth()), nil
	}, n), nil
}

func (c *compiler) isNull(e ast.ExprNode, negate bool) (*node, error) {
	n, err := c.node(e)
	if err != nil {
		return nil, err
	}
	return derived(formNumber, func(row event.Image) (datum, error) {
		d, err := n.eval(row)
		return boolDatum(d.isNull() != negate), err
	}, n), nil
}

func (c *compiler) isTruth(e *ast.IsTruthExpr) (*node, error) {
	n, err := c.node(e.Expr)
	if err != nil {
		return nil, err
	}
	want := e.True != 0
	return derived(formNumber, func(row event.Image) (datum, error) {
		d, err := n.eval(row)
		return boolDatum((!d.isNull() && d.truth() == want) != e.Not), err
	}, n), n.condition()
}

func (c *compiler) between(e *ast.BetweenExpr) (*node, error) {
	list, err := c.nodes(e.Expr, e.Left, e.Right)
	if err != nil {
		return nil, err
	}
	low, err := c.comparison(opcode.GE, list[0], list[1])
	if err != nil {
		return nil, err
	}
	high, err := c.comparison(opcode.LE, list[0], list[2])
	if err != nil {
		return nil, err
	}
	n, err := logic(opcode.LogicAnd, low, high)
	return not(e.Not, n, err)
}

func (c *compiler) in(e *ast.PatternInExpr) (*node, error) {
	if e.Sel != nil {
		return nil, fmt.Errorf("%s: a subquery cannot be asked, only the row is known", printed(e))
	}
	x, err := c.node(e.Expr)
	if err != nil {
		return nil, err
	}
	list, err := c.nodes(e.List...)
	if err != nil {
		return nil, err
	}
	tests := make([]*node, len(list))
	for i, m := range list {
		if tests[i], err = c.comparison(opcode.EQ, x, m); err != nil {
			return nil, err
		}
	}
	n := derived(formNumber, func(row event.Image) (datum, error) {
		unknown := false
		for _, t := range tests {
			d, err := t.eval(row)
			switch {
			case err != nil:
				return datum{}, err
			case d.isNull():
				unknown = true
			case d.truth():
				return d, nil
			}
		}
		if unknown {
			return datum{}, nil
		}
		return boolDatum(false), nil
	}, tests...)
	return not(e.Not, n, nil)
}

// like matches text with % and _, character by character in the collation.
func (c *compiler) like(e *ast.PatternLikeOrIlikeExpr) (*node, error) {
	if !e.IsLike {
		return nil, fmt.Errorf("%s: ILIKE is not supported", printed(e))
	}
	list, err := c.nodes(e.Expr, e.Pattern)
	if err != nil {
		return nil, err
	}
	x, err := list[0].asText()
	if err != nil {
		return nil, err
	}
	p, err := list[1].asText()
	if err != nil {
		return nil, err
	}
	name, _, err := together(&x, &p)
	if err != nil {
		return nil, err
	}
	same, err := c.sameRune(name)
	if err != nil {
		return nil, err
	}
	split := runes(name)
	n := derived(formNumber, func(row event.Image) (datum, error) {
		s, err := x.eval(row)
		if err != nil || s.isNull() {
			return datum{}, err
		}
		pattern, err := p.eval(row)
		if err != nil || pattern.isNull() {
			return datum{}, err
		}
		ok, err := matchLike(split(s.text), split(pattern.text), rune(e.Escape), same)
		return boolDatum(ok), err
	}, list...)
	return not(e.Not, n, nil)
}

// runes takes text apart into what a collation counts as one.
func runes(collation string) func([]byte) []rune {
	if collation != "binary" {
		return func(b []byte) []rune { return bytes.Runes(b) }
	}
	return func(b []byte) []rune {
		out := make([]rune, len(b))
		for i, x := range b {
			out[i] = rune(x)
		}
		return out
	}
}

// sameRune compares single characters in a collation.
func (c *compiler) sameRune(name string) (func(a, b rune) (bool, error), error) {
	if err := ordered(name); err != nil {
		return nil, err
	}
	exactly := name == "binary" || strings.HasSuffix(name, "_bin")
	return func(a, b rune) (bool, error) {
		switch {
		case a == b:
			return true, nil
		case exactly || a == ' ' || b == ' ': // a blank alone would be cut off
			return false, nil
		}
		order, err := c.session.Order.Compare(name, []byte(string(a)), []byte(string(b)))
		return order == 0, err
	}, nil
}

// matchLike goes through text and pattern side by side. At a mismatch the last %
// takes one character more; earlier ones never need another try.
func matchLike(s, pattern []rune, escape rune, same func(a, b rune) (bool, error)) (bool, error) {
	at, next := 0, 0
	star, starAt := -1, 0
	for at < len(s) || next < len(pattern) {
		if next < len(pattern) && pattern[next] == '%' {
			star, starAt = next, at
			next++
			continue
		}
		if next < len(pattern) && at < len(s) {
			p, length := pattern[next], 1
			ok := p == '_'
			if p == escape && next+1 < len(pattern) {
				p, length, ok = pattern[next+1], 2, false
			}
			if !ok {
				var err error
				if ok, err = same(s[at], p); err != nil {
					return false, err
				}
			}
			if ok {
				at, next = at+1, next+length
				continue
			}
		}
		if star < 0 || starAt >= len(s) {
			return false, nil
		}
		starAt++
		at, next = starAt, star+1
	}
	return true, nil
}
