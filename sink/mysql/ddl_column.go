package mysql

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmysql "github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// column rewrites one column's definition in place. It returns indexes that
// the definition had and can have there no more.
func (r *rewriter) column(def *ast.ColumnDef) ([]*ast.Constraint, error) {
	def.Name = &ast.ColumnName{Name: def.Name.Name}
	var c *event.Column
	if i := r.after.Column(def.Name.Name.O); i >= 0 {
		c = &r.after.Columns[i]
	}
	r.columnType(def, c)
	options := def.Options
	def.Options = nil
	if collation := r.columnCollation(def, c); collation != "" {
		// First, since a generated column takes it nowhere else; and alone, since
		// the parser prints no CHARACTER SET for ENUM and SET.
		def.Options = append(def.Options, &ast.ColumnOption{Tp: ast.ColumnOptionCollate, StrValue: collation})
	}
	generated := slices.ContainsFunc(options, func(o *ast.ColumnOption) bool { return o.Tp == ast.ColumnOptionGenerated })
	nullSaid := false
	var moved []*ast.Constraint
	for _, o := range options {
		nullSaid = nullSaid || o.Tp == ast.ColumnOptionNull || o.Tp == ast.ColumnOptionNotNull || o.Tp == ast.ColumnOptionPrimaryKey
		keep, index, err := r.columnOption(def, c, o, generated)
		if err != nil {
			return nil, err
		}
		if index != nil {
			moved = append(moved, index)
		}
		if keep {
			def.Options = append(def.Options, o)
		}
	}
	if c != nil && c.Type == event.TypeTimestamp && !c.NotNull() && !nullSaid && !generated {
		// Where explicit_defaults_for_timestamp is off, silence means NOT NULL.
		def.Options = append(def.Options, &ast.ColumnOption{Tp: ast.ColumnOptionNull})
	}
	return moved, nil
}

func (r *rewriter) columnType(def *ast.ColumnDef, c *event.Column) {
	ft := def.Tp
	switch ft.GetType() {
	case pmysql.TypeTiDBVectorFloat32:
		if !r.dialect.hasVector() {
			def.Tp = types.NewFieldType(pmysql.TypeLongBlob)
			def.Tp.SetFlen(types.UnspecifiedLength)
			r.note(FeatureVector, def.Name.Name.O)
		}
	case pmysql.TypeDuration:
		if r.dialect.Kind == Other && ft.GetDecimal() > 0 {
			ft.SetDecimal(types.UnspecifiedLength)
			r.note(FeatureTime, def.Name.Name.O)
		}
	case pmysql.TypeDouble:
		if ft.GetDecimal() == types.UnspecifiedLength {
			ft.SetFlen(types.UnspecifiedLength) // DOUBLE(10) is no MySQL
		}
	}
	if c != nil && c.Type == event.TypeJSON && r.dialect.Kind == MariaDB {
		r.note(FeatureJSON, c.Name)
	}
}

// columnCollation takes charset and collation out of the type and says which
// collation stands for both; empty where the column has no characters.
func (r *rewriter) columnCollation(def *ast.ColumnDef, c *event.Column) string {
	switch def.Tp.GetType() {
	case pmysql.TypeString, pmysql.TypeVarchar, pmysql.TypeVarString, pmysql.TypeTinyBlob, pmysql.TypeBlob,
		pmysql.TypeMediumBlob, pmysql.TypeLongBlob, pmysql.TypeEnum, pmysql.TypeSet:
	default:
		return ""
	}
	if c != nil && c.Type == event.TypeVector {
		return "utf8mb4_bin"
	}
	charset, collation := def.Tp.GetCharset(), def.Tp.GetCollate()
	if c != nil {
		charset, collation = c.Charset, c.Collation
	}
	if charset == "binary" {
		def.Tp.SetCharset("binary") // the parser calls the type BINARY, VARBINARY, BLOB by it
		return ""
	}
	def.Tp.SetCharset("")
	def.Tp.SetCollate("")
	def.Tp.SetFlag(def.Tp.GetFlag() &^ pmysql.BinaryFlag)
	_, now := r.dialect.collation(charset, collation)
	if f := r.dialect.collationFeature(charset, collation); f != "" {
		r.note(f, def.Name.Name.O+" "+collation+" becomes "+now)
	}
	return now
}

