package mysql

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// claims are what a unit of work needs for itself: two units of which one
// claims what the other claims are written in upstream's order.
//
// Rows of one table meet downstream through its unique keys: a REPLACE takes out
// whatever row holds one of its keys, and a DELETE whatever row has its key. So a
// row claims every unique key that it had and every one that it gets, of all unique
// indexes that upstream has or the downstream. A claim is a hash, and it is never finer than what the downstream compares: a claim too many
// costs time, one too few loses rows.
type claims struct {
	keys []uint64 // of rows with that key
	// shared and sole are of a unique index as a whole. Of some values nobody here
	// can say which others the downstream calls equal to them; whoever has one
	// claims the index for itself, and all others share it.
	shared, sole []uint64
}

// A keyMap says how the rows of one table claim. It is made once a table.
type keyMap struct {
	table   *event.Table
	dialect Dialect
	// serial tables have keys that events do not carry, or none: their rows are
	// written one after the other.
	serial  bool
	indexes []keyIndex
}

type keyIndex struct {
	columns []int
	prefix  []int  // bytes of a column that count; −1 for all
	folding []bool // a column compares under a collation that calls different strings equal
	folds   bool   // one of them does
	place   uint64
}

// recordPlace stands where an index has its number, for the key of a record.
const recordPlace = math.MaxUint64 - 1

func newKeyMap(t *event.Table, d Dialect) *keyMap {
	m := &keyMap{table: t, dialect: d, serial: len(t.Key) == 0}
	for n := range t.Indexes {
		x := &t.Indexes[n]
		if !x.Unique {
			continue
		}
		k := keyIndex{place: uint64(n)} //nolint:gosec // an index number
		for _, p := range x.Parts {
			switch {
			case p.Column < 0 && !d.hasExpressionIndex():
				k.columns = nil // not made downstream
			case p.Column < 0, t.Columns[p.Column].Generated == event.Virtual:
				m.serial = true
			default:
				k.columns = append(k.columns, p.Column)
				k.prefix = append(k.prefix, p.Length)
				k.folding = append(k.folding, folds(&t.Columns[p.Column], d))
			}
		}
		if len(k.columns) == len(x.Parts) {
			k.folds = slices.Contains(k.folding, true)
			m.indexes = append(m.indexes, k)
		}
	}
	return m
}

// folds tells whether a column's collation downstream may call different
// strings equal, beside blanks at their ends.
func folds(c *event.Column, d Dialect) bool {
	if !c.IsString() || c.IsBinary() {
		return false
	}
	_, collation := d.collation(c.Charset, c.Collation)
	// latin1 is compared by its bytes, but what TiDB keeps in it may be two forms of the same.
	return !strings.HasSuffix(collation, "_bin") || c.Charset == "latin1"
}

// A claimer gathers the claims of units, with memory of its own.
type claimer struct {
	dialect Dialect
	seed    maphash.Seed
	maps    map[*event.Table]*keyMap
	found   foundTables
	buf     []byte
}

func newClaimer(d Dialect) *claimer {
	return &claimer{dialect: d, seed: maphash.MakeSeed(), maps: map[*event.Table]*keyMap{}, found: foundTables{}}
}

func (c *claimer) mapOf(t *event.Table) *keyMap {
	m := c.maps[t]
	if m == nil {
		if len(c.maps) >= textsMax {
			clear(c.maps)
		}
		m = newKeyMap(t, c.dialect)
		if f, ok := c.found[nameOf(t)]; ok && f.table == t {
			m.join(&f)
		}
		c.maps[t] = m
	}
	return m
}

// add adds what a row claims.
func (c *claimer) add(to *claims, row *event.Row) {
	m := c.mapOf(row.Table)
	if m.serial {
		c.buf = c.buf[:0]
		to.keys = append(to.keys, c.hash(m, math.MaxUint64))
		return
	}
	if m.table.Handle.Kind == event.RowIDHandle && (row.Before == nil || row.After == nil) {
		// makePlan puts what happens to one record together. Of one that is deleted and
		// comes again under the same hidden number nothing else need be the same.
		c.buf = append(c.buf[:0], row.Key...)
		to.keys = append(to.keys, c.hash(m, recordPlace))
	}
	for i := range m.indexes {
		k := &m.indexes[i]
		if row.Before != nil {
			c.addImage(to, m, k, row.Before)
		}
		if row.After != nil && (row.Before == nil || !sameCells(k.columns, row.Before, row.After)) {
			c.addImage(to, m, k, row.After)
		}
	}
}

