package mysql

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// appendLiteral appends a cell as an SQL literal that stores exactly that cell
// in the column, whatever the downstream's types make of text:
//
//   - ENUM and SET as numbers: a quoted number would be looked up among the
//     members' names first, and 0 (the invalid ”) has no name of its own.
//   - YEAR as a number: '0' is the year 2000.
//   - BIT as a number, DECIMAL as digits, both without a detour over a DOUBLE.
//   - FLOAT as the DOUBLE that it is exactly, in exponent form: 0.1 would be a
//     DECIMAL, which no FLOAT equals.
//   - Strings of charset binary with an introducer, so that no byte is converted.
func appendLiteral(dst []byte, v event.Value, t *event.Table, c *event.Column, d Dialect) ([]byte, error) {
	switch v.Kind() {
	case event.Null:
		return append(dst, "NULL"...), nil
	case event.Int:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case event.Uint, event.Enum, event.Set, event.Bit:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case event.Float:
		return appendFloat(dst, v.Float()), nil
	case event.Decimal:
		return v.AppendText(dst, c), nil
	case event.Bytes:
		return appendString(dst, v.Raw(), t, c, d)
	case event.Time, event.Duration:
		dst = append(dst, '\'')
		return append(v.AppendText(dst, c), '\''), nil
	case event.JSON, event.Vector:
		return appendQuoted(dst, v.AppendText(nil, c)), nil
	}
	return dst, cdcerr.Bug("%s, column %s: no event carries its value, and one is to be written", t.FullName(), c.Name)
}

// appendFloat writes the shortest digits that read back as f. Infinities and
// NaN, which TiDB does not store, would be no SQL.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64)
}

// appendString writes a string of any charset. The connection speaks UTF-8, so
// text is converted by the server; bytes that must not be are introduced.
func appendString(dst, raw []byte, t *event.Table, c *event.Column, d Dialect) ([]byte, error) {
	if c.IsBinary() {
		return appendQuoted(append(dst, "_binary"...), event.PadBinary(c, raw)), nil
	}
	valid := utf8.Valid(raw)
	switch {
	case valid && d.Kind != TiDB && !fits(raw, c.Charset):
		return dst, cdcerr.MySQLTxn.New("%s, column %s: the value has a character that charset %s has in TiDB and not downstream, where it would become a question mark", t.FullName(), c.Name, c.Charset)
	case valid && (c.Charset != "latin1" || d.Kind == TiDB || inLatin1(raw)):
		return appendQuoted(dst, raw), nil
	case c.Charset == "latin1" && d.Kind == TiDB:
		return appendHex(dst, raw), nil
	case c.Charset == "latin1":
		// TiDB keeps in a latin1 column whatever it was sent. What is no text of
		// latin1 keeps its bytes, rather than become question marks.
		return appendHex(append(dst, "_latin1 "...), raw), nil
	}
	return dst, cdcerr.MySQLTxn.New("%s, column %s: the value is no UTF-8, which charset %s cannot hold downstream", t.FullName(), c.Name, c.Charset)
}

// fits tells whether MySQL's charset of that name has every character that
// TiDB let into a column of it. latin1, of which TiDB says nothing, has its own way.
func fits(text []byte, charset string) bool {
	switch charset {
	case "ascii":
		return !slices.ContainsFunc(text, func(b byte) bool { return b >= utf8.RuneSelf })
	case "utf8", "utf8mb3":
		return !slices.ContainsFunc(text, func(b byte) bool { return b >= 0xF0 }) // the first of four bytes
	case "gbk":
		return !bytes.ContainsAny(text, notInGBK)
	}
	return true
}

// notInGBK are the characters of code page 936 that MySQL's gbk does not have.
const notInGBK = "ǹ€⺁⺄⺈⺋⺌⺗⺧⺪⺮⺳⺶⺷⺻⻊⿰⿱⿲⿳⿴⿵⿶⿷⿸⿹⿺⿻〾㑇㑳㖞㘎㘚㤘㥮㧏㧐㧟㩳㭎㱮㳠䁖䅟䌷䎬䎱䏝䓖䙌䙡䜣䜩䝼䞍䥇䥺䥽䦂䦃䦅䦆䦛䦟䦶䦷䱷䲟䲠䲡䲢䲣䴓䴔䴕䴖䴗䴘䴙䶮"

