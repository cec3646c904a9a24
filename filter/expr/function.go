package expr

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/sluice-cdc/sluice/event"
)

// function is one that may be called.
type function struct {
	least, most int // arguments; most -1: any number
	make        func(c *compiler, args []*node) (*node, error)
}

func functions() map[string]function {
	part := func(of func(event.DateTime) int) function { return function{1, 1, datePart(of)} }
	length := function{1, 1, ofText(func(s []byte) datum { return intDatum(int64(len(s))) })}
	chars := function{1, 1, characters}
	lower, upper := function{1, 1, changed(bytes.ToLower)}, function{1, 1, changed(bytes.ToUpper)}
	ceiling := function{1, 1, ofNumber(func(d datum) (datum, error) { return rounded(true, d) })}
	substring := function{2, 3, substring}
	day := part(func(t event.DateTime) int { return t.Day })
	return map[string]function{
		"if":       {3, 3, ifThen},
		"ifnull":   {2, 2, func(_ *compiler, args []*node) (*node, error) { return firstOf(args) }},
		"coalesce": {1, -1, func(_ *compiler, args []*node) (*node, error) { return firstOf(args) }},
		"nullif":   {2, 2, nullIf},
		"isnull": {1, 1, func(_ *compiler, args []*node) (*node, error) {
			return derived(formNumber, func(row event.Image) (datum, error) {
				d, err := args[0].eval(row)
				return boolDatum(d.isNull()), err
			}, args...), nil
		}},
		"length": length, "octet_length": length,
		"char_length": chars, "character_length": chars,
		"lower": lower, "lcase": lower, "upper": upper, "ucase": upper,
		"concat": {1, -1, concat},
		"left":   {2, 2, leftOrRight(true)}, "right": {2, 2, leftOrRight(false)},
		"substring": substring, "substr": substring, "mid": substring,
		"abs": {1, 1, ofNumber(absolute)}, "ceil": ceiling, "ceiling": ceiling,
		"floor": {1, 1, ofNumber(func(d datum) (datum, error) { return rounded(false, d) })},
		"mod": {2, 2, func(_ *compiler, args []*node) (*node, error) {
			return numeric(func(x, y datum) (datum, error) { return arithmetic(opcode.Mod, x, y) }, args[0], args[1])
		}},
		"year":  part(func(t event.DateTime) int { return t.Year }),
		"month": part(func(t event.DateTime) int { return t.Month }),
		"day":   day, "dayofmonth": day,
		"hour":   {1, 1, clockPart(func(h, _, _ int) int { return h })},
		"minute": {1, 1, clockPart(func(_, m, _ int) int { return m })},
		"second": {1, 1, clockPart(func(_, _, s int) int { return s })},
		"date":   {1, 1, dateOf},
	}
}

// temporal are the literals DATE '…', TIMESTAMP '…' and TIME '…', as the parser names them.
var temporal = map[string]struct {
	form form
	of   event.Type
}{
	ast.DateLiteral: {formDate, event.TypeDate}, ast.TimestampLiteral: {formMoment, event.TypeDatetime}, ast.TimeLiteral: {formClock, event.TypeDuration},
}

func (c *compiler) call(e *ast.FuncCallExpr) (*node, error) {
	if t, ok := temporal[e.FnName.L]; ok {
		args, err := c.nodes(e.Args...)
		if err != nil {
			return nil, err
		}
		v, err := event.ParseText(&event.Column{Name: "literal", Type: t.of, Decimal: 6}, string(args[0].value().text))
		if err != nil {
			return nil, fmt.Errorf("%q is not %s", args[0].value().text, formNames[t.form])
		}
		n := &node{form: t.form, constant: true}
		if n.fix(datum{kind: moment, day: t.form == formDate, num: v.Uint()}); t.form == formClock {
			n.fix(datum{kind: clock, num: uint64(v.Int())})
		}
		return n, nil
	}
	f, err := called(e)
	if err != nil {
		return nil, err
	}
	args, err := c.nodes(e.Args...)
	if err != nil {
		return nil, err
	}
	return f.make(c, args)
}

// called is the function of a call, where there is one that takes so many arguments.
func called(e *ast.FuncCallExpr) (function, error) {
	f, ok := functions()[e.FnName.L]
	switch {
	case !ok || e.Schema.O != "":
		return f, fmt.Errorf("function %s is not supported; there are %s", strings.ToUpper(e.FnName.O), strings.ToUpper(strings.Join(Functions(), ", ")))
	case len(e.Args) < f.least || f.most >= 0 && len(e.Args) > f.most:
		return f, fmt.Errorf("function %s with %d arguments", strings.ToUpper(e.FnName.O), len(e.Args))
	}
	return f, nil
}

