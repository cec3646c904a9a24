package mysql

import (
	"slices"

	"github.com/sluice-cdc/sluice/event"
)

// A change is what a downstream transaction does to one row.
type change struct {
	table  *event.Table
	before event.Image // before the first upstream transaction of the group
	after  event.Image // after the last
	// between are images that the row had in the meantime. A run that was
	// interrupted may have left one of them downstream.
	between []event.Image
}

// merge sums upstream transactions up to one change a row, in order of first
// appearance. Within one upstream transaction a row has one change anyway.
func merge(units []*unit) []change {
	rows := 0
	for _, u := range units {
		rows += len(u.txn.Rows)
	}
	changes := make([]change, 0, rows)
	if len(units) == 1 {
		for _, r := range units[0].txn.Rows {
			changes = append(changes, change{table: r.Table, before: r.Before, after: r.After})
		}
		return changes
	}
	at := make(map[string]int, rows)
	for _, u := range units {
		for _, r := range u.txn.Rows {
			k, seen := at[string(r.Key)]
			if !seen {
				at[string(r.Key)] = len(changes)
				changes = append(changes, change{table: r.Table, before: r.Before, after: r.After})
				continue
			}
			c := &changes[k]
			if c.after != nil {
				c.between = append(c.between, c.after)
			}
			c.after = r.After
		}
	}
	return changes
}

// group is how many of the units, from the first on, become one downstream
// transaction: at least one, never a part of one, and no more than one shape of
// any table.
func (c *Config) group(units []*unit) int {
	rows, size := 0, int64(0)
	shape := map[int64]*event.Table{}
	for i, u := range units {
		for _, r := range u.txn.Rows {
			if known, ok := shape[r.Table.ID]; ok && known != r.Table && i > 0 {
				return i
			}
			shape[r.Table.ID] = r.Table
		}
		rows += len(u.txn.Rows)
		size += u.bytes
		if i > 0 && (rows > c.MaxTxnRows || size > c.MaxTxnBytes) {
			return i
		}
	}
	return len(units)
}

// A tablePlan is what is done to one table, in this order.
type tablePlan struct {
	text    *tableText
	deletes []event.Image   // by key, or by all columns where there is none
	guards  [][]event.Image // rows to be put, by each of text.demoted
	updates []pair          // of rows without a key
	changed []pair          // rows that keep their keys
	puts    []event.Image   // whole rows
	inserts []event.Image   // whole rows of which nothing is there
}

type pair struct{ before, after event.Image }

// A plan is the statements of a downstream transaction, still as images: all
// deletes of all tables, then all updates, then all puts and inserts.
type plan []*tablePlan

// makePlan plans changes. A plain plan does to a row what happened to it upstream,
// and must be carried out once; any other may be again.
func makePlan(changes []change, texts *tableTexts, d Dialect, plain bool) plan {
	var out plan
	at := map[*event.Table]*tablePlan{}
	for i := range changes {
		c := &changes[i]
		p := at[c.table]
		if p == nil {
			text := texts.of(c.table, d)
			p = &tablePlan{text: text, guards: make([][]event.Image, len(text.demoted))}
			at[c.table] = p
			out = append(out, p)
		}
		switch {
		case len(c.table.Key) == 0:
			p.keyless(c)
		case plain:
			p.plain(c)
		default:
			p.keyed(c)
		}
	}
	return out
}

// keyed deletes every key that the row had and has no more, and puts the row as
// it is now. An update that leaves the key alone is a put only: REPLACE takes
// the old version out, by whichever unique key it finds it.
func (p *tablePlan) keyed(c *change) {
	key := c.table.Key
	drop := func(img event.Image) {
		if img == nil || c.after != nil && sameCells(key, img, c.after) {
			return
		}
		p.deletes = append(p.deletes, img)
	}
	drop(c.before)
	for i, img := range c.between {
		if i == 0 && c.before != nil && sameCells(key, img, c.before) {
			continue
		}
		if i > 0 && sameCells(key, img, c.between[i-1]) {
			continue
		}
		drop(img)
	}
	if c.after == nil {
		return
	}
	p.put(c.after)
}

// plain finds the row as it was before. Between is of no interest: nothing of this
// has been written.
func (p *tablePlan) plain(c *change) {
	switch {
	case c.before == nil && c.after == nil:
	case c.before == nil:
		p.inserts = append(p.inserts, c.after)
	case c.after == nil:
		p.deletes = append(p.deletes, c.before)
	case sameCells(c.table.Key, c.before, c.after) && sameCells(p.text.unique, c.before, c.after):
		p.changed = append(p.changed, pair{c.before, c.after})
	default:
		// Two rows may swap their keys: all are gone before the first comes back.
		p.deletes = append(p.deletes, c.before)
		p.inserts = append(p.inserts, c.after)
	}
}

// put is a whole row. REPLACE takes out what has one of its unique keys; for
// those that are unique upstream only, a delete does.
func (p *tablePlan) put(row event.Image) {
	for n, columns := range p.text.demoted {
		null := slices.ContainsFunc(columns, func(i int) bool { return row[i].IsNull() || row[i].IsMissing() })
		if !null {
			p.guards[n] = append(p.guards[n], row)
		}
	}
	p.puts = append(p.puts, row)
}

// keyless finds rows by all their columns. An update stays one where it can: if
// it is delivered twice it finds nothing the second time, while a delete and an
// insert would double the row. A change of a unique column cannot: two rows may
// swap its values.
func (p *tablePlan) keyless(c *change) {
	switch {
	case c.before == nil && c.after == nil:
	case c.before == nil:
		p.put(c.after)
	case c.after == nil:
		p.deletes = append(p.deletes, c.before)
	case sameCells(p.text.unique, c.before, c.after):
		p.updates = append(p.updates, pair{c.before, c.after})
	default:
		p.deletes = append(p.deletes, c.before)
		p.put(c.after)
	}
}

// sameCells compares two images of a row at some columns, byte by byte: a new
// case of a letter is a change even where the collation does not see it.
func sameCells(columns []int, a, b event.Image) bool {
	for _, i := range columns {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}
