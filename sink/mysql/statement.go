package mysql

import (
	"slices"
	"sync"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// tableText is what statements on a table have in common.
type tableText struct {
	table   *event.Table
	name    string // qualified
	written []int  // columns that a statement sets: all but generated ones
	matched []int  // columns that find a row: the key, or all that a statement can compare
	unique  []int  // columns of any unique index
	put     string // REPLACE INTO … VALUES
	insert  string // INSERT INTO … VALUES
	drop    string // DELETE FROM … WHERE
	keyed   bool
	// demoted are the columns of unique indexes that are ordinary downstream.
	demoted [][]int
	// enums are the written columns of ENUM type.
	enums []int
	// mixes says that cells of one column may be written in two charsets, of which a
	// CASE would make one.
	mixes bool
}

// tableTexts remembers the texts of the tables that were written to. Tables are
// never changed, so the pointer is the version.
type tableTexts struct {
	mu      sync.Mutex
	byTable map[*event.Table]*tableText // guarded by mu
}

// textsMax bounds what is remembered. A schema of more tables is made anew now
// and then, at a few microseconds a table.
const textsMax = 4096

func (t *tableTexts) of(table *event.Table, d Dialect) *tableText {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text, ok := t.byTable[table]; ok {
		return text
	}
	if t.byTable == nil || len(t.byTable) >= textsMax {
		t.byTable = make(map[*event.Table]*tableText)
	}
	text := newTableText(table, d)
	t.byTable[table] = text
	return text
}

func newTableText(t *event.Table, d Dialect) *tableText {
	out := &tableText{table: t, name: qualified(t.Schema, t.Name), keyed: len(t.Key) > 0}
	for i := range t.Columns {
		if t.Columns[i].Generated == event.NotGenerated {
			out.written = append(out.written, i)
			if t.Columns[i].ValueKind() == event.Enum {
				out.enums = append(out.enums, i)
			}
			out.mixes = out.mixes || t.Columns[i].Charset == "latin1"
		}
	}
	out.matched = t.Key
	if !out.keyed {
		for i := range t.Columns {
			// A generated column says nothing that the others do not say.
			if t.Columns[i].Generated == event.NotGenerated {
				out.matched = append(out.matched, i)
			}
		}
	}
	for _, x := range t.Indexes {
		if !x.Unique {
			continue
		}
		if columns := wholeColumns(&x); !staysUnique(&x, d) && x.Condition == "" && columns != nil {
			out.demoted = append(out.demoted, columns)
		}
		for _, p := range x.Parts {
			if p.Column >= 0 && t.Columns[p.Column].Generated != event.Virtual && !slices.Contains(out.unique, p.Column) {
				out.unique = append(out.unique, p.Column)
			}
		}
	}
	put := append([]byte(" INTO "), out.name...)
	put = append(put, " ("...)
	for n, i := range out.written {
		if n > 0 {
			put = append(put, ',')
		}
		put = appendIdent(put, t.Columns[i].Name)
	}
	put = append(put, ") VALUES "...)
	out.put, out.insert = "REPLACE"+string(put), "INSERT"+string(put)
	out.drop = "DELETE FROM " + out.name + " WHERE "
	return out
}

// wholeColumns are the columns of an index, nil if one is hidden or a prefix.
func wholeColumns(x *event.Index) []int {
	columns := make([]int, len(x.Parts))
	for n, p := range x.Parts {
		if p.Column < 0 || p.Length != event.FullLength {
			return nil
		}
		columns[n] = p.Column
	}
	return columns
}

// A writer cuts a plan into statements and hands them on one by one.
type writer struct {
	dialect Dialect
	target  int                     // bytes at which a statement of many rows is cut
	rows    int                     // rows at which it is cut
	updates int                     // rows that an UPDATE of rows with a key changes at most
	average int                     // their bytes, on average, at most
	max     int                     // bytes that the server takes
	run     func(text []byte) error // which does not keep it
	// odd runs a statement on one row that has that many cells which a strict
	// session refuses, although upstream has them.
	odd func(text string, cells int) error

	buf []byte
	row event.Image // the last that was printed: the only one of its statement where rows is 1
	of  *tableText  // its table
}

// invalid counts the cells of a row that are the invalid member of an ENUM: TiDB
// keeps such a value, and in a strict session no other server takes it.
func (t *tableText) invalid(row event.Image) (n int) {
	for _, i := range t.enums {
		if row[i].Kind() == event.Enum && row[i].Uint() == 0 {
			n++
		}
	}
	return n
}

// batchRows bounds the rows of one statement: parsers' memory grows with each.
const batchRows = 2048

// plan runs the statements of a plan.
func (w *writer) plan(p plan) error {
	for _, t := range p {
		var err error
		if t.text.keyed {
			err = w.drop(t.text, t.text.matched, t.deletes)
		} else {
			err = w.singles(t.text, t.deletes)
		}
		if err != nil {
			return err
		}
		for n, rows := range t.guards {
			if err := w.drop(t.text, t.text.demoted[n], rows); err != nil {
				return err
			}
		}
	}
	for _, t := range p {
		for _, u := range t.updates {
			if err := w.update(t.text, u); err != nil {
				return err
			}
		}
		if err := w.changes(t.text, t.changed); err != nil {
			return err
		}
	}
	for _, t := range p {
		if err := w.puts(t.text, t.text.put, t.puts); err != nil {
			return err
		}
		if err := w.puts(t.text, t.text.insert, t.inserts); err != nil {
			return err
		}
	}
	return nil
}

// puts writes whole rows, those with an invalid ENUM one by one.
func (w *writer) puts(t *tableText, head string, rows []event.Image) error {
	odd := func(row event.Image) bool { return t.invalid(row) > 0 }
	if !slices.ContainsFunc(rows, odd) {
		return w.batches(t, head, "", rows, w.appendRow)
	}
	plain := slices.DeleteFunc(slices.Clone(rows), odd)
	if err := w.batches(t, head, "", plain, w.appendRow); err != nil {
		return err
	}
	for _, row := range rows {
		n := t.invalid(row)
		if n == 0 {
			continue
		}
		w.row, w.of = row, t
		text, err := w.appendRow(append(w.buf[:0], head...), t, row)
		if err != nil {
			return err
		}
		if err := w.sendOdd(t, text, n); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes rows by their cells in some columns: WHERE (`a`,`b`) IN ((1,2),…).
func (w *writer) drop(t *tableText, columns []int, rows []event.Image) error {
	head := appendIn([]byte(t.drop), t, columns)
	return w.batches(t, string(head), ")", rows, func(dst []byte, t *tableText, row event.Image) ([]byte, error) {
		return w.appendTuple(dst, t, columns, row)
	})
}

// appendIn begins a condition on some columns: (`a`,`b`) IN (
func appendIn(dst []byte, t *tableText, columns []int) []byte {
	if len(columns) > 1 {
		dst = append(dst, '(')
	}
	for n, i := range columns {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = appendIdent(dst, t.table.Columns[i].Name)
	}
	if len(columns) > 1 {
		dst = append(dst, ')')
	}
	return append(dst, " IN ("...)
}

// appendTuple appends one of its members.
func (w *writer) appendTuple(dst []byte, t *tableText, columns []int, row event.Image) ([]byte, error) {
	if len(columns) == 1 {
		return w.appendCells(dst, t, columns, row)
	}
	dst, err := w.appendCells(append(dst, '('), t, columns, row)
	return append(dst, ')'), err
}

// batches runs head, rows with commas between, tail, as often as the limits ask.
func (w *writer) batches(t *tableText, head, tail string, rows []event.Image, appendOne func([]byte, *tableText, event.Image) ([]byte, error)) error {
	w.buf = w.buf[:0]
	inBatch := 0
	flush := func(text []byte) error {
		inBatch = 0
		return w.send(t, append(text, tail...))
	}
	for _, row := range rows {
		if w.rows == 1 {
			w.row, w.of = row, t
		}
		start := len(w.buf)
		if inBatch == 0 {
			w.buf = append(w.buf[:0], head...)
		} else {
			w.buf = append(w.buf, ',')
		}
		var err error
		if w.buf, err = appendOne(w.buf, t, row); err != nil {
			return err
		}
		limit := min(w.target, w.max)
		if inBatch > 0 && len(w.buf)+len(tail) > limit {
			// One too many: what was there before it goes out, it begins the next.
			row := slices.Clone(w.buf[start+1:])
			if err := flush(w.buf[:start]); err != nil {
				return err
			}
			w.buf = append(append(w.buf[:0], head...), row...)
		}
		inBatch++
		if inBatch >= w.rows || len(w.buf) >= limit {
			if err := flush(w.buf); err != nil {
				return err
			}
		}
	}
	if inBatch == 0 {
		return nil
	}
	return flush(w.buf)
}

func (w *writer) appendRow(dst []byte, t *tableText, row event.Image) ([]byte, error) {
	dst, err := w.appendCells(append(dst, '('), t, t.written, row)
	return append(dst, ')'), err
}

func (w *writer) appendCells(dst []byte, t *tableText, columns []int, row event.Image) ([]byte, error) {
	var err error
	for n, i := range columns {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendLiteral(dst, row[i], t.table, &t.table.Columns[i], w.dialect); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// singles deletes rows of a table without a key, one statement each: among
// equal rows it takes one.
func (w *writer) singles(t *tableText, rows []event.Image) error {
	for _, row := range rows {
		w.row, w.of = row, t
		text, err := w.appendAll(append(w.buf[:0], t.drop...), t, row)
		if err != nil {
			return err
		}
		if err := w.send(t, append(text, " LIMIT 1"...)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) update(t *tableText, u pair) error {
	w.row, w.of = u.after, t
	text := append(w.buf[:0], "UPDATE "...)
	text = append(append(text, t.name...), " SET "...)
	var err error
	for n, i := range t.written {
		if n > 0 {
			text = append(text, ',')
		}
		c := &t.table.Columns[i]
		text = append(appendIdent(text, c.Name), '=')
		if text, err = appendLiteral(text, u.after[i], t.table, c, w.dialect); err != nil {
			return err
		}
	}
	if text, err = w.appendAll(append(text, " WHERE "...), t, u.before); err != nil {
		return err
	}
	return w.sendOdd(t, append(text, " LIMIT 1"...), t.invalid(u.after))
}

func (w *writer) appendAll(dst []byte, t *tableText, row event.Image) ([]byte, error) {
	var err error
	for n, i := range t.matched {
		if n > 0 {
			dst = append(dst, " AND "...)
		}
		if dst, err = appendMatch(dst, row[i], t.table, &t.table.Columns[i], w.dialect); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (w *writer) send(t *tableText, text []byte) error { return w.sendOdd(t, text, 0) }

// sendOdd sends a statement with that many cells that a strict session refuses.
func (w *writer) sendOdd(t *tableText, text []byte, cells int) error {
	w.buf = text
	if len(text) > w.max {
		return cdcerr.MySQLPacket.New("%s: a row needs a statement of %d bytes, the downstream takes %d: max_allowed_packet is too small", t.table.FullName(), len(text), w.max)
	}
	if cells > 0 {
		return w.odd(string(text), cells)
	}
	return w.run(text)
}