// columnOption says whether an option stays. It may change it, or make an
// index of its own of it.
func (r *rewriter) columnOption(def *ast.ColumnDef, c *event.Column, o *ast.ColumnOption, generated bool) (keep bool, index *ast.Constraint, err error) {
	name := def.Name.Name.O
	switch o.Tp {
	case ast.ColumnOptionCollate:
		return false, nil, nil // said already
	case ast.ColumnOptionNotNull, ast.ColumnOptionNull:
		if generated && r.dialect.Kind == MariaDB {
			r.note(FeatureGeneratedNN, name)
			return false, nil, nil
		}
	case ast.ColumnOptionDefaultValue:
		keep, err = r.defaultOption(name, c, o)
		return keep, nil, err
	case ast.ColumnOptionPrimaryKey, ast.ColumnOptionUniqKey:
		return r.keyOption(def, o, generated)
	}
	if r.native() {
		return o.Tp != ast.ColumnOptionFulltext, nil, nil
	}
	switch o.Tp {
	case ast.ColumnOptionCheck:
		r.note(FeatureCheck, name)
	case ast.ColumnOptionAutoRandom:
		r.note(FeatureHints, name+" AUTO_RANDOM")
	case ast.ColumnOptionReference:
		r.note(FeatureReferences, name)
	case ast.ColumnOptionFulltext:
		r.note(FeatureSpecialIndex, name)
	case ast.ColumnOptionColumnFormat, ast.ColumnOptionStorage, ast.ColumnOptionSecondaryEngineAttribute:
		r.note(FeatureEngine, name)
	default:
		return true, nil, nil
	}
	return false, nil, nil
}

// defaultOption states a DEFAULT so that it means the same in this session.
func (r *rewriter) defaultOption(name string, c *event.Column, o *ast.ColumnOption) (keep bool, err error) {
	if call, ok := o.Expr.(*ast.FuncCallExpr); ok {
		switch call.FnName.L {
		case "nextval", "lastval", "setval":
			if !r.native() && r.dialect.Kind != MariaDB {
				r.note(FeatureSequence, name+" DEFAULT")
				return false, nil
			}
			if c != nil && c.Default != nil && c.DefaultIsExpr {
				// In the table info the sequence has its database.
				o.Expr, err = parseExpr(*c.Default)
				return true, err
			}
		case "vec_from_text":
			if !r.dialect.hasVector() && len(call.Args) == 1 {
				o.Expr = call.Args[0]
				if r.dialect.Kind == MySQL {
					o.Expr = &ast.ParenthesesExpr{Expr: o.Expr} // no TEXT has a literal as DEFAULT there
				}
			}
		}
		if call.FnName.L != ast.CurrentTimestamp && r.dialect.Kind == MySQL && !r.dialect.atLeast(8, 0, 13) {
			r.note(FeatureDefault, name)
			return false, nil
		}
		return true, nil
	}
	if c != nil && r.keepsUTC(c) && c.Default != nil && isLiteral(o.Expr) {
		// The text was typed in the session's zone; the table info has it in UTC.
		o.Expr = ast.NewValueExpr(*c.Default, "", "")
	}
	return true, nil
}

// keepsUTC tells whether literals of a column are moments and the statement
// runs in UTC. In the job's own zone they mean what they meant upstream.
func (r *rewriter) keepsUTC(c *event.Column) bool {
	return c.Type == event.TypeTimestamp && !c.DefaultIsExpr && r.script.zone == nil
}

func isLiteral(e ast.ExprNode) bool {
	if u, ok := e.(*ast.UnaryOperationExpr); ok {
		e = u.V
	}
	v, ok := e.(ast.ValueExpr)
	return ok && v.GetValue() != nil
}

// keyOption handles PRIMARY KEY and UNIQUE in a column's definition.
func (r *rewriter) keyOption(def *ast.ColumnDef, o *ast.ColumnOption, generated bool) (keep bool, index *ast.Constraint, err error) {
	if r.native() {
		if o.StrValue == "" {
			return true, nil, nil
		}
	}
	if o.PrimaryKeyTp != ast.PrimaryKeyTypeDefault && !r.native() {
		o.PrimaryKeyTp = ast.PrimaryKeyTypeDefault
		r.note(FeatureHints, "CLUSTERED, NONCLUSTERED")
	}
	primary := o.Tp == ast.ColumnOptionPrimaryKey
	switch {
	case o.StrValue != "":
		// GLOBAL: the parser prints it without the comment that others skip, so
		// it goes where it is rewritten like every index.
		c := &ast.Constraint{Tp: ast.ConstraintUniq,
			Keys:   []*ast.IndexPartSpecification{{Column: &ast.ColumnName{Name: def.Name.Name}, Length: types.UnspecifiedLength}},
			Option: &ast.IndexOption{Global: true, PrimaryKeyTp: o.PrimaryKeyTp}}
		if primary {
			c.Tp = ast.ConstraintPrimaryKey
			def.Options = append(def.Options, &ast.ColumnOption{Tp: ast.ColumnOptionNotNull})
		}
		return false, c, nil
	case primary && generated && r.dialect.Kind == MariaDB:
		o.Tp = ast.ColumnOptionUniqKey
		r.note(FeatureGeneratedPK, def.Name.Name.O)
	}
	return true, nil, nil
}