// addImage adds the claim of one image on one index; with a NULL it has none.
func (c *claimer) addImage(to *claims, m *keyMap, k *keyIndex, row event.Image) {
	c.buf = c.buf[:0]
	plain := true
	for n, i := range k.columns {
		v := row[i]
		if v.IsNull() || v.IsMissing() {
			return
		}
		plain = c.appendCell(v, &m.table.Columns[i], k.prefix[n], k.folding[n]) && plain
		c.buf = append(c.buf, 0, byte(n))
	}
	if !plain {
		to.sole = append(to.sole, c.whole(m, k))
		return
	}
	to.keys = append(to.keys, c.hash(m, k.place))
	if k.folds {
		to.shared = append(to.shared, c.whole(m, k))
	}
}

// whole is the claim of an index as a whole.
func (c *claimer) whole(m *keyMap, k *keyIndex) uint64 {
	c.buf = c.buf[:0]
	return c.hash(m, k.place|1<<63)
}

// hash is of the buffer's cells, the table and a place in it.
func (c *claimer) hash(m *keyMap, place uint64) uint64 {
	c.buf = binary.BigEndian.AppendUint64(c.buf, place)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(m.table.ID)) //nolint:gosec // a pattern of bits
	return maphash.Bytes(c.seed, c.buf)
}

// appendCell appends the form in which a cell is compared. It is false for a
// string of which the equals are not known.
func (c *claimer) appendCell(v event.Value, col *event.Column, prefix int, folded bool) bool {
	switch v.Kind() {
	case event.Int:
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v.Int())) //nolint:gosec // a pattern of bits
	case event.Uint, event.Enum, event.Set, event.Bit:
		c.buf = binary.BigEndian.AppendUint64(c.buf, v.Uint())
	case event.Bytes:
		return c.appendString(v.Raw(), col, prefix, folded)
	case event.Duration:
		if c.dialect.Kind == Other && col.Fraction() > 0 {
			return false // cut or rounded there
		}
		c.buf = v.AppendText(c.buf, col)
	default:
		c.buf = v.AppendText(c.buf, col)
	}
	return true
}

// appendString appends a string so that those that the downstream calls equal
// have one form. Blanks at the end are left out, padding collation or not. Under
// a collation that folds, all that is known of is printable ASCII: letters are
// equal to their other case, and nothing else to anything; but for the tilde,
// which gbk_chinese_ci takes for a y.
func (c *claimer) appendString(raw []byte, col *event.Column, prefix int, folded bool) bool {
	if col.IsBinary() {
		raw = event.PadBinary(col, raw)
		c.buf = append(c.buf, cutBytes(raw, prefix)...)
		return true
	}
	if folded && slices.ContainsFunc(raw, func(b byte) bool { return b < ' ' || b > '}' }) {
		return false
	}
	raw = cutRunes(raw, prefix)
	for len(raw) > 0 && raw[len(raw)-1] == ' ' {
		raw = raw[:len(raw)-1]
	}
	if !folded {
		c.buf = append(c.buf, raw...)
		return true
	}
	for _, b := range raw {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		c.buf = append(c.buf, b)
	}
	return true
}

func cutBytes(raw []byte, n int) []byte {
	if n < 0 || len(raw) <= n {
		return raw
	}
	return raw[:n]
}

// cutRunes keeps the first n characters of a text.
func cutRunes(raw []byte, n int) []byte {
	if n < 0 || len(raw) <= n {
		return raw
	}
	seen := 0
	for i, b := range raw {
		if b&0xC0 != 0x80 {
			if seen == n {
				return raw[:i]
			}
			seen++
		}
	}
	return raw
}

// unique takes out claims that are there twice, and shares of what is claimed whole.
func (c *claims) unique() {
	tidy := func(list []uint64) []uint64 {
		slices.Sort(list)
		return slices.Compact(list)
	}
	c.keys, c.shared, c.sole = tidy(c.keys), tidy(c.shared), tidy(c.sole)
	if len(c.sole) > 0 {
		c.shared = slices.DeleteFunc(c.shared, func(h uint64) bool {
			_, whole := slices.BinarySearch(c.sole, h)
			return whole
		})
	}
}
