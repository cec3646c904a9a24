package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/event"
)

// A found index is a unique index that the downstream's table has. Mostly upstream
// has the same. Where it does not, because its DROP INDEX was left out by a filter or
// somebody added it by hand, rows meet by it downstream all the same.
type foundIndex struct {
	columns []foundColumn // in the index's order
}

type foundColumn struct {
	name string // empty: an expression
	// prefix is how much of it counts, in bytes or characters; event.FullLength: all.
	prefix int
	// collation is that of a text, empty for all others.
	collation string
}

// folds tells whether strings that differ by more than blanks at their ends may be
// equal.
func (c *foundColumn) folds() bool {
	return c.collation != "" && !strings.HasSuffix(c.collation, "_bin")
}

// A foundTable is what the downstream said about a table of that shape.
type foundTable struct {
	table   *event.Table
	at      time.Time
	unique  []foundIndex
	unknown bool // it did not answer: anything may be unique
}

// foundTables remembers a table's latest shape by name, so that there is one question
// for each shape.
type foundTables map[[2]string]foundTable

const (
	// foundMax bounds what is remembered, at about 200 bytes a table.
	foundMax = 1 << 17
	// foundAge is after how long the downstream is asked again: somebody may have
	// added an index by hand. It costs a table that is written to a question every
	// five minutes.
	foundAge = 5 * time.Minute
)

func nameOf(t *event.Table) [2]string {
	return [2]string{strings.ToLower(t.Schema), strings.ToLower(t.Name)}
}

// know learns which unique indexes the downstream has for tables of which no row
// is under way in this burst, so that their rows are ordered by these as well.
//
// One worker writes all rows in upstream's order: nothing is asked. It is all that
// some databases can bear, which do not keep a question apart from what is written.
func (s *Sink) know(ctx context.Context, tables []*event.Table) error {
	if len(s.lanes) == 1 {
		return nil
	}
	for _, t := range tables {
		if f, ok := s.claimer.found[nameOf(t)]; ok && f.table == t && time.Since(f.at) < foundAge {
			continue
		}
		f := foundTable{table: t}
		err := s.again(ctx, "asking for the unique indexes of a table", func(ctx context.Context) (err error) {
			f.unique, err = s.findUnique(ctx, t)
			return err
		})
		if err != nil && isServerError(err) && !isGone(err) && !isContention(err) {
			s.log.Warn("the downstream does not say which unique indexes a table has: its rows are written one after the other", "table", t.FullName(), "error", err)
			f.unknown, err = true, nil
		}
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return coded(err, "asking for the unique indexes of %s", t.FullName())
		}
		f.at = time.Now()
		s.claimer.learn(f)
	}
	return nil
}

// findUnique asks for the unique indexes of a table and the collations of its
// columns, in one question. It is a union, since MariaDB makes a join of these two views
// by looking at all tables there are: 100 ms instead of 0.7 where there are a thousand.
func (s *Sink) findUnique(ctx context.Context, t *event.Table) (out []foundIndex, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	conn, err := s.session.fresh(ctx)
	if err != nil {
		return nil, err
	}
	of := "TABLE_SCHEMA = " + quoted(t.Schema) + " AND TABLE_NAME = " + quoted(t.Name)
	rows, err := conn.QueryContext(ctx, "SELECT INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, NULL FROM information_schema.STATISTICS WHERE "+of+" AND NON_UNIQUE = 0 "+
		"UNION ALL SELECT '', 0, COLUMN_NAME, NULL, COLLATION_NAME FROM information_schema.COLUMNS WHERE "+of+" AND COLLATION_NAME IS NOT NULL ORDER BY 1, 2")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	collations := map[string]string{}
	for rows.Next() {
		var index string
		var n int // from 1; 0 is a column's collation
		var column, collation sql.NullString
		var prefix sql.NullInt64
		if err := rows.Scan(&index, &n, &column, &prefix, &collation); err != nil {
			return nil, err
		}
		if n == 0 {
			collations[column.String] = collation.String
			continue
		}
		if n == 1 {
			out = append(out, foundIndex{})
		}
		c := foundColumn{name: column.String, prefix: event.FullLength, collation: collations[column.String]}
		if prefix.Valid {
			c.prefix = int(prefix.Int64)
		}
		x := &out[len(out)-1]
		x.columns = append(x.columns, c)
	}
	s.session.used = time.Now()
	return out, rows.Err()
}

// learn takes in what was found, in place of what was known.
func (c *claimer) learn(f foundTable) {
	if len(c.found) >= foundMax {
		clear(c.found)
	}
	c.found[nameOf(f.table)] = f
	delete(c.maps, f.table)
}

// forget has the downstream asked anew for the tables of a DDL.
func (c *claimer) forget(d *event.DDL) {
	if len(d.Tables) == 0 {
		clear(c.found)
		return
	}
	for _, t := range d.Tables {
		for _, t := range []*event.Table{t.Before, t.After} {
			if t != nil {
				delete(c.found, nameOf(t))
			}
		}
	}
}

// foundPlace is where the numbers of indexes begin that only the downstream has.
const foundPlace = 1 << 32

// join adds the downstream's unique indexes to those of upstream. What an index says
// that events do not carry makes the table serial.
func (m *keyMap) join(f *foundTable) {
	if f.unknown {
		m.serial = true
	}
	for n := range f.unique {
		k := keyIndex{place: foundPlace + uint64(n)} //nolint:gosec // an index number
		for i := range f.unique[n].columns {
			c := &f.unique[n].columns[i]
			at := slices.IndexFunc(m.table.Columns, func(have event.Column) bool { return sameName(have.Name, c.name) })
			if c.name == "" || at < 0 || m.table.Columns[at].Generated == event.Virtual {
				m.serial = true // by what it computes, or gives by itself
				return
			}
			col := &m.table.Columns[at]
			if c.collation != "" && (!col.IsString() || col.IsBinary()) {
				m.serial = true // another type there, by another equality
				return
			}
			k.columns, k.prefix = append(k.columns, at), append(k.prefix, c.prefix)
			k.folding = append(k.folding, c.folds() || folds(col, m.dialect))
		}
		k.folds = slices.Contains(k.folding, true)
		m.merge(k)
	}
}

// merge adds an index, or finds that one of the same columns is there; of two that
// differ in what they call equal the coarser counts.
func (m *keyMap) merge(k keyIndex) {
	for i := range m.indexes {
		if have := &m.indexes[i]; slices.Equal(have.columns, k.columns) && slices.Equal(have.prefix, k.prefix) {
			for n := range k.folding {
				have.folding[n] = have.folding[n] || k.folding[n]
			}
			have.folds = slices.Contains(have.folding, true)
			return
		}
	}
	m.indexes = append(m.indexes, k)
}
