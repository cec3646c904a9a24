package catalog

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

func (p *planner) createView(s *ast.CreateViewStmt) error {
	db, err := p.database(s.ViewName.Schema.O)
	if err != nil {
		return err
	}
	args := &createTableArgs{FKCheck: true}
	if old := p.c.tableIn(db.ID, s.ViewName.Name.L); old != nil {
		switch {
		case old.View == nil:
			return refuse(errWrongObject, "'%s.%s' is not VIEW", db.Name.O, old.Name.O)
		case !s.OrReplace:
			return refuse(errTableExists, "Table '%s.%s' already exists", db.Name.O, old.Name.O)
		}
		args.OldViewID = old.ID
	}
	args.OnExistReplace = s.OrReplace
	names, err := p.fields(s.Select)
	if err != nil {
		return err
	}
	text, err := restore(s.Select, format.DefaultRestoreFlags)
	if err != nil {
		return err
	}
	cs := p.collation()
	t := &TableInfo{
		Name: MakeName(s.ViewName.Name.O), Charset: cs.charset, Collate: cs.collate, Version: tableVersion,
		View: &ViewInfo{
			Algorithm: int(s.Algorithm), Definer: p.definer(s), Security: int(s.Security), Select: text, CheckOption: int(s.CheckOption),
		},
	}
	if len(s.Cols) > 0 {
		if len(s.Cols) != len(names) {
			return refuse(1353, "View's SELECT and view's field list have different column counts")
		}
		for i, c := range s.Cols {
			t.View.Cols = append(t.View.Cols, MakeName(c.O))
			names[i] = c.O
		}
	}
	for i, name := range names {
		t.MaxColumnID++
		t.Columns = append(t.Columns, &ColumnInfo{ID: t.MaxColumnID, Name: MakeName(name), Offset: i, State: StatePublic})
	}
	args.Table = t
	j := p.job(ActionCreateView, db, t, args)
	j.info.SessionVars = scatter()
	j.assign = func(ids *allocator) {
		t.ID = ids.next()
		j.info.TableID = t.ID
	}
	return nil
}

// definer is who the view is defined by: the session's user unless it says.
func (p *planner) definer(s *ast.CreateViewStmt) UserIdentity {
	if s.Definer == nil || s.Definer.CurrentUser {
		return p.session.User
	}
	return UserIdentity{Username: s.Definer.Username, Hostname: s.Definer.Hostname}
}

// fields names every field of a query, writes the database before every table,
// and returns the names.
func (p *planner) fields(n ast.Node) ([]string, error) {
	n.Accept(&tableQualifier{db: p.db})
	for {
		switch s := n.(type) {
		case *ast.SetOprStmt:
			n = s.SelectList.Selects[0]
			continue
		case *ast.SetOprSelectList:
			n = s.Selects[0]
			continue
		case *ast.SelectStmt:
			return p.selectFields(s)
		}
		return nil, refuse(errUnsupported, "a view over %T", n)
	}
}

func (p *planner) selectFields(s *ast.SelectStmt) ([]string, error) {
	var names []string
	var fields []*ast.SelectField
	for _, f := range s.Fields.Fields {
		if f.WildCard != nil {
			more, err := p.star(s, f)
			if err != nil {
				return nil, err
			}
			fields = append(fields, more...)
			continue
		}
		fields = append(fields, f)
	}
	for _, f := range fields {
		if f.AsName.O == "" {
			f.AsName = ast.NewCIStr(fieldName(f))
		}
		names = append(names, f.AsName.O)
	}
	s.Fields.Fields = fields
	return names, nil
}

// fieldName is the name of a field that was given none.
func fieldName(f *ast.SelectField) string {
	if c, ok := f.Expr.(*ast.ColumnNameExpr); ok {
		return c.Name.Name.O
	}
	if text := strings.TrimSpace(f.Text()); text != "" {
		return text
	}
	text, err := restore(f.Expr, format.DefaultRestoreFlags)
	if err != nil {
		return "expr"
	}
	return text
}

// star is what a * stands for: the columns of the tables that are read.
func (p *planner) star(s *ast.SelectStmt, f *ast.SelectField) ([]*ast.SelectField, error) {
	if s.From == nil {
		return nil, refuse(1096, "No tables used")
	}
	finder := &tableQualifier{db: p.db, collect: true}
	s.From.Accept(finder)
	var out []*ast.SelectField
	for _, n := range finder.found {
		if f.WildCard.Table.L != "" && f.WildCard.Table.L != n.Name.L {
			continue
		}
		t := p.c.Table(n.Schema.L, n.Name.L)
		if t == nil {
			return nil, refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", n.Schema.O, n.Name.O)
		}
		for _, c := range t.Columns {
			if c.State != StatePublic || c.Hidden {
				continue
			}
			name := &ast.ColumnName{Schema: n.Schema, Table: n.Name, Name: ast.NewCIStr(c.Name.O)}
			out = append(out, &ast.SelectField{Expr: &ast.ColumnNameExpr{Name: name}})
		}
	}
	return out, nil
}

// tableQualifier writes a database before the names of tables that have none.
type tableQualifier struct {
	db      string
	collect bool
	found   []*ast.TableName
}

// Enter takes a node if it is a table's name.
func (v *tableQualifier) Enter(n ast.Node) (ast.Node, bool) {
	if t, ok := n.(*ast.TableName); ok {
		if t.Schema.L == "" {
			t.Schema = ast.NewCIStr(v.db)
		}
		if v.collect {
			v.found = append(v.found, t)
		}
	}
	return n, false
}

// Leave goes on.
func (v *tableQualifier) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// createViewStep makes the view; one of the same name goes in the same step.
func (w *work) createView(a *createTableArgs) error {
	t, db := a.Table, w.info.SchemaID
	old := w.c.tableIn(db, t.Name.L)
	if old != nil && !a.OnExistReplace {
		return w.cancel(errTableExists, "Table '%s' already exists", t.Name.O)
	}
	w.bump(func(d *SchemaDiff) {
		if old != nil {
			d.OldTableID = old.ID
		}
	})
	if old != nil {
		w.dropAll(db, old.ID)
	}
	t.State, t.UpdateTS = StatePublic, w.start
	w.putTable(db, t)
	w.doneTable(StatePublic, t)
	return nil
}

// defaultUser is who defines views in a session that names nobody.
func defaultUser() UserIdentity {
	return UserIdentity{Username: "root", Hostname: "%", AuthUsername: "root", AuthHostname: "%", AuthPlugin: mysql.AuthNativePassword}
}
