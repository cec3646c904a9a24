package catalog

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	"github.com/pingcap/tidb/pkg/parser/test_driver"
	"github.com/pingcap/tidb/pkg/parser/types"
)

// hiddenPrefix begins the names of columns that hold an index's expressions.
const hiddenPrefix = "_V$"

// hiddenColumns makes a hidden virtual column of each expression among the
// keys of an index, and returns the keys with those columns in their place.
func (p *planner) hiddenColumns(t *TableInfo, index string, keys []*ast.IndexPartSpecification) ([]*ColumnInfo, []*ast.IndexPartSpecification, error) {
	var hidden []*ColumnInfo
	out := make([]*ast.IndexPartSpecification, len(keys))
	for n, k := range keys {
		out[n] = k
		if k.Expr == nil {
			continue
		}
		name := fmt.Sprintf("%s_%s_%d", hiddenPrefix, index, n)
		for name := range columnsOf(k.Expr) {
			if t.column(name) == nil {
				return nil, nil, refuse(errBadField, "Unknown column '%s' in 'expression'", name)
			}
		}
		text, err := restore(k.Expr, restoreExpr)
		if err != nil {
			return nil, nil, err
		}
		ft := p.typeOf(t, k.Expr)
		hidden = append(hidden, &ColumnInfo{
			Name: MakeName(name), GeneratedExpr: text, Dependences: columnsOf(k.Expr), Type: ft, Hidden: true, Version: columnVersion,
		})
		out[n] = &ast.IndexPartSpecification{
			Column: &ast.ColumnName{Name: ast.NewCIStr(name)}, Length: types.UnspecifiedLength, Desc: k.Desc,
		}
	}
	return hidden, out, nil
}

// typeOf is the type that an expression has. It knows columns, literals, casts,
// arithmetic and the usual functions of strings; all else is a string.
func (p *planner) typeOf(t *TableInfo, e ast.ExprNode) FieldType {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return p.typeOf(t, x.Expr)
	case *ast.ColumnNameExpr:
		if c := t.column(x.Name.Name.L); c != nil {
			out := c.Type.clone()
			out.Flag &= mysql.UnsignedFlag | mysql.BinaryFlag
			return out
		}
	case *ast.FuncCastExpr:
		return castType(x.Tp)
	case *test_driver.ValueExpr:
		return literalType(x)
	case *ast.UnaryOperationExpr:
		if x.Op == opcode.Not || x.Op == opcode.Not2 {
			return integerType(1)
		}
		return p.typeOf(t, x.V)
	case *ast.BinaryOperationExpr:
		return p.binaryType(t, x)
	case *ast.FuncCallExpr:
		return p.callType(t, x)
	}
	return stringType(p.collation(), types.UnspecifiedLength)
}

// collation is that of the session's literals.
func (p *planner) collation() collation {
	cs, err := p.c.resolve(collation{p.session.Charset, p.session.Collation}, collation{mysql.UTF8MB4Charset, mysql.UTF8MB4DefaultCollation})
	if err != nil {
		return collation{mysql.UTF8MB4Charset, mysql.UTF8MB4DefaultCollation}
	}
	return cs
}

func integerType(flen int) FieldType {
	return FieldType{Tp: mysql.TypeLonglong, Flag: mysql.BinaryFlag, Flen: flen, Charset: charset.CharsetBin, Collate: charset.CollationBin}
}

func numberType(tp uint8, flen, decimal int) FieldType {
	return FieldType{Tp: tp, Flag: mysql.BinaryFlag, Flen: flen, Decimal: decimal, Charset: charset.CharsetBin, Collate: charset.CollationBin}
}

func stringType(cs collation, flen int) FieldType {
	return FieldType{Tp: mysql.TypeVarString, Flen: flen, Charset: cs.charset, Collate: cs.collate}
}

func castType(tp *types.FieldType) FieldType {
	out := fromParser(tp)
	out.Array = tp.IsArray()
	if out.Array {
		out.Tp = tp.ArrayType().GetType()
		out.Charset, out.Collate = charset.CharsetBin, charset.CollationBin
	}
	return out
}

func literalType(x *test_driver.ValueExpr) FieldType {
	out := fromParser(&x.Type)
	if out.isInteger() {
		out.add(mysql.NotNullFlag)
	}
	return out
}

func (p *planner) binaryType(t *TableInfo, x *ast.BinaryOperationExpr) FieldType {
	l, r := p.typeOf(t, x.L), p.typeOf(t, x.R)
	switch x.Op {
	case opcode.Plus, opcode.Minus, opcode.Mul, opcode.Div:
	case opcode.IntDiv, opcode.Mod, opcode.And, opcode.Or, opcode.Xor, opcode.LeftShift, opcode.RightShift:
		return integerType(mysql.MaxIntWidth)
	default:
		return integerType(1)
	}
	real := func(t FieldType) bool {
		return t.Tp == mysql.TypeFloat || t.Tp == mysql.TypeDouble || t.hasCharset() || t.Tp == mysql.TypeJSON
	}
	switch {
	case real(l) || real(r):
		return numberType(mysql.TypeDouble, 23, types.UnspecifiedLength)
	case x.Op == opcode.Div, l.Tp == mysql.TypeNewDecimal, r.Tp == mysql.TypeNewDecimal:
		scale := max(l.Decimal, r.Decimal)
		if x.Op == opcode.Div {
			scale = l.Decimal + 4
		}
		return numberType(mysql.TypeNewDecimal, min(max(l.Flen, r.Flen)+scale, mysql.MaxDecimalWidth), scale)
	}
	out := integerType(20)
	out.Flag |= (l.Flag | r.Flag) & mysql.UnsignedFlag
	return out
}

func (p *planner) callType(t *TableInfo, x *ast.FuncCallExpr) FieldType {
	cs, flen := p.collation(), 0
	for _, a := range x.Args {
		at := p.typeOf(t, a)
		if at.isString() {
			cs = collation{at.Charset, at.Collate}
		}
		flen += at.Flen
	}
	switch x.FnName.L {
	case ast.Lower, ast.Upper, ast.Lcase, ast.Ucase, ast.Trim, ast.LTrim, ast.RTrim, ast.Reverse, ast.Concat, ast.Replace:
		return stringType(cs, flen)
	case ast.Left, ast.Right, ast.Substr, ast.Substring, ast.Mid:
		if len(x.Args) > 0 {
			return stringType(cs, p.typeOf(t, x.Args[0]).Flen)
		}
	case ast.MD5:
		return stringType(cs, 32)
	case ast.Length, ast.CharLength, ast.Year, ast.Month, ast.DayOfMonth, ast.Hour, ast.Minute, ast.Second, ast.CRC32:
		return integerType(10)
	case ast.Abs, ast.Floor, ast.Ceil, ast.Ceiling, ast.Round:
		if len(x.Args) > 0 {
			at := p.typeOf(t, x.Args[0])
			if at.isInteger() {
				return integerType(20)
			}
			return at
		}
	case ast.JSONExtract:
		return FieldType{Tp: mysql.TypeJSON, Flag: mysql.BinaryFlag, Flen: mysql.MaxBlobWidth, Charset: charset.CharsetBin, Collate: charset.CollationBin}
	}
	return stringType(cs, types.UnspecifiedLength)
}