// branches is the form that several results have in common.
func branches(list []*node) (*node, error) {
	out := &node{form: formNull, constant: true}
	for _, n := range list {
		out.constant = out.constant && n.constant
		switch {
		case n.form == formNull:
		case out.form == formNull:
			text, constant := out.text, out.constant
			*out = *n
			out.text, out.constant = text, constant
		case out.isText() && n.isText():
			name, rank, err := together(out, n)
			if err != nil {
				return nil, err
			}
			out.form, out.collation, out.rank = formText, name, rank
		case out.isMoment() && n.isMoment():
			out.form = formMoment
		case out.form != n.form:
			return nil, fmt.Errorf("%s is %s, another result is %s: they cannot stand for each other", n.text, formNames[n.form], formNames[out.form])
		}
		if n.column != out.column {
			out.column = nil
		}
		if out.form == formMember && n.form == formMember && n.column != out.column {
			out.form = formText
		}
	}
	out.text, out.year = phrase{}, false
	return out, nil
}

func ifThen(_ *compiler, args []*node) (*node, error) {
	if err := args[0].condition(); err != nil {
		return nil, err
	}
	return choice([]*node{args[0]}, args[1:2], args[2])
}

// choice is the result whose condition is the first to be true.
func choice(conditions, results []*node, otherwise *node) (*node, error) {
	all := append([]*node{}, results...)
	if otherwise != nil {
		all = append(all, otherwise)
	}
	n, err := branches(all)
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		n.constant = n.constant && c.constant
	}
	n.eval = func(row event.Image) (datum, error) {
		for i, c := range conditions {
			d, err := c.eval(row)
			if err != nil {
				return datum{}, err
			}
			if !d.isNull() && d.truth() {
				return results[i].eval(row)
			}
		}
		if otherwise == nil {
			return datum{}, nil
		}
		return otherwise.eval(row)
	}
	return n, nil
}

func (c *compiler) caseWhen(e *ast.CaseExpr) (*node, error) {
	var conditions, results []*node
	for _, w := range e.WhenClauses {
		pair, err := c.nodes(w.Expr, w.Result)
		if err != nil {
			return nil, err
		}
		if e.Value != nil {
			value, err := c.node(e.Value)
			if err != nil {
				return nil, err
			}
			if pair[0], err = c.comparison(opcode.EQ, value, pair[0]); err != nil {
				return nil, err
			}
		}
		if err := pair[0].condition(); err != nil {
			return nil, err
		}
		conditions, results = append(conditions, pair[0]), append(results, pair[1])
	}
	var otherwise *node
	if e.ElseClause != nil {
		n, err := c.node(e.ElseClause)
		if err != nil {
			return nil, err
		}
		otherwise = n
	}
	return choice(conditions, results, otherwise)
}

// firstOf is the first argument that is not null.
func firstOf(args []*node) (*node, error) {
	n, err := branches(args)
	if err != nil {
		return nil, err
	}
	n.eval = func(row event.Image) (datum, error) {
		for _, a := range args {
			if d, err := a.eval(row); err != nil || !d.isNull() {
				return d, err
			}
		}
		return datum{}, nil
	}
	return n, nil
}

func nullIf(c *compiler, args []*node) (*node, error) {
	equal, err := c.comparison(opcode.EQ, args[0], args[1])
	if err != nil {
		return nil, err
	}
	nothing := &node{form: formNull, constant: true}
	nothing.fix(datum{})
	return choice([]*node{equal}, []*node{nothing}, args[0])
}

// regexp is TiDB's REGEXP: Go's expressions, without regard to case where the
// collation has none.
func (c *compiler) regexp(e *ast.PatternRegexpExpr) (*node, error) {
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
	if !p.constant {
		return nil, fmt.Errorf("%s: the pattern must be a constant", printed(e))
	}
	name, _, err := together(&x, &p)
	if err != nil {
		return nil, err
	}
	pattern := p.value()
	source := string(pattern.text)
	if strings.HasSuffix(name, "_ci") {
		source = "(?i)" + source
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", printed(e), err)
	}
	n := derived(formNumber, func(row event.Image) (datum, error) {
		d, err := x.eval(row)
		if err != nil || d.isNull() || pattern.isNull() {
			return datum{}, err
		}
		return boolDatum(re.Match(d.text)), nil
	}, list...)
	return not(e.Not, n, nil)
}

func ofNumber(f func(datum) (datum, error)) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		return numeric(func(x, _ datum) (datum, error) { return f(x) }, args[0], args[0])
	}
}

func absolute(d datum) (datum, error) {
	switch d.kind {
	case double:
		return doubleDatum(math.Abs(d.float())), nil
	case exact:
		if d.dec.sign() < 0 {
			return exactDatum(d.dec.neg()), nil
		}
	case signed:
		if int64(d.num) == math.MinInt64 {
			return datum{}, fmt.Errorf("ABS(%d) is out of the range of an integer", int64(d.num))
		}
		if int64(d.num) < 0 {
			return intDatum(-int64(d.num)), nil
		}
	}
	return d, nil
}

func characters(c *compiler, args []*node) (*node, error) {
	count := utf8.RuneCount
	if args[0].collation == "binary" || args[0].form == formBinary {
		count = func(s []byte) int { return len(s) }
	}
	return ofText(func(s []byte) datum { return intDatum(int64(count(s))) })(c, args)
}
