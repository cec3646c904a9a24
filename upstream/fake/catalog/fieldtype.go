package catalog

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"
)

// FlagPreventNull is set on a column that is about to become NOT NULL: writers
// refuse NULL already, readers still expect it.
const flagPreventNull = 1 << 20

// collation is a character set and one of its collations.
type collation struct {
	charset, collate string
}

func (t *FieldType) has(flag uint) bool { return t.Flag&flag != 0 }
func (t *FieldType) add(flag uint)      { t.Flag |= flag }
func (t *FieldType) del(flag uint)      { t.Flag &^= flag }

func (t FieldType) clone() FieldType {
	t.Elems = slices.Clone(t.Elems)
	t.ElemsIsBinaryLit = slices.Clone(t.ElemsIsBinaryLit)
	return t
}

// isString tells whether the type is one of character or binary strings, of
// which ENUM and SET are none.
func (t *FieldType) isString() bool {
	switch t.Tp {
	case mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeString,
		mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob:
		return true
	}
	return false
}

// isBlob tells whether the type is one of BLOB and TEXT.
func (t *FieldType) isBlob() bool {
	return t.Tp == mysql.TypeTinyBlob || t.Tp == mysql.TypeBlob || t.Tp == mysql.TypeMediumBlob || t.Tp == mysql.TypeLongBlob
}

func (t *FieldType) isInteger() bool { return mysql.IsIntegerType(t.Tp) }

// isTime tells whether the type is one of dates, or of dates with a time.
func (t *FieldType) isTime() bool {
	return t.Tp == mysql.TypeDate || t.Tp == mysql.TypeDatetime || t.Tp == mysql.TypeTimestamp
}

// hasCharset tells whether values of the type are of a character set.
func (t *FieldType) hasCharset() bool {
	return t.isString() || t.Tp == mysql.TypeEnum || t.Tp == mysql.TypeSet
}

// fromParser copies what the parser read of a type.
func fromParser(tp *types.FieldType) FieldType {
	out := FieldType{
		Tp: tp.GetType(), Flag: tp.GetFlag(), Flen: tp.GetFlen(), Decimal: tp.GetDecimal(),
		Charset: tp.GetCharset(), Collate: tp.GetCollate(), Elems: slices.Clone(tp.GetElems()),
	}
	return out
}

// fieldType is the type of a column of that definition in a table of that
// character set, with all that TiDB fills in.
func (p *planner) fieldType(def *ast.ColumnDef, table collation) (FieldType, error) {
	t := fromParser(def.Tp)
	in := collation{def.Tp.GetCharset(), def.Tp.GetCollate()}
	for _, o := range def.Options {
		if o.Tp == ast.ColumnOptionCollate {
			in.collate = o.StrValue
		}
	}
	if !t.hasCharset() {
		t.Charset, t.Collate = charset.CharsetBin, charset.CollationBin
	} else {
		cs, err := p.c.resolve(in, table)
		if err != nil {
			return t, err
		}
		t.Charset, t.Collate = cs.charset, cs.collate
	}
	flen, decimal := mysql.GetDefaultFieldLengthAndDecimal(t.Tp)
	if t.Decimal == types.UnspecifiedLength {
		t.Decimal = decimal
	}
	switch {
	case t.Flen != types.UnspecifiedLength:
		t.fitBlob()
	default:
		t.Flen = flen
		// An unsigned integer has no sign to print; BIGINT has a digit more instead.
		if t.has(mysql.UnsignedFlag) && t.isInteger() && t.Tp != mysql.TypeLonglong {
			t.Flen--
		}
	}
	return t, p.checkLength(def.Name.Name.O, &t)
}

// fitBlob makes a BLOB or TEXT of a length the smallest kind that holds it.
func (t *FieldType) fitBlob() {
	if t.Tp != mysql.TypeBlob {
		return
	}
	for _, kind := range []uint8{mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob} {
		size, _ := mysql.GetDefaultFieldLengthAndDecimal(kind)
		if t.Flen*bytesPerChar(t.Charset) <= size || kind == mysql.TypeLongBlob {
			t.Tp, t.Flen = kind, size
			return
		}
	}
}

// checkLength refuses strings that are longer than a row may be; outside strict
// mode a VARCHAR becomes a TEXT that holds it.
func (p *planner) checkLength(name string, t *FieldType) error {
	const charMax, varcharMax = 255, 65535
	switch t.Tp {
	case mysql.TypeString:
		if t.Flen > charMax {
			return refuse(1074, "Column length too big for column '%s' (max = %d); use BLOB or TEXT instead", name, charMax)
		}
	case mysql.TypeVarchar, mysql.TypeVarString:
		limit := varcharMax / bytesPerChar(t.Charset)
		if t.Flen <= limit {
			return nil
		}
		if p.strict() {
			return refuse(1074, "Column length too big for column '%s' (max = %d); use BLOB or TEXT instead", name, limit)
		}
		t.Tp = mysql.TypeBlob
		t.fitBlob()
	}
	return nil
}

func bytesPerChar(cs string) int {
	info, err := charset.GetCharsetInfo(cs)
	if err != nil {
		return 1
	}
	return info.Maxlen
}

// resolve finds the character set and collation of something that names one,
// the other, both or neither inside of something that has both.
func (c *Catalog) resolve(own, outer collation) (collation, error) {
	switch {
	case own.collate != "":
		co, err := charset.GetCollationByName(own.collate)
		if err != nil {
			return collation{}, refuse(errUnknownCollate, "Unknown collation: '%s'", own.collate)
		}
		if own.charset != "" && !sameCharset(own.charset, co.CharsetName) {
			return collation{}, refuse(1253, "COLLATION '%s' is not valid for CHARACTER SET '%s'", own.collate, own.charset)
		}
		return collation{co.CharsetName, co.Name}, nil
	case own.charset != "":
		info, err := charset.GetCharsetInfo(own.charset)
		if err != nil {
			return collation{}, refuse(errUnknownCharset, "Unknown character set: '%s'", own.charset)
		}
		return collation{info.Name, c.defaultCollation(info)}, nil
	}
	return outer, nil
}

// defaultCollation is the one that a character set alone stands for: where new
// collations are on, GBK and GB18030 compare as MySQL does.
func (c *Catalog) defaultCollation(info *charset.Charset) string {
	if !c.OldCollations {
		switch info.Name {
		case charset.CharsetGBK:
			return charset.CollationGBKChineseCI
		case charset.CharsetGB18030:
			return charset.CollationGB18030ChineseCI
		}
	}
	return info.DefaultCollation
}

func sameCharset(a, b string) bool {
	alias := func(s string) string {
		if s = strings.ToLower(s); s == charset.CharsetUTF8MB3 {
			return charset.CharsetUTF8
		}
		return s
	}
	return alias(a) == alias(b)
}
