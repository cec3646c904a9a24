package expr

import (
	"fmt"
	"math"
	"math/big"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/sluice-cdc/sluice/event"
)

func (c *compiler) binary(e *ast.BinaryOperationExpr) (*node, error) {
	list, err := c.nodes(e.L, e.R)
	if err != nil {
		return nil, err
	}
	a, b := list[0], list[1]
	switch e.Op {
	case opcode.LogicAnd, opcode.LogicOr, opcode.LogicXor:
		return logic(e.Op, a, b)
	case opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE, opcode.NullEQ:
		return c.comparison(e.Op, a, b)
	case opcode.Plus, opcode.Minus, opcode.Mul, opcode.Div, opcode.IntDiv, opcode.Mod:
		return numeric(func(x, y datum) (datum, error) { return arithmetic(e.Op, x, y) }, a, b)
	case opcode.And, opcode.Or, opcode.Xor, opcode.LeftShift, opcode.RightShift:
		return numeric(func(x, y datum) (datum, error) { return bitwise(e.Op, x, y) }, a, b)
	}
	return nil, fmt.Errorf("%s: operator %s is not supported", printed(e), e.Op)
}

func (c *compiler) unary(e *ast.UnaryOperationExpr) (*node, error) {
	n, err := c.node(e.V)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case opcode.Not, opcode.Not2:
		if err := n.condition(); err != nil {
			return nil, err
		}
		return not(true, n, nil)
	case opcode.Plus:
		return n, nil
	case opcode.Minus:
		return numeric(func(x, _ datum) (datum, error) { return negate(x) }, n, n)
	case opcode.BitNeg:
		return numeric(func(x, _ datum) (datum, error) {
			v, err := bits(x)
			return uintDatum(^v), err
		}, n, n)
	}
	return nil, fmt.Errorf("%s: operator %s is not supported", printed(e), e.Op)
}

// logic is AND, OR and XOR in three values.
func logic(op opcode.Op, a, b *node) (*node, error) {
	for _, n := range []*node{a, b} {
		if err := n.condition(); err != nil {
			return nil, err
		}
	}
	return derived(formNumber, func(row event.Image) (datum, error) {
		x, err := a.eval(row)
		if err != nil {
			return datum{}, err
		}
		decides := op == opcode.LogicOr // OR is settled by the first true, AND by the first false
		if op != opcode.LogicXor && !x.isNull() && x.truth() == decides {
			return boolDatum(decides), nil
		}
		y, err := b.eval(row)
		if err != nil {
			return datum{}, err
		}
		switch {
		case op != opcode.LogicXor && !y.isNull() && y.truth() == decides:
			return boolDatum(decides), nil
		case x.isNull() || y.isNull():
			return datum{}, nil
		case op == opcode.LogicXor:
			return boolDatum(x.truth() != y.truth()), nil
		}
		return boolDatum(!decides), nil
	}, a, b), nil
}

// numeric is a function of two numbers, null where one of them is.
func numeric(f func(x, y datum) (datum, error), a, b *node) (*node, error) {
	left, err := a.number()
	if err != nil {
		return nil, err
	}
	right, err := b.number()
	if err != nil {
		return nil, err
	}
	return derived(formNumber, func(row event.Image) (datum, error) {
		x, err := left(row)
		if err != nil || x.isNull() {
			return datum{}, err
		}
		y, err := right(row)
		if err != nil || y.isNull() {
			return datum{}, err
		}
		return f(x, y)
	}, a, b), nil
}

// arithmetic is done in floating point where one side is, exactly elsewhere.
// Dividing by zero gives NULL.
func arithmetic(op opcode.Op, x, y datum) (datum, error) {
	divides := op == opcode.Div || op == opcode.IntDiv || op == opcode.Mod
	if x.kind == double || y.kind == double {
		if op == opcode.IntDiv {
			return wholeOfDoubles(x, y)
		}
		return doubles(op, x.toDouble(), y.toDouble())
	}
	a, b := x.toExact(), y.toExact()
	if divides && b.sign() == 0 {
		return datum{}, nil
	}
	anyUnsigned := x.kind == unsigned || y.kind == unsigned
	if op == opcode.IntDiv {
		return integer(a.whole(b), anyUnsigned)
	}
	if op == opcode.Div {
		return exactDatum(a.quo(b)), nil
	}
	var v number
	switch op {
	case opcode.Plus:
		v = a.add(b)
	case opcode.Minus:
		v = a.add(b.neg())
	case opcode.Mul:
		v = a.mul(b)
	default:
		v = a.rem(b)
		anyUnsigned = x.kind == unsigned // the rest has the sign of what is divided
	}
	if x.kind == exact || y.kind == exact {
		return exactDatum(v), nil
	}
	return integer(v.unscaled, anyUnsigned)
}

func doubles(op opcode.Op, x, y float64) (datum, error) {
	if (op == opcode.Div || op == opcode.Mod) && y == 0 {
		return datum{}, nil
	}
	var v float64
	switch op {
	case opcode.Plus:
		v = x + y
	case opcode.Minus:
		v = x - y
	case opcode.Mul:
		v = x * y
	case opcode.Div:
		v = x / y
	default:
		v = math.Mod(x, y)
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return datum{}, fmt.Errorf("%v %s %v is out of the range of a DOUBLE", x, op, y)
	}
	return doubleDatum(v), nil
}

// wholeOfDoubles divides floating-point numbers by their digits, as DIV does.
func wholeOfDoubles(x, y datum) (datum, error) {
	digits := func(d datum) (number, error) {
		if d.kind != double {
			return d.toExact(), nil
		}
		n, ok := parseNumber(fmt.Sprintf("%g", d.float()))
		if !ok {
			return n, fmt.Errorf("%v cannot be divided by DIV", d.float())
		}
		return n, nil
	}
	a, err := digits(x)
	if err != nil {
		return datum{}, err
	}
	b, err := digits(y)
	if err != nil || b.sign() == 0 {
		return datum{}, err
	}
	return integer(a.whole(b), x.kind == unsigned || y.kind == unsigned)
}

func negate(x datum) (datum, error) {
	switch x.kind {
	case double:
		return doubleDatum(-x.float()), nil
	case exact:
		return exactDatum(x.dec.neg()), nil
	}
	v := x.toExact().neg().unscaled
	if !v.IsInt64() {
		return exactDatum(number{v, 0}), nil // of a literal beyond BIGINT: a decimal
	}
	return intDatum(v.Int64()), nil
}

func bitwise(op opcode.Op, x, y datum) (datum, error) {
	a, err := bits(x)
	if err != nil {
		return datum{}, err
	}
	b, err := bits(y)
	if err != nil {
		return datum{}, err
	}
	switch op {
	case opcode.And:
		a &= b
	case opcode.Or:
		a |= b
	case opcode.Xor:
		a ^= b
	case opcode.LeftShift:
		a <<= b // all gone from 64 on
	default:
		a >>= b
	}
	return uintDatum(a), nil
}

// rounded is FLOOR or CEILING of a number.
func rounded(up bool, d datum) (datum, error) {
	switch d.kind {
	case double:
		if up {
			return doubleDatum(math.Ceil(d.float())), nil
		}
		return doubleDatum(math.Floor(d.float())), nil
	case exact:
		var v *big.Int
		if up {
			v = new(big.Int).Neg(d.dec.neg().floor())
		} else {
			v = d.dec.floor()
		}
		if v.IsInt64() {
			return intDatum(v.Int64()), nil
		}
		return exactDatum(number{v, 0}), nil
	}
	return d, nil
}
