package filter

import (
	tidb "github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Name is a table as a statement spells it.
type Name struct{ Schema, Table string }

// String is schema.table, or the database alone.
func (n Name) String() string {
	if n.Table == "" {
		return n.Schema
	}
	return n.Schema + "." + n.Table
}

// Named is what a statement says of one table: its name, and the one that it gives
// it. Before is empty for a table that it makes, After for one that keeps its name.
// A statement on a whole database names that, without a table.
type Named struct{ Before, After Name }

// At is the name by which rules decide: the one before, where there is one.
func (n Named) At() Name {
	if n.Before == (Name{}) {
		return n.After
	}
	return n.Before
}

// NamesIn are the tables that a statement is about, for a person who asks what a
// filter would do about it; in is the database of names without one.
func NamesIn(statement, in string) (out []Named, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, cdcerr.InvalidArgument.New("the parser gave up (%v) on: %s", p, statement)
		}
	}()
	nodes, _, err := tidb.New().Parse(statement, "", "")
	if err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "statement %s", statement)
	}
	if len(nodes) != 1 {
		return nil, cdcerr.InvalidArgument.New("want one statement, there are %d", len(nodes))
	}
	return namesOf(nodes[0], in), nil
}

func namesOf(n ast.StmtNode, in string) []Named {
	name := func(t *ast.TableName) Name {
		if t.Schema.O == "" {
			return Name{in, t.Name.O}
		}
		return Name{t.Schema.O, t.Name.O}
	}
	alone := func(t *ast.TableName) []Named { return []Named{{Before: name(t)}} }
	switch n := n.(type) {
	case *ast.CreateDatabaseStmt:
		return []Named{{After: Name{Schema: n.Name.O}}}
	case *ast.DropDatabaseStmt:
		return []Named{{Before: Name{Schema: n.Name.O}}}
	case *ast.AlterDatabaseStmt:
		return []Named{{Before: Name{Schema: n.Name.O}}}
	case *ast.FlashBackDatabaseStmt:
		return []Named{{After: Name{Schema: n.DBName.O}}}
	case *ast.CreateTableStmt:
		return []Named{{After: name(n.Table)}}
	case *ast.CreateViewStmt:
		return []Named{{After: name(n.ViewName)}}
	case *ast.DropTableStmt:
		var out []Named
		for _, t := range n.Tables {
			out = append(out, alone(t)...)
		}
		return out
	case *ast.TruncateTableStmt:
		return alone(n.Table)
	case *ast.CreateIndexStmt:
		return alone(n.Table)
	case *ast.DropIndexStmt:
		return alone(n.Table)
	case *ast.RenameTableStmt:
		var out []Named
		for _, pair := range n.TableToTables {
			out = append(out, Named{name(pair.OldTable), name(pair.NewTable)})
		}
		return out
	case *ast.AlterTableStmt:
		for _, s := range n.Specs {
			if s.Tp == ast.AlterTableRenameTable {
				return []Named{{name(n.Table), name(s.NewTable)}}
			}
		}
		return alone(n.Table)
	}
	return nil
}