// backfilled makes an added column fill the rows that are there with what
// upstream filled them with. A function in its DEFAULT would give the moment of
// this statement, and bytes that are no UTF-8 are other bytes in TiDB's own
// metadata; so the column is added with the origin default as a literal, and
// gets its real definition in a second statement.
func (r *rewriter) backfilled(def *ast.ColumnDef) error {
	i := r.after.Column(def.Name.Name.O)
	if i < 0 {
		return nil
	}
	c := &r.after.Columns[i]
	at := slices.IndexFunc(def.Options, func(o *ast.ColumnOption) bool { return o.Tp == ast.ColumnOptionDefaultValue })
	if !r.fillDiffers(c, def, at) {
		return nil
	}
	real := &ast.ColumnDef{Name: def.Name, Tp: def.Tp}
	for _, o := range def.Options {
		if o.Tp != ast.ColumnOptionPrimaryKey && o.Tp != ast.ColumnOptionUniqKey {
			real.Options = append(real.Options, o)
		}
	}
	spec := &ast.AlterTableSpec{Tp: ast.AlterTableModifyColumn, NewColumns: []*ast.ColumnDef{real}, Position: &ast.ColumnPosition{Tp: ast.ColumnPositionNone}}
	text, err := restore(&ast.AlterTableStmt{Table: tableName(r.after), Specs: []*ast.AlterTableSpec{spec}})
	if err != nil {
		return cdcerr.ExecDDLFailed.Wrap(err, "job %d: %s", r.ddl.JobID, r.ddl.Query)
	}
	fill, err := r.fillNode(c)
	if err != nil {
		return err
	}
	options := slices.Clone(def.Options)
	if at >= 0 {
		options[at] = &ast.ColumnOption{Tp: ast.ColumnOptionDefaultValue, Expr: fill}
	} else {
		options = append(options, &ast.ColumnOption{Tp: ast.ColumnOptionDefaultValue, Expr: fill})
	}
	def.Options = options
	r.later = append(r.later, text)
	return nil
}

// fillDiffers tells whether the downstream would fill old rows otherwise than
// upstream has; at is the place of the DEFAULT among the options, −1 for none.
func (r *rewriter) fillDiffers(c *event.Column, def *ast.ColumnDef, at int) bool {
	switch {
	case c.Generated != event.NotGenerated, c.Flag&event.FlagAutoIncrement != 0, c.Absent.IsNull(), c.Absent.IsMissing():
		return false
	case at < 0:
		// NOT NULL without DEFAULT: the types' zeros agree, but not of types that
		// the downstream does not have itself.
		return c.Type == event.TypeJSON && r.dialect.Kind == MariaDB || c.Type == event.TypeVector && !r.dialect.hasVector()
	case !c.HasOrigin:
		return false
	case c.IsBinary():
		v, ok := def.Options[at].Expr.(ast.ValueExpr)
		return !ok || string(event.PadBinary(c, []byte(literalBytes(v)))) != string(event.PadBinary(c, c.Absent.Raw()))
	}
	return !isLiteral(def.Options[at].Expr)
}

// literalBytes are the bytes of a string, hexadecimal or bit literal.
func literalBytes(v ast.ValueExpr) string { return v.GetString() }

// fillNode is the value that rows have without the column, as a literal.
func (r *rewriter) fillNode(c *event.Column) (ast.ExprNode, error) {
	var text []byte
	switch c.Absent.Kind() {
	case event.Enum, event.Set, event.JSON, event.Vector, event.Float:
		text = appendQuoted(nil, c.Absent.AppendText(nil, c))
	case event.Bytes:
		if c.IsBinary() {
			text = appendHex(nil, event.PadBinary(c, c.Absent.Raw()))
			break
		}
		text = appendQuoted(nil, c.Absent.Raw())
	default:
		var err error
		if text, err = appendLiteral(nil, c.Absent, r.after, c, r.dialect); err != nil {
			return nil, err
		}
	}
	if r.script.zone != nil && c.Type == event.TypeTimestamp {
		text = appendQuoted(nil, []byte(r.script.zone.fromUTC(c.Absent.Text(c))))
	}
	expr, err := parseExpr(string(text))
	if err != nil {
		return nil, err
	}
	if r.dialect.Kind == MySQL && isLong(c.Type) {
		return &ast.ParenthesesExpr{Expr: expr}, nil // MySQL: these have expressions as DEFAULT, and no literals
	}
	return expr, nil
}

// isLong tells the types that MySQL keeps outside of the row.
func isLong(t event.Type) bool {
	switch t {
	case event.TypeTinyBlob, event.TypeBlob, event.TypeMediumBlob, event.TypeLongBlob, event.TypeJSON, event.TypeVector:
		return true
	}
	return false
}
