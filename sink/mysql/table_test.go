package mysql

import (
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmysql "github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/sluice-cdc/sluice/event"
)

// tableOf is what the schema would hold of a table created like that: enough
// for the sink, with column ids by position.
func tableOf(t testing.TB, schema, create string) *event.Table {
	t.Helper()
	nodes, err := parseText(create, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := nodes[0].(*ast.CreateTableStmt)
	out := &event.Table{ID: int64(hashOf(n.Table.Name.O) >> 2), Schema: schema, Name: n.Table.Name.O, Charset: "utf8mb4", Collation: "utf8mb4_bin"}
	for _, o := range n.Options {
		switch o.Tp {
		case ast.TableOptionCollate:
			out.Collation = strings.ToLower(o.StrValue)
			out.Charset, _, _ = strings.Cut(out.Collation, "_")
		case ast.TableOptionComment:
			out.Comment = o.StrValue
		}
	}
	for i, def := range n.Cols {
		out.Columns = append(out.Columns, columnOf(t, out, def, int64(i+1)))
		for _, o := range def.Options {
			if o.Tp == ast.ColumnOptionPrimaryKey || o.Tp == ast.ColumnOptionUniqKey {
				addIndex(out, event.Index{Name: def.Name.Name.O, Unique: true, Primary: o.Tp == ast.ColumnOptionPrimaryKey, Global: o.StrValue != "",
					Parts: []event.IndexPart{{Column: i, Length: event.FullLength}}})
			}
		}
	}
	for _, c := range n.Constraints {
		x := event.Index{Name: c.Name, Primary: c.Tp == ast.ConstraintPrimaryKey}
		switch c.Tp {
		case ast.ConstraintPrimaryKey, ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
			x.Unique = true
		case ast.ConstraintKey, ast.ConstraintIndex:
		default:
			continue
		}
		x.Global = c.Option != nil && c.Option.Global
		x.Invisible = c.Option != nil && c.Option.Visibility == ast.IndexVisibilityInvisible
		for _, k := range c.Keys {
			p := event.IndexPart{Column: -1, Length: k.Length}
			if k.Column != nil {
				p.Column = out.Column(k.Column.Name.O)
			} else if p.Expr, err = restore(k.Expr); err != nil {
				t.Fatal(err)
			}
			if p.Length == types.UnspecifiedLength {
				p.Length = event.FullLength
			}
			x.Parts = append(x.Parts, p)
		}
		if x.Name == "" && x.Parts[0].Column >= 0 {
			x.Name = out.Columns[x.Parts[0].Column].Name
		}
		addIndex(out, x)
	}
	out.Key = keyOf(out)
	if n.Partition != nil {
		partitionsOfNode(t, out, n.Partition)
	}
	return out
}

func addIndex(t *event.Table, x event.Index) {
	x.ID = int64(len(t.Indexes) + 1)
	if x.Primary {
		x.Name = "PRIMARY"
		for _, p := range x.Parts {
			t.Columns[p.Column].Flag |= event.FlagPriKey | event.FlagNotNull
		}
	}
	t.Indexes = append(t.Indexes, x)
}

// keyOf is the choice of the schema: the primary key, else a unique index over
// NOT NULL columns that events carry.
func keyOf(t *event.Table) []int {
	var best []int
	for _, x := range t.Indexes {
		var columns []int
		ok := x.Unique
		for _, p := range x.Parts {
			ok = ok && p.Column >= 0 && t.Columns[p.Column].NotNull() && t.Columns[p.Column].Generated != event.Virtual
			columns = append(columns, p.Column)
		}
		if ok && (x.Primary || best == nil || len(columns) < len(best)) {
			best = columns
		}
		if ok && x.Primary {
			return columns
		}
	}
	return best
}

func columnOf(t testing.TB, table *event.Table, def *ast.ColumnDef, id int64) event.Column {
	t.Helper()
	c := event.Column{ID: id, Name: def.Name.Name.O, Type: event.Type(def.Tp.GetType()), Flen: def.Tp.GetFlen(), Decimal: def.Tp.GetDecimal(),
		Charset: def.Tp.GetCharset(), Collation: def.Tp.GetCollate(), Elems: def.Tp.GetElems()}
	if flen, decimal := pmysql.GetDefaultFieldLengthAndDecimal(def.Tp.GetType()); c.Flen < 0 && decimal >= 0 {
		c.Flen = flen
		if c.Decimal < 0 && c.Type == event.TypeNewDecimal {
			c.Decimal = decimal
		}
	}
	if c.Type == event.TypeBit && c.Flen < 1 {
		c.Flen = 1
	}
	c.Flag = event.Flag(def.Tp.GetFlag()) & (event.FlagUnsigned | event.FlagZerofill)
	for _, o := range def.Options {
		columnOptionOf(t, &c, o)
	}
	isText := c.IsString() || c.Type == event.TypeEnum || c.Type == event.TypeSet
	switch {
	case !isText:
		c.Charset, c.Collation = "binary", "binary"
	case c.Charset == "" && c.Collation == "":
		c.Collation = table.Collation
	}
	if c.Charset == "" {
		c.Charset, _, _ = strings.Cut(c.Collation, "_")
	}
	if c.Collation == "" {
		c.Collation = map[string]string{"gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci", "binary": "binary"}[c.Charset]
		if c.Collation == "" {
			c.Collation = c.Charset + "_bin"
		}
	}
	if c.Generated != event.Virtual && c.Absent.IsMissing() {
		c.Absent = event.NullValue()
		if c.NotNull() {
			c.Absent = c.Zero()
		}
	}
	return c
}

func columnOptionOf(t testing.TB, c *event.Column, o *ast.ColumnOption) {
	t.Helper()
	var err error
	switch o.Tp {
	case ast.ColumnOptionNotNull:
		c.Flag |= event.FlagNotNull
	case ast.ColumnOptionPrimaryKey:
		c.Flag |= event.FlagNotNull | event.FlagPriKey
	case ast.ColumnOptionCollate:
		c.Collation = o.StrValue
	case ast.ColumnOptionAutoIncrement:
		c.Flag |= event.FlagAutoIncrement
	case ast.ColumnOptionOnUpdate:
		c.Flag |= event.FlagOnUpdateNow
	case ast.ColumnOptionGenerated:
		c.Generated = event.Virtual
		if o.Stored {
			c.Generated = event.Stored
		}
		if c.GenExpr, err = restore(o.Expr); err != nil {
			t.Fatal(err)
		}
	case ast.ColumnOptionComment:
		c.Comment = o.Expr.(ast.ValueExpr).GetString()
	case ast.ColumnOptionDefaultValue:
		if v, ok := o.Expr.(ast.ValueExpr); ok && v.GetValue() == nil {
			return
		}
		text, err := restore(o.Expr)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := o.Expr.(ast.ValueExpr); ok && c.Type != event.TypeBit && strings.HasPrefix(text, "'") {
			text = v.GetString()
		} else if _, ok := o.Expr.(*ast.FuncCallExpr); ok {
			text = strings.ToLower(text)
			c.DefaultIsExpr = !strings.HasPrefix(text, "current_timestamp")
		}
		c.Default = &text
	}
}

func partitionsOfNode(t testing.TB, table *event.Table, p *ast.PartitionOptions) {
	t.Helper()
	text := func(e ast.ExprNode) string {
		s, err := restore(e)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	by := &event.PartitionBy{Kind: event.PartitionKind(p.Tp)}
	if p.Expr != nil {
		by.Expr = text(p.Expr)
	}
	for _, c := range p.ColumnNames {
		by.Columns = append(by.Columns, c.Name.O)
	}
	table.PartitionBy = by
	for _, def := range p.Definitions {
		// A comment stands for "made anew": it changes the id.
		comment, _ := def.Comment()
		part := event.Partition{ID: int64(hashOf(table.Name+def.Name.O+comment) >> 2), Name: def.Name.O}
		switch clause := def.Clause.(type) {
		case *ast.PartitionDefinitionClauseLessThan:
			for _, e := range clause.Exprs {
				part.LessThan = append(part.LessThan, text(e))
			}
		case *ast.PartitionDefinitionClauseIn:
			for _, tuple := range clause.Values {
				var values []string
				for _, e := range tuple {
					values = append(values, text(e))
				}
				part.InValues = append(part.InValues, values)
			}
		}
		table.Partitions = append(table.Partitions, part)
	}
	for i := range int(p.Num) {
		if len(p.Definitions) == 0 {
			table.Partitions = append(table.Partitions, event.Partition{ID: table.ID + int64(i) + 1, Name: "p" + string(rune('0'+i))})
		}
	}
}

// image is a row of texts; a cell "NULL" is NULL, a virtual column has none.
func image(t testing.TB, table *event.Table, cells ...string) event.Image {
	t.Helper()
	if len(cells) != len(table.Columns) {
		t.Fatalf("%d cells for %d columns", len(cells), len(table.Columns))
	}
	out := make(event.Image, len(cells))
	for i, text := range cells {
		c := &table.Columns[i]
		switch {
		case c.Generated == event.Virtual:
		case text == "NULL":
			out[i] = event.NullValue()
		default:
			v, err := event.ParseText(c, text)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			out[i] = v
		}
	}
	return out
}
