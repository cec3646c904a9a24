package mysql

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmysql "github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// A rewriter turns one statement on one table into what its dialect has.
type rewriter struct {
	script  *script
	ddl     *event.DDL
	dialect Dialect
	before  *event.Table // nil for a new table
	after   *event.Table

	// later are statements after the one being rewritten, more are clauses at its end.
	later []string
	more  []*ast.AlterTableSpec
}

func (r *rewriter) note(feature, about string) {
	r.script.note(feature, r.after.FullName()+": "+about)
}

// native tells whether the downstream speaks TiDB's own words.
func (r *rewriter) native() bool { return r.dialect.Kind == TiDB }

// emit prints the rewritten statement and what must follow it.
func (r *rewriter) emit(n ast.StmtNode) error {
	text, err := restore(n)
	if err != nil {
		return cdcerr.ExecDDLFailed.Wrap(err, "job %d: %s", r.ddl.JobID, r.ddl.Query)
	}
	r.script.main = text
	r.script.statements = append(append(r.script.statements, text), r.later...)
	return nil
}

func (r *rewriter) createTable(n *ast.CreateTableStmt) error {
	n.Table = tableName(r.after)
	// A table that is there already is told apart from this one when the
	// statement fails, not skipped whatever it looks like.
	n.IfNotExists = false
	var extra []*ast.Constraint
	for _, c := range n.Cols {
		more, err := r.column(c)
		if err != nil {
			return err
		}
		extra = append(extra, more...)
	}
	constraints := n.Constraints
	n.Constraints = nil
	for _, c := range append(constraints, extra...) {
		keep, err := r.constraint(c, n.Cols)
		if err != nil {
			return err
		}
		if keep {
			n.Constraints = append(n.Constraints, c)
		}
	}
	n.Options = r.tableOptions(n.Options)
	if !r.native() {
		n.SplitIndex = nil
	}
	var err error
	if n.Partition, err = r.partitioning(n.Partition); err != nil {
		return err
	}
	if err := r.emit(n); err != nil {
		return err
	}
	return r.emitTwin(n)
}

// emitTwin prints the statement for a table of another name, with which one that is
// there already is compared. It refers to no other table: the names of foreign keys
// are taken.
func (r *rewriter) emitTwin(n *ast.CreateTableStmt) error {
	of := r.after
	n.Table = tableName(twinOf(of))
	n.Constraints = slices.DeleteFunc(n.Constraints, func(c *ast.Constraint) bool { return c.Tp == ast.ConstraintForeignKey })
	text, err := restore(n)
	if err != nil {
		return cdcerr.ExecDDLFailed.Wrap(err, "job %d: %s", r.ddl.JobID, r.ddl.Query)
	}
	r.script.twins = append(r.script.twins, twin{of: of, main: r.script.main, text: text})
	return nil
}

// tableOptions keeps what describes the contents, and states charset and
// collation: the downstream's defaults are others.
func (r *rewriter) tableOptions(options []*ast.TableOption) []*ast.TableOption {
	var out []*ast.TableOption
	for _, o := range options {
		switch o.Tp {
		case ast.TableOptionCharset, ast.TableOptionCollate:
			continue
		case ast.TableOptionComment, ast.TableOptionAutoIncrement:
		case ast.TableOptionPlacementPolicy:
			r.note(FeaturePlacement, o.StrValue)
			continue
		case ast.TableOptionTTLEnable, ast.TableOptionTTLJobInterval:
			if !r.native() || !slices.ContainsFunc(options, func(o *ast.TableOption) bool { return o.Tp == ast.TableOptionTTL }) {
				r.note(FeatureTTL, "table option left out") // it stays off
				continue
			}
		default:
			if !r.native() {
				r.note(optionFeature(o.Tp), "table option left out")
				continue
			}
		}
		out = append(out, o)
	}
	charset, collation := r.dialect.collation(r.after.Charset, r.after.Collation)
	if f := r.dialect.collationFeature(r.after.Charset, r.after.Collation); f != "" {
		r.note(f, r.after.Collation+" becomes "+collation)
	}
	if charset != "" {
		out = append(out, &ast.TableOption{Tp: ast.TableOptionCharset, StrValue: charset})
	}
	if collation != "" {
		out = append(out, &ast.TableOption{Tp: ast.TableOptionCollate, StrValue: collation})
	}
	return out
}

func optionFeature(t ast.TableOptionType) string {
	switch t {
	case ast.TableOptionTTL, ast.TableOptionTTLEnable, ast.TableOptionTTLJobInterval:
		return FeatureTTL
	case ast.TableOptionAutoIdCache, ast.TableOptionAutoRandomBase, ast.TableOptionShardRowID, ast.TableOptionPreSplitRegion:
		return FeatureHints
	}
	return FeatureEngine
}

