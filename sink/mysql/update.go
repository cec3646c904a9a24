package mysql

import (
	"slices"

	"github.com/sluice-cdc/sluice/event"
)

// changes updates rows that keep their keys, several at a time if they are small.
func (w *writer) changes(t *tableText, rows []pair) error {
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < w.updates && t.invalid(rows[n].after) == 0 {
			more := size + imageBytes(rows[n].after)
			if n > 0 && (more > w.average*(n+1) || more > w.target/2) {
				break
			}
			n, size = n+1, more
		}
		if n > 1 && t.mixes {
			n = 1
		}
		if err := w.change(t, rows[:max(n, 1)]); err != nil {
			return err
		}
		rows = rows[max(n, 1):]
	}
	return nil
}

func imageBytes(row event.Image) (n int) {
	for i := range row {
		n += 8 + len(row[i].Raw())
	}
	return n
}

// change updates some rows by their key. Of several each column is a CASE over the
// key, which is not set: MySQL sets columns one after the other, and looks at the
// new value of those that it has set.
func (w *writer) change(t *tableText, rows []pair) error {
	w.row, w.of = rows[0].after, t
	text := append(w.buf[:0], "UPDATE "...)
	text = append(append(text, t.name...), " SET "...)
	var err error
	set := 0
	for _, i := range t.written {
		if slices.Contains(t.matched, i) {
			continue
		}
		if set++; set > 1 {
			text = append(text, ',')
		}
		text = append(appendIdent(text, t.table.Columns[i].Name), '=')
		if text, err = w.appendNew(text, t, i, rows); err != nil {
			return err
		}
	}
	if set == 0 {
		return nil // there is nothing but the key, and that stays
	}
	text = appendIn(append(text, " WHERE "...), t, t.matched)
	for n, r := range rows {
		if n > 0 {
			text = append(text, ',')
		}
		if text, err = w.appendTuple(text, t, t.matched, r.after); err != nil {
			return err
		}
	}
	text = append(text, ')')
	if half := len(rows) / 2; half > 0 && len(text) > w.max {
		w.buf = text
		if err := w.change(t, rows[:half]); err != nil {
			return err
		}
		return w.change(t, rows[half:])
	}
	return w.sendOdd(t, text, t.invalid(rows[0].after))
}

// appendNew appends what a column becomes in some rows.
func (w *writer) appendNew(dst []byte, t *tableText, column int, rows []pair) ([]byte, error) {
	c := &t.table.Columns[column]
	if len(rows) == 1 {
		return appendLiteral(dst, rows[0].after[column], t.table, c, w.dialect)
	}
	var err error
	dst = append(dst, "CASE"...)
	for _, r := range rows {
		dst = append(dst, " WHEN "...)
		for n, k := range t.matched {
			if n > 0 {
				dst = append(dst, " AND "...)
			}
			dst = append(appendIdent(dst, t.table.Columns[k].Name), '=')
			if dst, err = appendLiteral(dst, r.after[k], t.table, &t.table.Columns[k], w.dialect); err != nil {
				return dst, err
			}
		}
		dst = append(dst, " THEN "...)
		if dst, err = appendLiteral(dst, r.after[column], t.table, c, w.dialect); err != nil {
			return dst, err
		}
	}
	return append(dst, " END"...), nil
}
