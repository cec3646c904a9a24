package mysql

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	pmysql "github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals: without it the parser panics on the first

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// restoreFlags print statements that every session of this sink reads the same
// way: single quotes, backslashes doubled, names in backticks, TiDB's own words
// in comments that others skip. Placement belongs to the other cluster, and TTL
// must not delete downstream what upstream's events will.
const restoreFlags = format.RestoreStringSingleQuotes | format.RestoreStringEscapeBackslash |
	format.RestoreKeyWordUppercase | format.RestoreNameBackQuotes |
	format.RestoreTiDBSpecialComment | format.RestoreStringWithoutDefaultCharset |
	format.SkipPlacementRuleForRestore | format.RestoreWithTTLEnableOff

// guard turns a panic in the parser, of which it has some, into an error with
// the statement in it.
func guard(text string, err *error) {
	if p := recover(); p != nil {
		*err = cdcerr.ExecDDLFailed.New("the parser gave up (%v) on: %s", p, text)
	}
}

// parse reads a job's text under the SQL mode of the session that ran it. The
// job keeps its text in UTF-8 whatever charset the session had, so the parser
// is not told that charset: it would mark every literal with it.
func parse(d *event.DDL) ([]ast.StmtNode, error) {
	nodes, err := parseText(d.Query, d.SQLMode)
	if err != nil {
		return nil, cdcerr.ExecDDLFailed.Wrap(err, "job %d at %d: %s", d.JobID, d.SwitchTS, d.Query)
	}
	if len(nodes) == 0 {
		return nil, cdcerr.ExecDDLFailed.New("job %d at %d has no statement in its text: %q", d.JobID, d.SwitchTS, d.Query)
	}
	return nodes, nil
}

func parseText(text string, mode uint64) (nodes []ast.StmtNode, err error) {
	defer guard(text, &err)
	p := parser.New()
	p.SetSQLMode(pmysql.SQLMode(mode)) //nolint:gosec // both are the same bits
	p.SetStrictDoubleTypeCheck(false)  // upstream has taken the statement
	nodes, _, err = p.Parse(text, "", "")
	return nodes, err
}

// parseExpr reads an expression as TiDB prints it in table infos.
func parseExpr(text string) (ast.ExprNode, error) {
	nodes, err := parseText("SELECT "+text, 0)
	if err != nil {
		return nil, cdcerr.ExecDDLFailed.Wrap(err, "expression %s", text)
	}
	if len(nodes) == 1 {
		if s, ok := nodes[0].(*ast.SelectStmt); ok && s.Fields != nil && len(s.Fields.Fields) == 1 && s.Fields.Fields[0].Expr != nil {
			return s.Fields.Fields[0].Expr, nil
		}
	}
	return nil, cdcerr.ExecDDLFailed.New("not one expression: %s", text)
}

// restore prints a statement, or a part of one.
func restore(n interface {
	Restore(ctx *format.RestoreCtx) error
}) (text string, err error) {
	defer guard(fmt.Sprintf("%T", n), &err)
	var b strings.Builder
	if err := n.Restore(format.NewRestoreCtx(restoreFlags, &b)); err != nil {
		return "", err
	}
	return b.String(), nil
}

// restoreSelect prints a view's select anew, in the quotes of this session.
func restoreSelect(text string) (string, error) {
	nodes, err := parseText(text, 0)
	if err != nil {
		return "", cdcerr.ExecDDLFailed.Wrap(err, "view %s", text)
	}
	if len(nodes) != 1 {
		return "", cdcerr.ExecDDLFailed.New("not one statement: %s", text)
	}
	out, err := restore(nodes[0])
	return out, cdcerr.ExecDDLFailed.Wrap(err, "view %s", text)
}

// qualify gives every table name without a database that of the job. It is for
// statements of which no part can have names of its own (views and CTEs have).
func qualify(n ast.Node, schema string) {
	n.Accept(qualifier(schema))
}

type qualifier string

func (q qualifier) Enter(n ast.Node) (ast.Node, bool) {
	if t, ok := n.(*ast.TableName); ok && t.Schema.O == "" {
		t.Schema = ast.NewCIStr(string(q))
	}
	return n, false
}

func (q qualifier) Leave(n ast.Node) (ast.Node, bool) { return n, true }

func tableName(t *event.Table) *ast.TableName {
	return &ast.TableName{Schema: ast.NewCIStr(t.Schema), Name: ast.NewCIStr(t.Name)}
}

func sameName(a, b string) bool { return strings.EqualFold(a, b) }
