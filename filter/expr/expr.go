package expr

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals: without it the parser panics on the first

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/event"
)

// Text is an expression that has been read, and fits no table yet.
type Text struct {
	text string
	root ast.ExprNode
}

// Expr is an expression over the rows of one table.
type Expr struct {
	text string
	eval evaluator
}

type evaluator func(event.Image) (datum, error)

// Session is what an expression depends on beside the row.
type Session struct {
	// Zone is in which TIMESTAMP columns are read; nil is UTC.
	Zone  *time.Location
	Order *collation.Order
}

// Parse reads one expression by TiDB's grammar.
func Parse(text string) (Text, error) {
	fail := func(format string, args ...any) (Text, error) {
		return Text{}, cdcerr.FilterExpression.New("%s: "+format, append([]any{text}, args...)...)
	}
	nodes, err := parse("SELECT (" + text + "\n)")
	if err != nil {
		return fail("it cannot be parsed: %s", place(err))
	}
	if len(nodes) != 1 {
		return fail("want one expression")
	}
	s, ok := nodes[0].(*ast.SelectStmt)
	if !ok || s.From != nil || s.Where != nil || len(s.Fields.Fields) != 1 || s.Fields.Fields[0].Expr == nil ||
		s.Limit != nil || s.OrderBy != nil || s.GroupBy != nil || s.Having != nil {
		return fail("want one expression and nothing behind it")
	}
	return Text{text, s.Fields.Fields[0].Expr}, nil
}

// place says where the parser stopped, in the words of who wrote the expression: the
// parser speaks of the statement that we put round it.
func place(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "near ")
	end := 0
	if ok && rest != "" {
		end = strings.LastIndexByte(rest[1:], rest[0]) + 1 // it is quoted one way or the other
	}
	if end == 0 {
		return err.Error()
	}
	rest = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest[1:end]), ")"))
	if rest == "" {
		return "something is missing at its end, or a parenthesis is closed that was not opened"
	}
	return fmt.Sprintf("what is wrong begins at, or just before, %q", rest)
}

// parse turns a panic of the parser, which has some, into an error.
func parse(text string) (nodes []ast.StmtNode, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	nodes, _, err = parser.New().Parse(text, "", "")
	return nodes, err
}

// Compile settles what the expression means for rows of t. A column that t does
// not have has a code of its own: the expression may be right for other tables.
func (x Text) Compile(t *event.Table, s Session) (*Expr, error) {
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	c := &compiler{table: t, session: s}
	n, err := c.node(x.root)
	if err == nil {
		err = n.condition()
	}
	if err != nil {
		code := cdcerr.FilterExpression
		if c.columnMissing {
			code = cdcerr.FilterColumn
		}
		return nil, code.Wrap(err, "%s, for table %s", x.text, t.FullName())
	}
	return &Expr{x.text, n.eval}, nil
}

// String is the expression as it was written.
func (x Text) String() string { return x.text }

// String is the expression as it was written.
func (x *Expr) String() string { return x.text }

// True tells whether the expression is true of the row; false and NULL are not.
func (x *Expr) True(row event.Image) (bool, error) {
	d, err := x.eval(row)
	if err != nil {
		return false, cdcerr.FilterExpression.Wrap(err, "%s", x.text)
	}
	return !d.isNull() && d.truth(), nil
}

// compiler knows one table.
type compiler struct {
	table         *event.Table
	session       Session
	columnMissing bool
}

// phrase is what a node is called in messages. It is put into words when there is
// one: each part holds all below it.
type phrase struct {
	name string
	of   ast.Node
}

func (p phrase) String() string {
	if p.of != nil {
		return printed(p.of)
	}
	return p.name
}

// printed is a part of an expression, for messages.
func printed(n ast.Node) (text string) {
	defer func() {
		if recover() != nil {
			text = "a part of it"
		}
	}()
	var b strings.Builder
	if err := n.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &b)); err != nil {
		return "a part of it"
	}
	return b.String()
}

// Functions are the names of the functions that may be called, in order.
func Functions() []string {
	var names []string
	for name := range functions() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
