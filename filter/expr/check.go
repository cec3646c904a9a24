package expr

import (
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// Check refuses what compiles for no table, whatever its columns: parts and
// functions that there are not, and constants that mean nothing. What depends on
// the types of columns is Compile's to say.
func (x Text) Check(s Session) error {
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	v := &checker{c: &compiler{table: &event.Table{}, session: s}}
	x.root.Accept(v)
	if v.err == nil && !v.column {
		var n *node
		if n, v.err = v.c.node(x.root); v.err == nil {
			v.err = n.condition()
		}
	}
	return cdcerr.FilterExpression.Wrap(v.err, "%s", x.text)
}

// checker looks at every part until one is wrong.
type checker struct {
	c      *compiler
	column bool // one was seen
	err    error
}

// Enter implements ast.Visitor.
func (v *checker) Enter(n ast.Node) (ast.Node, bool) {
	if v.err != nil {
		return n, true
	}
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		v.column = true
		return n, true
	case *ast.FuncCallExpr:
		if _, ok := temporal[n.FnName.L]; ok {
			_, v.err = v.c.call(n)
			return n, true
		}
		_, v.err = called(n)
	case *ast.FuncCastExpr:
		if n.FunctionType != ast.CastBinaryOperator {
			v.err = unsupported(n)
		}
	case *ast.ParenthesesExpr, *test_driver.ValueExpr, *ast.UnaryOperationExpr, *ast.BinaryOperationExpr, *ast.IsNullExpr, *ast.IsTruthExpr,
		*ast.BetweenExpr, *ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr, *ast.PatternRegexpExpr, *ast.CaseExpr, *ast.WhenClause, *ast.SetCollationExpr:
	default:
		v.err = unsupported(n)
	}
	return n, v.err != nil
}

// Leave implements ast.Visitor.
func (v *checker) Leave(n ast.Node) (ast.Node, bool) { return n, v.err == nil }
