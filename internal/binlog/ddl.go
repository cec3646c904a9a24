package binlog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals of the parser
)

// Form is what one statement of DDL does, in words that do not depend on how it
// is written: two statements of one form do the same.
type Form struct {
	Database string
	Kind     string // such as "truncate" or "add column"
	What     string // the tables, and what of them
}

// String is the form in a line.
func (f Form) String() string { return f.Kind + " " + f.Database + "." + f.What }

// Tables are the names of the tables that it does something to: those that a
// rename ends with, too. What is done to a database names none.
func (f Form) Tables() []string {
	words := strings.Fields(f.What)
	switch {
	case len(words) == 0:
		return nil
	case f.Kind == "exchange partition":
		return []string{words[0], words[len(words)-1]}
	case f.Kind != "rename":
		return words[:1]
	}
	var out []string
	for pair := range strings.SplitSeq(f.What, ", ") {
		from, to, _ := strings.Cut(pair, " to ")
		out = append(out, from, to)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Forms reads a statement that ran in a database. It has one form, or one for each
// clause of an ALTER TABLE.
func Forms(database, text string) ([]Form, error) {
	n, err := parser.New().ParseOneStmt(text, "", "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	r := forms{database: database}
	switch n := n.(type) {
	case *ast.CreateDatabaseStmt:
		return []Form{{n.Name.L, "create database", ""}}, nil
	case *ast.DropDatabaseStmt:
		return []Form{{n.Name.L, "drop database", ""}}, nil
	case *ast.CreateTableStmt:
		r.add("create", n.Table)
	case *ast.DropTableStmt:
		for _, t := range n.Tables {
			r.add("drop", t)
		}
	case *ast.TruncateTableStmt:
		r.add("truncate", n.Table)
	case *ast.RenameTableStmt:
		r.rename(n)
	case *ast.CreateIndexStmt:
		r.add("add index", n.Table, n.IndexName)
	case *ast.DropIndexStmt:
		r.add("drop index", n.Table, n.IndexName)
	case *ast.AlterTableStmt:
		for _, x := range n.Specs {
			r.clause(n.Table, x)
		}
	default:
		return nil, fmt.Errorf("%s: a %T has no form", text, n)
	}
	return r.out, nil
}

type forms struct {
	database string
	out      []Form
}

func (r *forms) name(t *ast.TableName) (database, table string) {
	if t.Schema.L != "" {
		return t.Schema.L, t.Name.L
	}
	return r.database, t.Name.L
}

func (r *forms) add(kind string, t *ast.TableName, what ...string) {
	database, table := r.name(t)
	r.out = append(r.out, Form{database, kind, strings.ToLower(strings.Join(append([]string{table}, what...), " "))})
}

// rename tells by which name each table goes in the end: how it got there, and by
// which names on the way, is the writer's.
func (r *forms) rename(n *ast.RenameTableStmt) {
	was := map[string]string{} // the name before the statement, by that of now
	database := r.database
	for _, x := range n.TableToTables {
		db, from := r.name(x.OldTable)
		_, to := r.name(x.NewTable)
		database = db
		first, ok := was[from]
		if !ok {
			first = from
		}
		delete(was, from)
		was[to] = first
	}
	var pairs []string
	for _, to := range slices.Sorted(maps.Keys(was)) {
		pairs = append(pairs, was[to]+" to "+to)
	}
	r.out = append(r.out, Form{database, "rename", strings.Join(pairs, ", ")})
}

func (r *forms) clause(t *ast.TableName, x *ast.AlterTableSpec) {
	switch x.Tp {
	case ast.AlterTableAddColumns:
		for _, c := range x.NewColumns {
			r.add("add column", t, c.Name.Name.L)
		}
	case ast.AlterTableDropColumn:
		r.add("drop column", t, x.OldColumnName.Name.L)
	case ast.AlterTableModifyColumn:
		r.add("modify column", t, x.NewColumns[0].Name.Name.L)
	case ast.AlterTableAddConstraint:
		r.add("add index", t, x.Constraint.Name)
	case ast.AlterTableDropIndex:
		r.add("drop index", t, x.Name)
	case ast.AlterTableExchangePartition:
		_, with := r.name(x.NewTable)
		r.add("exchange partition", t, x.PartitionNames[0].L, with)
	default:
		r.add(fmt.Sprintf("clause %d", x.Tp), t)
	}
}
