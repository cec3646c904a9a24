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
	p.with = map[string]*ast.CommonTableExpression{}
	s.Select.Accept(&tableQualifier{db: p.db, with: p.with})
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

// fields names every field of a query, and returns the names.
func (p *planner) fields(n ast.Node) ([]string, error) {
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
	return p.starOf(s.From.TableRefs, f.WildCard.Table.L)
}

// starOf are the columns of those of joined tables that go by a name, or of all.
func (p *planner) starOf(n ast.ResultSetNode, only string) ([]*ast.SelectField, error) {
	switch x := n.(type) {
	case *ast.Join:
		left, err := p.starOf(x.Left, only)
		if err != nil || x.Right == nil {
			return left, err
		}
		right, err := p.starOf(x.Right, only)
		return append(left, right...), err
	case *ast.TableSource:
		return p.columnsIn(x, only)
	}
	return nil, refuse(errUnsupported, "a view over %T", n)
}

// columnsIn are the columns of one table that is read, or of a query in its place.
func (p *planner) columnsIn(x *ast.TableSource, only string) ([]*ast.SelectField, error) {
	var schema, table ast.CIStr
	var names []string
	var err error
	if t, ok := x.Source.(*ast.TableName); ok {
		schema, table = t.Schema, t.Name
	}
	if x.AsName.L != "" {
		schema, table = ast.CIStr{}, x.AsName
	}
	if only != "" && only != table.L {
		return nil, nil
	}
	switch source := x.Source.(type) {
	case *ast.TableName:
		names, err = p.columnNames(source)
	default:
		names, err = p.fields(source)
	}
	if err != nil {
		return nil, err
	}
	var out []*ast.SelectField
	for _, name := range names {
		c := &ast.ColumnName{Schema: schema, Table: table, Name: ast.NewCIStr(name)}
		out = append(out, &ast.SelectField{Expr: &ast.ColumnNameExpr{Name: c}})
	}
	return out, nil
}

// columnNames are the columns of a table, or of a name that a WITH gives.
func (p *planner) columnNames(n *ast.TableName) ([]string, error) {
	var names []string
	if with := p.with[n.Name.L]; with != nil && n.Schema.L == "" {
		for _, c := range with.ColNameList {
			names = append(names, c.O)
		}
		if names != nil {
			return names, nil
		}
		p.with[n.Name.L] = nil // a name that stands for itself stands for nothing
		defer func() { p.with[n.Name.L] = with }()
		return p.fields(with.Query.Query)
	}
	t := p.c.Table(n.Schema.L, n.Name.L)
	if t == nil {
		return nil, refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", n.Schema.O, n.Name.O)
	}
	for _, c := range t.Columns {
		if c.State == StatePublic && !c.Hidden {
			names = append(names, c.Name.O)
		}
	}
	return names, nil
}

// tableQualifier writes a database before the names of tables that have none,
// except for those that a WITH gives.
type tableQualifier struct {
	db   string
	with map[string]*ast.CommonTableExpression
}

// Enter takes a node if it is a table's name, or gives one.
func (v *tableQualifier) Enter(n ast.Node) (ast.Node, bool) {
	switch x := n.(type) {
	case *ast.CommonTableExpression:
		v.with[x.Name.L] = x
	case *ast.TableName:
		if x.Schema.L == "" && v.with[x.Name.L] == nil {
			x.Schema = ast.NewCIStr(v.db)
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
