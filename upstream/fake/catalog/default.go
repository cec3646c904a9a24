package catalog

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	"github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/sluice-cdc/sluice/event"
)

// constant is a literal of SQL.
type constant struct {
	null    bool
	text    string // as TiDB prints it, or its bytes
	number  bool
	integer bool
	bytes   bool // a hexadecimal or a bit literal
}

// literal evaluates an expression that is one literal, with signs before it.
func literal(e ast.ExprNode) (constant, error) {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return literal(x.Expr)
	case *ast.UnaryOperationExpr:
		v, err := literal(x.V)
		if err != nil || x.Op == opcode.Plus {
			return v, err
		}
		if x.Op == opcode.Minus && v.number {
			if rest, ok := strings.CutPrefix(v.text, "-"); ok {
				v.text = rest
			} else if strings.Trim(v.text, "0.") != "" {
				v.text = "-" + v.text
			}
			return v, nil
		}
	case *test_driver.ValueExpr:
		return constantOf(x)
	}
	return constant{}, refuse(errUnsupported, "no literal: %T", e)
}

func constantOf(x *test_driver.ValueExpr) (constant, error) {
	switch x.Kind() {
	case test_driver.KindNull:
		return constant{null: true}, nil
	case test_driver.KindInt64:
		return constant{text: strconv.FormatInt(x.GetInt64(), 10), number: true, integer: true}, nil
	case test_driver.KindUint64:
		return constant{text: strconv.FormatUint(x.GetUint64(), 10), number: true, integer: true}, nil
	case test_driver.KindFloat32, test_driver.KindFloat64:
		return constant{text: strconv.FormatFloat(x.GetFloat64(), 'f', -1, 64), number: true}, nil
	case test_driver.KindMysqlDecimal:
		return constant{text: x.GetMysqlDecimal().String(), number: true}, nil
	case test_driver.KindString, test_driver.KindBytes:
		return constant{text: x.GetString()}, nil
	case test_driver.KindBinaryLiteral:
		return constant{text: string(x.GetBytes()), bytes: true}, nil
	}
	return constant{}, refuse(errUnsupported, "a literal of kind %d", x.Kind())
}

// defaultFunctions are the functions that may stand in a DEFAULT; it is their
// text that is kept, and evaluated for each row.
var defaultFunctions = []string{
	"rand", "uuid", "uuid_to_bin", "uuid_v4", "uuid_v7", "date_format", "replace", "upper", "str_to_date",
	"json_object", "json_array", "json_quote", "vec_from_text", "nextval",
}

// setDefault gives the column the DEFAULT of its definition.
func (b *columnBuilder) setDefault(e ast.ExprNode) error {
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			break
		}
		e = p.Expr
	}
	if f, ok := e.(*ast.FuncCallExpr); ok {
		return b.setFunctionDefault(f)
	}
	v, err := literal(e)
	if err != nil {
		return err
	}
	if v.null {
		b.col.Default, b.col.DefaultBit = nil, nil
		return nil
	}
	if t := &b.col.Type; t.isBlob() || t.Tp == mysql.TypeJSON {
		if b.strict() || v.text != "" {
			return refuse(1101, "BLOB/TEXT/JSON column '%s' can't have a default value", b.col.Name.O)
		}
		b.hasDefault = false // an empty one is kept, and is none
	}
	text, err := b.fit(&b.col.Type, v)
	if err != nil {
		return refuse(errBadDefault, "Invalid default value for '%s'", b.col.Name.O)
	}
	b.col.putDefault(text)
	return nil
}

// putDefault keeps the text of a default, and of a BIT its bytes.
func (c *ColumnInfo) putDefault(text string) {
	c.Default, c.DefaultBit = text, nil
	if c.Type.Tp == mysql.TypeBit {
		c.DefaultBit = []byte(text)
	}
}

func (b *columnBuilder) setFunctionDefault(f *ast.FuncCallExpr) error {
	c, name := b.col, f.FnName.L
	switch name {
	case ast.CurrentTimestamp, ast.CurrentDate:
		if !c.Type.isTime() || name == ast.CurrentTimestamp && c.Type.Tp == mysql.TypeDate {
			return refuse(errBadDefault, "Invalid default value for '%s'", c.Name.O)
		}
		if fsp := fraction(f); name == ast.CurrentTimestamp && fsp != c.Type.Decimal {
			return refuse(errBadDefault, "Invalid default value for '%s'", c.Name.O)
		}
		c.Default = strings.ToUpper(name)
		return nil
	}
	if !slices.Contains(defaultFunctions, name) {
		return refuse(3770, "Default value expression of column '%s' contains a disallowed function: `%s`", c.Name.O, name)
	}
	b.qualifySequence(f)
	flags := restoreExpr &^ (format.RestoreWithoutSchemaName | format.RestoreWithoutTableName)
	text, err := restore(f, flags)
	if err != nil {
		return err
	}
	c.Default, c.DefaultIsExpr = text, true
	return nil
}