func appendHex(dst, raw []byte) []byte {
	dst = append(dst, "x'"...)
	dst = hex.AppendEncode(dst, raw)
	return append(dst, '\'')
}

// escapes has the letter after the backslash for each byte that needs one in a
// quoted string, 0 for all others. The session's SQL mode has no NO_BACKSLASH_ESCAPES.
var escapes = [256]byte{0: '0', '\n': 'n', '\r': 'r', 0x1a: 'Z', '\'': '\'', '\\': '\\'}

// appendQuoted writes raw between quotes. It is safe byte by byte: in UTF-8 no
// part of a longer character looks like a quote or a backslash.
func appendQuoted(dst, raw []byte) []byte {
	dst = append(dst, '\'')
	plain := 0
	for i, b := range raw {
		if e := escapes[b]; e != 0 {
			dst = append(dst, raw[plain:i]...)
			dst = append(dst, '\\', e)
			plain = i + 1
		}
	}
	dst = append(dst, raw[plain:]...)
	return append(dst, '\'')
}

// inLatin1 tells whether MySQL's latin1 has every character of a text. It is
// Windows' code page 1252, with control characters where that has holes.
func inLatin1(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return runesInLatin1(string(text))
		}
	}
	return true
}

func runesInLatin1(text string) bool {
	for _, r := range text {
		switch {
		case r < 0x80, 0xA0 <= r && r <= 0xFF:
		case r == 0x81, r == 0x8D, r == 0x8F, r == 0x90, r == 0x9D:
		default:
			if !isCP1252(r) {
				return false
			}
		}
	}
	return true
}

// isCP1252 tells whether a character stands at 0x80 to 0x9F of code page 1252.
func isCP1252(r rune) bool {
	switch r {
	case '€', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 'Ž',
		'‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 'ž', 'Ÿ':
		return true
	}
	return false
}

// appendIdent writes a name between backticks.
func appendIdent(dst []byte, name string) []byte {
	dst = append(dst, '`')
	for i := range len(name) {
		if name[i] == '`' {
			dst = append(dst, '`')
		}
		dst = append(dst, name[i])
	}
	return append(dst, '`')
}

func ident(name string) string { return string(appendIdent(nil, name)) }

// qualified is schema.name.
func qualified(schema, name string) string {
	return string(appendIdent(append(appendIdent(nil, schema), '.'), name))
}

func quoted(text string) string { return string(appendQuoted(nil, []byte(text))) }

// appendMatch appends a condition that holds for rows with exactly that cell
// and for no others: NULL included, and strings byte by byte where the column's
// collation would call others equal.
func appendMatch(dst []byte, v event.Value, t *event.Table, c *event.Column, d Dialect) ([]byte, error) {
	name := func() { dst = appendIdent(dst, c.Name) }
	switch {
	case v.Kind() == event.Bytes && !c.IsBinary():
		return appendStringMatch(dst, v.Raw(), t, c, d)
	case v.Kind() == event.JSON && (d.Kind == TiDB || d.Kind == MySQL):
		// A string is no JSON document to them.
		name()
		dst = append(dst, "<=>CAST("...)
		dst = appendQuoted(dst, v.AppendText(nil, c))
		return append(dst, " AS JSON)"...), nil
	case v.Kind() == event.Vector && d.hasVector():
		dst = append(dst, "VEC_AS_TEXT("...)
		name()
		dst = append(dst, ")<=>"...)
	default:
		name()
		dst = append(dst, "<=>"...)
	}
	return appendLiteral(dst, v, t, c, d)
}

func appendStringMatch(dst, raw []byte, t *event.Table, c *event.Column, d Dialect) ([]byte, error) {
	asText := utf8.Valid(raw) && (c.Charset != "latin1" || d.Kind == TiDB || inLatin1(raw))
	if !asText && c.Charset != "latin1" {
		return appendString(dst, raw, t, c, d) // the error
	}
	dst = append(dst, "CAST("...)
	if asText && d.Kind != TiDB {
		dst = append(dst, "CONVERT("...)
		dst = appendIdent(dst, c.Name)
		dst = append(dst, " USING utf8mb4)"...)
	} else {
		dst = appendIdent(dst, c.Name)
	}
	dst = append(dst, " AS BINARY)<=>_binary"...)
	return appendQuoted(dst, raw), nil
}
