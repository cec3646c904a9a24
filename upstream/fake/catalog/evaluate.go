package catalog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// evaluate works out an expression that a table is partitioned by: integers,
// arithmetic, and the functions of dates that TiDB allows there.
func evaluate(e ast.ExprNode, t *event.Table, row []encode.Value) (v int64, null bool, err error) {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return evaluate(x.Expr, t, row)
	case *ast.ColumnNameExpr:
		i := t.Column(x.Name.Name.L)
		if i < 0 {
			return 0, false, fmt.Errorf("catalog: no column %s in %s", x.Name.Name.O, t.FullName())
		}
		return integerOf(row[i])
	case *ast.UnaryOperationExpr:
		v, null, err = evaluate(x.V, t, row)
		if x.Op == opcode.Minus {
			v = -v
		}
		return v, null, err
	case *ast.BinaryOperationExpr:
		return binary64(x, t, row)
	case *ast.FuncCallExpr:
		return call(x, t, row)
	case *ast.TimeUnitExpr:
		return 0, false, refuse(errUnsupported, "a unit of time in a partition's expression")
	}
	c, err := literal(e)
	if err != nil {
		return 0, false, err
	}
	v, err = strconv.ParseInt(c.text, 10, 64)
	return v, c.null, err
}

func integerOf(v encode.Value) (int64, bool, error) {
	switch x := v.(type) {
	case nil:
		return 0, true, nil
	case int64:
		return x, false, nil
	case uint64:
		return int64(x), false, nil
	}
	return 0, false, fmt.Errorf("catalog: a %T where an integer is needed", v)
}

func binary64(x *ast.BinaryOperationExpr, t *event.Table, row []encode.Value) (int64, bool, error) {
	l, null, err := evaluate(x.L, t, row)
	if err != nil || null {
		return 0, null, err
	}
	r, null, err := evaluate(x.R, t, row)
	if err != nil || null {
		return 0, null, err
	}
	switch x.Op {
	case opcode.Plus:
		return l + r, false, nil
	case opcode.Minus:
		return l - r, false, nil
	case opcode.Mul:
		return l * r, false, nil
	case opcode.IntDiv, opcode.Div, opcode.Mod:
		if r == 0 {
			return 0, true, nil
		}
		if x.Op == opcode.Mod {
			return l % r, false, nil
		}
		return l / r, false, nil
	}
	return 0, false, refuse(errUnsupported, "operator %v in a partition's expression", x.Op)
}

// call works out a function of one date.
func call(x *ast.FuncCallExpr, t *event.Table, row []encode.Value) (int64, bool, error) {
	if len(x.Args) != 1 {
		return 0, false, refuse(errUnsupported, "%s with %d arguments", x.FnName.O, len(x.Args))
	}
	if x.FnName.L == "abs" {
		v, null, err := evaluate(x.Args[0], t, row)
		return max(v, -v), null, err
	}
	c, ok := x.Args[0].(*ast.ColumnNameExpr)
	if !ok {
		return 0, false, refuse(errUnsupported, "%s of %T", x.FnName.O, x.Args[0])
	}
	i := t.Column(c.Name.Name.L)
	if i < 0 {
		return 0, false, fmt.Errorf("catalog: no column %s in %s", c.Name.Name.O, t.FullName())
	}
	if row[i] == nil {
		return 0, true, nil
	}
	m, ok := row[i].(encode.Moment)
	if !ok {
		return 0, false, fmt.Errorf("catalog: %s of a %T", x.FnName.O, row[i])
	}
	v, err := dateFunction(x.FnName.L, m)
	return v, m.Month == 0 || m.Day == 0, err
}

func dateFunction(name string, m encode.Moment) (int64, error) {
	at := time.Date(m.Year, time.Month(m.Month), m.Day, m.Hour, m.Minute, m.Second, 0, time.UTC)
	switch name {
	case "year":
		return int64(m.Year), nil
	case "month":
		return int64(m.Month), nil
	case "day", "dayofmonth":
		return int64(m.Day), nil
	case "dayofweek":
		return int64(at.Weekday()) + 1, nil
	case "weekday":
		return (int64(at.Weekday()) + 6) % 7, nil
	case "dayofyear":
		return int64(at.YearDay()), nil
	case "quarter":
		return int64(m.Month+2) / 3, nil
	case "hour":
		return int64(m.Hour), nil
	case "minute":
		return int64(m.Minute), nil
	case "second":
		return int64(m.Second), nil
	case "to_days":
		return toDays(at), nil
	case "to_seconds":
		return toDays(at)*86400 + int64(m.Hour*3600+m.Minute*60+m.Second), nil
	case "unix_timestamp":
		return at.Unix(), nil
	}
	return 0, refuse(errUnsupported, "function %s in a partition's expression", name)
}