// qualifySequence writes the database before the sequence of a NEXTVAL.
func (b *columnBuilder) qualifySequence(f *ast.FuncCallExpr) {
	for _, a := range f.Args {
		if t, ok := a.(*ast.TableNameExpr); ok && t.Name.Schema.L == "" {
			t.Name.Schema = ast.NewCIStr(b.db)
		}
	}
}

// fraction is the number of digits that a CURRENT_TIMESTAMP(n) asks for.
func fraction(f *ast.FuncCallExpr) int {
	if len(f.Args) == 0 {
		return 0
	}
	v, err := literal(f.Args[0])
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(v.text)
	if err != nil {
		return -1
	}
	return n
}

// fit is the text under which TiDB keeps a literal as the default of a type.
func (p *planner) fit(t *FieldType, v constant) (string, error) {
	switch {
	case t.isTime():
		return p.fitTime(t, v)
	case t.Tp == mysql.TypeDuration:
		return fitDuration(v.text, t.Decimal)
	case t.Tp == mysql.TypeEnum:
		return fitEnum(t, v)
	case t.Tp == mysql.TypeSet:
		return fitSet(t, v)
	case t.Tp == mysql.TypeBit:
		return fitBit(v)
	case v.bytes && t.isInteger():
		return strconv.FormatUint(bigEndian(v.text), 10), nil
	case t.Tp == mysql.TypeString && t.Charset == "binary" && len(v.text) < t.Flen:
		return v.text + strings.Repeat("\x00", t.Flen-len(v.text)), nil
	}
	if p.strict() && !t.holds(v.text) {
		return "", refuse(errBadDefault, "'%s' does not fit", v.text)
	}
	return v.text, nil
}

// holds tells whether a number's or a string's type has room for a value that
// is given as text. Types of any other kind have room for all.
func (t *FieldType) holds(text string) bool {
	c := &event.Column{Type: event.Type(t.Tp), Flen: t.Flen, Decimal: t.Decimal}
	if t.has(mysql.UnsignedFlag) {
		c.Flag |= event.FlagUnsigned
	}
	var err error
	switch {
	case t.isInteger() || t.Tp == mysql.TypeNewDecimal || t.Tp == mysql.TypeFloat || t.Tp == mysql.TypeDouble || t.Tp == mysql.TypeYear:
		_, err = fitNumber(c, nil, c, text)
	case t.isString():
		n := utf8.RuneCountInString(text)
		if t.Charset == charset.CharsetBin {
			n = len(text)
		}
		return t.Flen < 0 || n <= t.Flen
	}
	return err == nil
}

func fitBit(v constant) (string, error) {
	if !v.integer {
		return v.text, nil
	}
	n, err := strconv.ParseUint(v.text, 10, 64)
	if err != nil {
		return "", err
	}
	bytes := binary.BigEndian.AppendUint64(nil, n)
	return string(bytes[min(7, bits.LeadingZeros64(n)/8):]), nil
}

func bigEndian(s string) uint64 {
	var n uint64
	for _, b := range []byte(s) {
		n = n<<8 | uint64(b)
	}
	return n
}

func fitEnum(t *FieldType, v constant) (string, error) {
	if v.integer {
		n, err := strconv.Atoi(v.text)
		if err != nil || n < 1 || n > len(t.Elems) {
			return "", refuse(errBadDefault, "no member %s", v.text)
		}
		return t.Elems[n-1], nil
	}
	if i := t.member(v.text); i >= 0 {
		return t.Elems[i], nil
	}
	return "", refuse(errBadDefault, "no member '%s'", v.text)
}

func fitSet(t *FieldType, v constant) (string, error) {
	var mask uint64
	switch {
	case v.integer:
		n, err := strconv.ParseUint(v.text, 10, 64)
		if err != nil {
			return "", err
		}
		mask = n
	case v.text != "":
		for name := range strings.SplitSeq(v.text, ",") {
			i := t.member(name)
			if i < 0 {
				return "", refuse(errBadDefault, "no member '%s'", name)
			}
			mask |= 1 << i
		}
	}
	var names []string
	for i, e := range t.Elems {
		if mask&(1<<i) != 0 {
			names = append(names, e)
			mask &^= 1 << i
		}
	}
	if mask != 0 {
		return "", refuse(errBadDefault, "no such members")
	}
	return strings.Join(names, ","), nil
}

// member is the index of an ENUM's or SET's member, -1 where there is none.
func (t *FieldType) member(name string) int {
	name = strings.TrimRight(name, " ")
	i := slices.Index(t.Elems, name)
	if i < 0 && !strings.HasSuffix(t.Collate, "bin") {
		i = slices.IndexFunc(t.Elems, func(e string) bool { return strings.EqualFold(e, name) })
	}
	return i
}
