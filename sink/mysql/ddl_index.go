package mysql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/sluice-cdc/sluice/event"
)

// staysUnique tells whether a unique index is one downstream as well. Where
// tables are not partitioned, a global index is like any other.
func staysUnique(x *event.Index, d Dialect) bool {
	return d.Kind == TiDB || x.Condition == "" && (!x.Global || d.Kind == Other)
}

// carried tells whether an index is made downstream at all.
func (d Dialect) carried(x *event.Index) bool {
	return !slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool { return p.Column < 0 }) || d.hasExpressionIndex()
}

// hasInvisible tells whether INVISIBLE is the downstream's own word.
func (d Dialect) hasInvisible() bool {
	return d.Kind == TiDB || d.Kind == MySQL && d.atLeast(8, 0, 0)
}

func (d Dialect) hasExpressionIndex() bool {
	return d.Kind == TiDB || d.Kind == MySQL && d.atLeast(8, 0, 17)
}

// constraint rewrites an index, key or constraint in place, and says whether
// it stays. columns are the definitions of the same statement, for the NOT NULL
// of a primary key that can be none.
func (r *rewriter) constraint(c *ast.Constraint, columns []*ast.ColumnDef) (keep bool, err error) {
	switch c.Tp {
	case ast.ConstraintCheck:
		if !r.native() {
			r.note(FeatureCheck, c.Name)
		}
		return r.native(), nil
	case ast.ConstraintForeignKey:
		if c.Refer != nil && c.Refer.Table != nil && c.Refer.Table.Schema.O == "" {
			c.Refer.Table.Schema = ast.NewCIStr(r.after.Schema)
		}
		return true, nil
	case ast.ConstraintFulltext, ast.ConstraintVector, ast.ConstraintColumnar:
		keep := r.native() && (c.Tp != ast.ConstraintVector || r.dialect.hasVector())
		if !keep {
			r.note(FeatureSpecialIndex, c.Name)
		}
		return keep, nil
	}
	r.nameIndex(c)
	if r.native() {
		return true, nil
	}
	if slices.ContainsFunc(c.Keys, func(k *ast.IndexPartSpecification) bool { return k.Expr != nil }) && !r.dialect.hasExpressionIndex() {
		r.note(FeatureExpression, c.Name)
		return false, nil
	}
	r.primaryOnGenerated(c)
	if c.Option != nil {
		r.indexOption(c, columns)
	}
	return true, nil
}

// nameIndex gives an index without a name the one that upstream gave it, so
// that later statements find it.
func (r *rewriter) nameIndex(c *ast.Constraint) {
	if c.Name != "" || c.Tp == ast.ConstraintPrimaryKey {
		return
	}
	for i := range r.after.Indexes {
		x := &r.after.Indexes[i]
		if x.Primary || len(x.Parts) != len(c.Keys) || r.before != nil && indexNamed(r.before, x.Name) != nil {
			continue
		}
		same := true
		for n, k := range c.Keys {
			at := x.Parts[n].Column
			same = same && k.Column != nil && at >= 0 && sameName(r.after.Columns[at].Name, k.Column.Name.O)
		}
		if same {
			c.Name = x.Name
			return
		}
	}
}

func indexNamed(t *event.Table, name string) *event.Index {
	for i := range t.Indexes {
		if sameName(t.Indexes[i].Name, name) {
			return &t.Indexes[i]
		}
	}
	return nil
}

// primaryOnGenerated makes a primary key that MariaDB refuses a unique key.
func (r *rewriter) primaryOnGenerated(c *ast.Constraint) {
	if c.Tp != ast.ConstraintPrimaryKey || r.dialect.Kind != MariaDB {
		return
	}
	for _, k := range c.Keys {
		if k.Column == nil {
			continue
		}
		if i := r.after.Column(k.Column.Name.O); i >= 0 && r.after.Columns[i].Generated != event.NotGenerated {
			c.Tp, c.Name = ast.ConstraintUniq, generatedKeyName
			r.note(FeatureGeneratedPK, k.Column.Name.O)
			return
		}
	}
}

// generatedKeyName is the name of a unique key that stands for a primary key;
// PRIMARY is no name that an index may be given.
const generatedKeyName = "primary_key"

// indexOption rewrites what follows an index's columns.
func (r *rewriter) indexOption(c *ast.Constraint, columns []*ast.ColumnDef) {
	o := c.Option
	if o.PrimaryKeyTp != ast.PrimaryKeyTypeDefault {
		o.PrimaryKeyTp = ast.PrimaryKeyTypeDefault
		r.note(FeatureHints, "CLUSTERED, NONCLUSTERED")
	}
	if o.SplitOpt != nil {
		o.SplitOpt = nil
		r.note(FeatureHints, "PRE_SPLIT_REGIONS")
	}
	if o.KeyBlockSize != 0 || o.SecondaryEngineAttr != "" || o.ParserName.O != "" || o.Tp != ast.IndexTypeInvalid {
		o.KeyBlockSize, o.SecondaryEngineAttr, o.ParserName, o.Tp = 0, "", ast.CIStr{}, ast.IndexTypeInvalid
		r.note(FeatureEngine, "index option")
	}
	o.AddColumnarReplicaOnDemand = 0
	feature := ""
	if o.Global && r.dialect.Kind != Other {
		feature = FeatureGlobal
	}
	if o.Condition != nil {
		feature = FeaturePartialIndex
	}
	o.Global = false
	if feature != "" {
		o.Condition = nil
		r.makeOrdinary(c, columns)
		r.note(feature, c.Name)
	}
	r.visibility(c)
}

