package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/event"
)

// execOdd runs a statement on one row that a strict session would refuse for
// that many cells, and looks whether these are all that it took otherwise: what
// else does not fit is not cut either.
func (s *session) execOdd(ctx context.Context, wait time.Duration, text string, cells int) (err error) {
	defer func() {
		if err != nil {
			s.lose() // its mode is not known
		}
	}()
	if err := s.exec(ctx, wait, "SET SESSION sql_mode = '"+modeOn(s.dialect, false)+"'"); err != nil {
		return err
	}
	if err := s.exec(ctx, wait, text); err != nil {
		return err
	}
	if err := s.onlyTruncated(ctx, wait, cells); err != nil {
		return err
	}
	return s.exec(ctx, wait, "SET SESSION sql_mode = '"+modeOn(s.dialect, s.strict)+"'")
}

// misfit is a warning of a session that is not strict. It stands for the error
// that a strict one would have given.
type misfit struct{ text string }

func (m misfit) Error() string { return m.text }

// onlyTruncated reads what the last statement was warned of: 1265 for so many
// cells, and nothing else.
func (s *session) onlyTruncated(ctx context.Context, wait time.Duration, cells int) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	rows, err := s.conn.QueryContext(ctx, "SHOW WARNINGS")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var level, message string
		var code uint16
		if err := rows.Scan(&level, &code, &message); err != nil {
			return err
		}
		if level == "Note" {
			continue
		}
		if cells--; code != errTruncated || cells < 0 {
			return misfit{fmt.Sprintf("Warning %d: %s", code, message)}
		}
	}
	return rows.Err()
}

// explain finds the row for which a transaction was refused: it is written again
// row by row, and taken back. The server says which column it is and why, but of
// the row only its place in a statement.
func (s *Sink) explain(ctx context.Context, on *session, changes []change, cause error) error {
	conn, err := on.use(ctx)
	if err != nil {
		return cause
	}
	run := func(text string) error { return on.exec(ctx, s.cfg.ReadTimeout, text) }
	w := s.writer(on, func(text []byte) error { return run(string(text)) })
	w.rows, w.updates = 1, 1
	w.odd = func(text string, cells int) error { return on.execOdd(ctx, s.cfg.ReadTimeout, text, cells) }
	if err := run("BEGIN"); err != nil {
		on.abandon(conn, err)
		return cause
	}
	err = w.plan(makePlan(changes, &s.texts, on.dialect, false))
	on.abandon(conn, err)
	if err == nil || faultOf(err) != misshapen || w.of == nil {
		return cause // it is another now
	}
	return fmt.Errorf("%s: %w", w.place(err.Error()), err)
}

// place says which row was printed last, and which of its cells a message is about.
func (w *writer) place(message string) string {
	t := w.of.table
	at := -1
	for i := range t.Columns {
		name := t.Columns[i].Name
		if !strings.Contains(message, "'"+name+"'") && !strings.Contains(message, "`"+name+"`") {
			continue
		}
		if at < 0 || len(name) > len(t.Columns[at].Name) {
			at = i
		}
	}
	var row []string
	for _, i := range t.Key {
		row = append(row, t.Columns[i].Name+" "+shown(w.row[i], &t.Columns[i]))
	}
	out := t.FullName()
	if len(row) > 0 {
		out += ", row of " + strings.Join(row, ", ")
	}
	if at >= 0 && !w.row[at].IsMissing() {
		out += ", column " + t.Columns[at].Name + ", value " + shown(w.row[at], &t.Columns[at])
	}
	return out
}

// shownMax is how many bytes of a value an error shows.
const shownMax = 64

// shown is a cell as an error shows it.
func shown(v event.Value, c *event.Column) string {
	switch {
	case v.IsNull():
		return "NULL"
	case v.IsMissing():
		return "(none)"
	}
	text := v.Text(c)
	if len(text) <= shownMax {
		return fmt.Sprintf("%q", text)
	}
	cut := shownMax
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%q and %d bytes more", text[:cut], len(text)-cut)
}
