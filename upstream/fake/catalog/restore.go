package catalog

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
)

// How TiDB prints expressions that it keeps: with every name in backquotes and
// neither table nor database before it.
const restoreExpr = format.RestoreStringSingleQuotes | format.RestoreKeyWordLowercase | format.RestoreNameBackQuotes |
	format.RestoreSpacesAroundBinaryOperation | format.RestoreWithoutSchemaName | format.RestoreWithoutTableName

// restorePart is how it prints the expressions of partitions.
const restorePart = format.DefaultRestoreFlags | format.RestoreBracketAroundBinaryOperation |
	format.RestoreWithoutSchemaName | format.RestoreWithoutTableName

// restore prints a node as TiDB would. A panic of the printer is an error.
func restore(n ast.Node, flags format.RestoreFlags) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("catalog: the parser cannot print %T (%v)", n, p)
		}
	}()
	var b strings.Builder
	if err := n.Restore(format.NewRestoreCtx(flags, &b)); err != nil {
		return "", fmt.Errorf("catalog: %w", err)
	}
	return b.String(), nil
}

// columnsOf are the names of the columns in an expression, in lower case.
func columnsOf(e ast.ExprNode) map[string]struct{} {
	v := &columnFinder{names: map[string]struct{}{}}
	e.Accept(v)
	return v.names
}

// columnFinder collects names of columns on a walk over an expression.
type columnFinder struct {
	names map[string]struct{}
}

// Enter takes a node's name if it is a column.
func (v *columnFinder) Enter(n ast.Node) (ast.Node, bool) {
	if c, ok := n.(*ast.ColumnName); ok {
		v.names[c.Name.L] = struct{}{}
	}
	return n, false
}

// Leave goes on.
func (v *columnFinder) Leave(n ast.Node) (ast.Node, bool) { return n, true }