// makeOrdinary takes the uniqueness off an index.
func (r *rewriter) makeOrdinary(c *ast.Constraint, columns []*ast.ColumnDef) {
	if c.Tp == ast.ConstraintPrimaryKey {
		c.Name = generatedKeyName
		for _, def := range columns {
			isKey := slices.ContainsFunc(c.Keys, func(k *ast.IndexPartSpecification) bool {
				return k.Column != nil && sameName(k.Column.Name.O, def.Name.Name.O)
			})
			said := slices.ContainsFunc(def.Options, func(o *ast.ColumnOption) bool { return o.Tp == ast.ColumnOptionNotNull })
			if isKey && !said {
				def.Options = append(def.Options, &ast.ColumnOption{Tp: ast.ColumnOptionNotNull})
			}
		}
	}
	c.Tp = ast.ConstraintIndex
}

// visibility turns INVISIBLE into the dialect's word, in a statement that
// follows: as an index option the parser can only print TiDB's.
func (r *rewriter) visibility(c *ast.Constraint) {
	if c.Option.Visibility == ast.IndexVisibilityDefault || r.dialect.hasInvisible() {
		return
	}
	hidden := c.Option.Visibility == ast.IndexVisibilityInvisible
	c.Option.Visibility = ast.IndexVisibilityDefault
	if hidden {
		r.note(FeatureInvisible, c.Name)
		if text := r.visibilityText(c.Name, hidden); text != "" {
			r.later = append(r.later, text)
		}
	}
}

// visibilityText is the statement that hides or shows an index, empty where
// the downstream has none.
func (r *rewriter) visibilityText(index string, hidden bool) string {
	if r.dialect.Kind != MariaDB || !r.dialect.atLeast(10, 6, 0) {
		return ""
	}
	word := "IGNORED"
	if !hidden {
		word = "NOT IGNORED"
	}
	return "ALTER TABLE " + qualified(r.after.Schema, r.after.Name) + " ALTER INDEX " + ident(index) + " " + word
}

// dropIndexText and addIndexText are clauses on an index as the downstream has
// it: unique, or ordinary where it cannot be.
func dropIndexText(x *event.Index, unique bool) string {
	switch {
	case x.Primary && unique:
		return "DROP PRIMARY KEY"
	case x.Primary:
		return "DROP INDEX " + ident(generatedKeyName)
	}
	return "DROP INDEX " + ident(x.Name)
}

func addIndexText(t *event.Table, x *event.Index, unique bool) string {
	columns := make([]string, len(x.Parts))
	for n, p := range x.Parts {
		columns[n] = ident(t.Columns[p.Column].Name)
		if p.Length != event.FullLength {
			columns[n] += "(" + strconv.Itoa(p.Length) + ")"
		}
	}
	list := " (" + strings.Join(columns, ",") + ")"
	switch {
	case x.Primary && unique:
		return "ADD PRIMARY KEY" + list
	case x.Primary:
		return "ADD INDEX " + ident(generatedKeyName) + list
	case x.Unique && unique:
		return "ADD UNIQUE INDEX " + ident(x.Name) + list
	}
	return "ADD INDEX " + ident(x.Name) + list
}

// followGlobal changes indexes that turn global, or cease to be, when a table
// is partitioned anew: what is global upstream is ordinary downstream.
func (r *rewriter) followGlobal() {
	if r.native() || r.before == nil {
		return
	}
	table := "ALTER TABLE " + qualified(r.before.Schema, r.before.Name) + " "
	for i := range r.before.Indexes {
		x := &r.before.Indexes[i]
		now := indexNamed(r.after, x.Name)
		if now == nil || !x.Unique || !r.dialect.carried(x) || staysUnique(x, r.dialect) == staysUnique(now, r.dialect) {
			continue
		}
		text := table + dropIndexText(x, staysUnique(x, r.dialect)) + ", " + addIndexText(r.after, now, staysUnique(now, r.dialect))
		r.note(FeatureGlobal, x.Name)
		if staysUnique(now, r.dialect) {
			r.later = append(r.later, text)
		} else {
			r.script.add(text) // before the table is partitioned
		}
	}
}

// indexNode is an index made of the table's info.
func indexNode(t *event.Table, x *event.Index) (*ast.Constraint, error) {
	c := &ast.Constraint{Tp: ast.ConstraintIndex, Name: x.Name, Option: &ast.IndexOption{Comment: x.Comment, Global: x.Global}}
	switch {
	case x.Primary:
		c.Tp, c.Name = ast.ConstraintPrimaryKey, ""
		c.Option.PrimaryKeyTp = ast.PrimaryKeyTypeNonClustered
		if t.Handle.Kind != event.RowIDHandle {
			c.Option.PrimaryKeyTp = ast.PrimaryKeyTypeClustered
		}
	case x.Unique:
		c.Tp = ast.ConstraintUniq
	}
	if x.Invisible {
		c.Option.Visibility = ast.IndexVisibilityInvisible
	}
	if x.Condition != "" {
		expr, err := parseExpr(x.Condition)
		if err != nil {
			return nil, err
		}
		c.Option.Condition = expr
	}
	for _, p := range x.Parts {
		k := &ast.IndexPartSpecification{Length: types.UnspecifiedLength}
		if p.Length != event.FullLength {
			k.Length = p.Length
		}
		if p.Column >= 0 {
			k.Column = &ast.ColumnName{Name: ast.NewCIStr(t.Columns[p.Column].Name)}
		} else {
			expr, err := parseExpr(p.Expr)
			if err != nil {
				return nil, err
			}
			k.Expr = expr
		}
		c.Keys = append(c.Keys, k)
	}
	return c, nil
}
