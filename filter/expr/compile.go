package expr

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/sluice-cdc/sluice/event"
)

// node compiles one part; what is constant is evaluated at once.
func (c *compiler) node(e ast.ExprNode) (*node, error) {
	n, err := c.part(e)
	if err != nil {
		return nil, err
	}
	if n.text == (phrase{}) {
		n.text = phrase{of: e}
	}
	if n.constant {
		d, err := n.eval(nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.text, err)
		}
		n.fix(d)
	}
	return n, nil
}

// fix makes the node one value.
func (n *node) fix(d datum) {
	n.constant = true
	n.eval = func(event.Image) (datum, error) { return d, nil }
}

// value is that of a constant.
func (n *node) value() datum {
	d, _ := n.eval(nil) // it was evaluated before, without an error
	return d
}

func (c *compiler) nodes(list ...ast.ExprNode) ([]*node, error) {
	out := make([]*node, len(list))
	for i, e := range list {
		n, err := c.node(e)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

func (c *compiler) part(e ast.ExprNode) (*node, error) {
	switch e := e.(type) {
	case *ast.ParenthesesExpr:
		return c.part(e.Expr)
	case *test_driver.ValueExpr:
		return literal(e)
	case *ast.ColumnNameExpr:
		return c.column(e.Name)
	case *ast.UnaryOperationExpr:
		return c.unary(e)
	case *ast.BinaryOperationExpr:
		return c.binary(e)
	case *ast.IsNullExpr:
		return c.isNull(e.Expr, e.Not)
	case *ast.IsTruthExpr:
		return c.isTruth(e)
	case *ast.BetweenExpr:
		return c.between(e)
	case *ast.PatternInExpr:
		return c.in(e)
	case *ast.PatternLikeOrIlikeExpr:
		return c.like(e)
	case *ast.PatternRegexpExpr:
		return c.regexp(e)
	case *ast.CaseExpr:
		return c.caseWhen(e)
	case *ast.SetCollationExpr:
		return c.collate(e)
	case *ast.FuncCallExpr:
		return c.call(e)
	case *ast.FuncCastExpr:
		if e.FunctionType == ast.CastBinaryOperator {
			return c.binaryOperator(e)
		}
	}
	return nil, unsupported(e)
}

// unsupported is why this kind of part cannot be compiled for any table.
func unsupported(e ast.Node) error {
	switch e.(type) {
	case *ast.FuncCastExpr:
		return fmt.Errorf("%s: CAST and CONVERT are not supported", printed(e))
	case *ast.SubqueryExpr, *ast.ExistsSubqueryExpr, *ast.CompareSubqueryExpr:
		return fmt.Errorf("%s: a subquery cannot be asked, only the row is known", printed(e))
	case *ast.VariableExpr:
		return fmt.Errorf("%s: variables are not known here", printed(e))
	case *ast.RowExpr:
		return fmt.Errorf("%s: rows of several values are not supported", printed(e))
	case *ast.AggregateFuncExpr, *ast.WindowFuncExpr:
		return fmt.Errorf("%s: there is one row only", printed(e))
	}
	return fmt.Errorf("%s: this kind of expression is not supported", printed(e))
}

func literal(e *test_driver.ValueExpr) (*node, error) {
	n := &node{form: formNumber, constant: true}
	var d datum
	switch e.Kind() {
	case test_driver.KindNull:
		n.form = formNull
	case test_driver.KindInt64:
		d = intDatum(e.GetInt64())
	case test_driver.KindUint64:
		d = uintDatum(e.GetUint64())
	case test_driver.KindFloat32, test_driver.KindFloat64:
		d = doubleDatum(e.GetFloat64())
	case test_driver.KindMysqlDecimal:
		v, ok := parseNumber(e.GetMysqlDecimal().String())
		if !ok {
			return nil, fmt.Errorf("%s is no decimal", e.GetMysqlDecimal())
		}
		d = exactDatum(v)
	case test_driver.KindString, test_driver.KindBytes:
		n.form, n.collation, n.rank = formText, literalCollation, byLiteral
		if e.Type.GetCharset() == "binary" {
			n.collation = "binary"
		}
		d = textDatum([]byte(e.GetString()))
	case test_driver.KindBinaryLiteral:
		n.form, n.rank = formBinary, byLiteral
		d = textDatum(e.GetBytes())
	default:
		return nil, fmt.Errorf("a literal of kind %d is not supported", e.Kind())
	}
	n.fix(d)
	return n, nil
}

// column reads a column of the row.
func (c *compiler) column(name *ast.ColumnName) (*node, error) {
	if t := name.Table.O; t != "" && !strings.EqualFold(t, c.table.Name) || name.Schema.O != "" && !strings.EqualFold(name.Schema.O, c.table.Schema) {
		return nil, fmt.Errorf("%s is a column of another table", name)
	}
	i := c.table.Column(name.Name.O)
	if i < 0 {
		c.columnMissing = true
		return nil, fmt.Errorf("there is no column %s", name.Name.O)
	}
	col := &c.table.Columns[i]
	n := &node{text: phrase{name: col.Name}, column: col, rank: byColumn, year: col.Type == event.TypeYear}
	get := func(row event.Image) event.Value { return row[i] }
	var of func(event.Value) (datum, error)
	switch col.ValueKind() {
	case event.Int:
		n.form, of = formNumber, func(v event.Value) (datum, error) { return intDatum(v.Int()), nil }
	case event.Uint:
		n.form, of = formNumber, func(v event.Value) (datum, error) { return uintDatum(v.Uint()), nil }
	case event.Float:
		n.form, of = formNumber, func(v event.Value) (datum, error) { return doubleDatum(v.Float()), nil }
	case event.Decimal:
		n.form, of = formNumber, func(v event.Value) (datum, error) { return decimalOf(v, col) }
	case event.Bytes:
		n.form, n.collation = formText, col.Collation
		if col.IsBinary() || n.collation == "" {
			n.collation = "binary"
		}
		of = func(v event.Value) (datum, error) { return textDatum(v.Raw()), nil }
	case event.Enum, event.Set:
		n.form, n.collation = formMember, col.Collation
		of = func(v event.Value) (datum, error) {
			return datum{kind: text, member: true, num: v.Uint(), text: v.AppendText(nil, col)}, nil
		}
	case event.Bit:
		n.form, of = formBits, func(v event.Value) (datum, error) { return uintDatum(v.Uint()), nil }
	case event.Time:
		n.form, of = c.momentOf(col)
	case event.Duration:
		n.form, of = formClock, func(v event.Value) (datum, error) { return datum{kind: clock, num: uint64(v.Int())}, nil }
	default:
		n.form, of = formOpaque, func(event.Value) (datum, error) { return datum{kind: opaque}, nil }
	}
	if col.Generated == event.Virtual {
		return nil, fmt.Errorf("%s is a virtual generated column, which no event carries: write its expression (%s) out", col.Name, col.GenExpr)
	}
	n.eval = func(row event.Image) (datum, error) {
		v := get(row)
		if v.IsNull() {
			return datum{}, nil
		}
		return of(v)
	}
	return n, nil
}

func decimalOf(v event.Value, col *event.Column) (datum, error) {
	s := v.Text(col)
	d, ok := parseNumber(s)
	if !ok {
		return datum{}, fmt.Errorf("%s is no decimal", s)
	}
	return exactDatum(d), nil
}

// momentOf reads times; a TIMESTAMP, which comes in UTC, in the session's zone.
func (c *compiler) momentOf(col *event.Column) (form, func(event.Value) (datum, error)) {
	plain := func(v event.Value) (datum, error) { return datum{kind: moment, num: v.Uint()}, nil }
	switch zone := c.session.Zone; {
	case col.Type == event.TypeDate || col.Type == event.TypeNewDate:
		return formDate, func(v event.Value) (datum, error) { return datum{kind: moment, day: true, num: v.Uint()}, nil }
	case col.Type == event.TypeTimestamp && zone != time.UTC:
		return formMoment, func(v event.Value) (datum, error) {
			t := v.DateTime()
			if t.IsZero() {
				return datum{kind: moment}, nil
			}
			at := time.Date(t.Year, time.Month(t.Month), t.Day, t.Hour, t.Minute, t.Second, t.Micro*1000, time.UTC).In(zone)
			local := event.DateTime{
				Year: at.Year(), Month: int(at.Month()), Day: at.Day(),
				Hour: at.Hour(), Minute: at.Minute(), Second: at.Second(), Micro: t.Micro,
			}
			return datum{kind: moment, num: local.Pack()}, nil
		}
	}
	return formMoment, plain
}

// derived is a node made of others.
func derived(f form, eval evaluator, from ...*node) *node {
	n := &node{form: f, eval: eval, constant: true}
	for _, x := range from {
		n.constant = n.constant && x.constant
	}
	return n
}

// collate is x COLLATE name.
func (c *compiler) collate(e *ast.SetCollationExpr) (*node, error) {
	n, err := c.node(e.Expr)
	if err != nil {
		return nil, err
	}
	if !n.isText() {
		return nil, fmt.Errorf("%s: only strings have a collation", printed(e))
	}
	out := *n
	out.collation, out.rank = strings.ToLower(e.Collate), byCollate
	return &out, ordered(out.collation)
}

// binaryOperator is BINARY x.
func (c *compiler) binaryOperator(e *ast.FuncCastExpr) (*node, error) {
	n, err := c.node(e.Expr)
	if err != nil {
		return nil, err
	}
	out, err := n.asText()
	if err != nil {
		return nil, err
	}
	if out.form = formText; n.form == formNull {
		out.form = formNull
	}
	out.collation, out.rank = "binary", byColumn
	return &out, nil
}

// integerOf is a constant that is a whole number.
func integerOf(d datum) (int64, bool) {
	switch d.kind {
	case signed:
		return int64(d.num), true
	case unsigned:
		return int64(d.num), d.num < 1<<63
	case exact:
		if v := d.dec.floor(); d.dec.compare(number{v, 0}) == 0 && v.IsInt64() {
			return v.Int64(), true
		}
	}
	return 0, false
}

// bits is a number as 64 bits, for the operators that work on them.
func bits(d datum) (uint64, error) {
	var v *big.Int
	switch d.kind {
	case signed, unsigned:
		return d.num, nil
	case exact:
		v = d.dec.round()
	default:
		n, ok := parseNumber(fmt.Sprintf("%.0f", d.float()))
		if !ok {
			return 0, fmt.Errorf("%v has no bits", d.float())
		}
		v = n.unscaled
	}
	switch {
	case v.IsInt64():
		return uint64(v.Int64()), nil
	case v.IsUint64():
		return v.Uint64(), nil
	}
	return 0, fmt.Errorf("%s is out of the range of an integer", v)
}