// tableNode is a CREATE TABLE made of nothing but the table's info: what LIKE
// copies, and what a recovered table looks like.
func tableNode(t *event.Table) (*ast.CreateTableStmt, error) {
	n := &ast.CreateTableStmt{Table: tableName(t)}
	for i := range t.Columns {
		c, err := columnNode(&t.Columns[i])
		if err != nil {
			return nil, cdcerr.ExecDDLFailed.Wrap(err, "%s, column %s", t.FullName(), t.Columns[i].Name)
		}
		n.Cols = append(n.Cols, c)
	}
	for i := range t.Indexes {
		c, err := indexNode(t, &t.Indexes[i])
		if err != nil {
			return nil, cdcerr.ExecDDLFailed.Wrap(err, "%s, index %s", t.FullName(), t.Indexes[i].Name)
		}
		n.Constraints = append(n.Constraints, c)
	}
	if t.Comment != "" {
		n.Options = append(n.Options, &ast.TableOption{Tp: ast.TableOptionComment, StrValue: t.Comment})
	}
	if t.ShardRowIDBits > 0 {
		n.Options = append(n.Options, &ast.TableOption{Tp: ast.TableOptionShardRowID, UintValue: t.ShardRowIDBits})
	}
	if t.AutoRandomBits > 0 && len(t.Handle.Parts) > 0 {
		pk := n.Cols[t.Handle.Parts[0].Column]
		pk.Options = append(pk.Options, &ast.ColumnOption{Tp: ast.ColumnOptionAutoRandom,
			AutoRandOpt: ast.AutoRandomOption{ShardBits: int(t.AutoRandomBits), RangeBits: types.UnspecifiedLength}}) //nolint:gosec // at most 15
	}
	// While REMOVE PARTITIONING runs, all rows are in one partition that is cut by nothing.
	if t.PartitionBy != nil && t.PartitionBy.Kind != 0 {
		var err error
		if n.Partition, err = partitionNode(t); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func columnNode(c *event.Column) (*ast.ColumnDef, error) {
	def := &ast.ColumnDef{Name: &ast.ColumnName{Name: ast.NewCIStr(c.Name)}, Tp: fieldType(c)}
	option := func(o *ast.ColumnOption) { def.Options = append(def.Options, o) }
	if c.Generated != event.NotGenerated {
		expr, err := parseExpr(c.GenExpr)
		if err != nil {
			return nil, err
		}
		option(&ast.ColumnOption{Tp: ast.ColumnOptionGenerated, Expr: expr, Stored: c.Generated == event.Stored})
	}
	if c.NotNull() {
		option(&ast.ColumnOption{Tp: ast.ColumnOptionNotNull})
	}
	if c.Flag&event.FlagAutoIncrement != 0 {
		option(&ast.ColumnOption{Tp: ast.ColumnOptionAutoIncrement})
	}
	if c.Default != nil && c.Generated == event.NotGenerated {
		expr, err := defaultNode(c)
		if err != nil {
			return nil, err
		}
		option(&ast.ColumnOption{Tp: ast.ColumnOptionDefaultValue, Expr: expr})
	}
	if c.Flag&event.FlagOnUpdateNow != 0 {
		expr, err := parseExpr(nowText(c))
		if err != nil {
			return nil, err
		}
		option(&ast.ColumnOption{Tp: ast.ColumnOptionOnUpdate, Expr: expr})
	}
	if c.Comment != "" {
		option(&ast.ColumnOption{Tp: ast.ColumnOptionComment, Expr: ast.NewValueExpr(c.Comment, "", "")})
	}
	return def, nil
}

func nowText(c *event.Column) string {
	if c.Fraction() > 0 {
		return "CURRENT_TIMESTAMP(" + string(rune('0'+c.Fraction())) + ")"
	}
	return "CURRENT_TIMESTAMP"
}

// defaultNode is a DEFAULT from the table info, where literals have no quotes.
func defaultNode(c *event.Column) (ast.ExprNode, error) {
	text := *c.Default
	word := strings.ToUpper(text)
	switch {
	case c.DefaultIsExpr:
		return parseExpr(text)
	case c.Type == event.TypeBit:
		return parseExpr(text)
	case strings.HasPrefix(word, "CURRENT_TIMESTAMP"):
		return parseExpr(nowText(c))
	case strings.HasPrefix(word, "CURRENT_DATE"):
		return parseExpr("CURRENT_DATE()")
	case c.IsBinary():
		return parseExpr(string(appendHex(nil, []byte(text))))
	}
	return ast.NewValueExpr(text, "", ""), nil
}

func fieldType(c *event.Column) *types.FieldType {
	ft := types.NewFieldType(byte(c.Type))
	ft.SetFlen(c.Flen)
	ft.SetDecimal(c.Decimal)
	var flag uint
	if c.Unsigned() && c.Type != event.TypeYear && c.Type != event.TypeBit { // both carry the flag, neither takes the word
		flag |= pmysql.UnsignedFlag
	}
	if c.Flag&event.FlagZerofill != 0 && c.Type != event.TypeYear {
		flag |= pmysql.ZerofillFlag
	}
	ft.SetFlag(flag)
	ft.SetElems(c.Elems)
	ft.SetCharset(c.Charset)
	ft.SetCollate(c.Collation)
	switch c.Type {
	case event.TypeTinyBlob, event.TypeBlob, event.TypeMediumBlob, event.TypeLongBlob, event.TypeJSON, event.TypeDate, event.TypeYear:
		ft.SetFlen(types.UnspecifiedLength) // the type says it
	case event.TypeDouble, event.TypeFloat:
		if c.Decimal < 0 {
			ft.SetFlen(types.UnspecifiedLength)
		}
	case event.TypeDatetime, event.TypeTimestamp, event.TypeDuration:
		if c.Decimal <= 0 {
			ft.SetDecimal(types.UnspecifiedLength)
		}
	}
	return ft
}
