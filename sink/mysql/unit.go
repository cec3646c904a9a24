package mysql

import (
	"slices"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// A unit is what is written by one lane, whole: an upstream transaction, or a
// part of one whose rows share no key with its others.
type unit struct {
	txn   event.Txn
	leave sink.Leave
	bytes int64
	fresh bool // nothing of it was ever written
	claims

	// Of the graph, guarded by its mutex.
	lane   *lane // nil: waits for others
	done   bool
	waits  int     // units before this one that are not done
	after  []*unit // those units, also when done
	before []*unit // units that wait for this one
	noted  *unit   // the last unit that counted this one as one that it waits for
}

// units cuts transactions into units of work. A transaction of more rows than a
// downstream transaction has is cut where its rows have nothing to do with each
// other, unless it must be seen whole.
func (c *claimer) units(cfg *Config, leave sink.Leave, txn *event.Txn) []*unit {
	if len(txn.Rows) <= cfg.MaxTxnRows || cfg.Atomicity == PerTable {
		u := &unit{txn: *txn, leave: leave}
		for _, r := range txn.Rows {
			c.add(&u.claims, r)
			u.bytes += rowBytes(r)
		}
		u.unique()
		return []*unit{u}
	}
	parts := c.parts(txn.Rows)
	var out []*unit
	var u *unit
	for _, p := range parts {
		if u == nil || len(u.txn.Rows)+len(p.rows) > cfg.MaxTxnRows {
			u = &unit{txn: event.Txn{StartTS: txn.StartTS, CommitTS: txn.CommitTS}, leave: leave}
			out = append(out, u)
		}
		u.txn.Rows = append(u.txn.Rows, p.rows...)
		u.keys, u.shared, u.sole = append(u.keys, p.keys...), append(u.shared, p.shared...), append(u.sole, p.sole...)
	}
	for _, u := range out {
		for _, r := range u.txn.Rows {
			u.bytes += rowBytes(r)
		}
		u.unique()
	}
	return out
}

func rowBytes(r *event.Row) int64 {
	if r.Raw == nil {
		return 0
	}
	return r.Raw.Size()
}

// A part is rows of one transaction that are bound together by their claims.
type part struct {
	rows []*event.Row
	claims
}

// parts groups the rows of a transaction, in the order of their first rows. Keys
// that move from row to row make one part of them: cut apart, one row's deletion
// could meet the other's insertion.
func (c *claimer) parts(rows []*event.Row) []*part {
	parent := make([]int, len(rows))
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	each := make([]claims, len(rows))
	owner := make(map[uint64]int, len(rows)) // by claim: a row that has it
	whole := map[uint64]bool{}               // indexes that a row claims for itself
	join := func(h uint64, i int) {
		if other, ok := owner[h]; ok {
			// The smaller index is the root: the order of parts is that of rows.
			a, b := root(other), root(i)
			parent[max(a, b)] = min(a, b)
			return
		}
		owner[h] = i
	}
	for i, r := range rows {
		parent[i] = i
		c.add(&each[i], r)
		for _, h := range each[i].sole {
			whole[h] = true
		}
	}
	for i := range rows {
		for _, h := range slices.Concat(each[i].keys, each[i].sole) {
			join(h, i)
		}
		for _, h := range each[i].shared {
			if whole[h] {
				join(h, i)
			}
		}
	}
	var out []*part
	at := make(map[int]*part, len(rows))
	for i, r := range rows {
		p := at[root(i)]
		if p == nil {
			p = new(part)
			at[root(i)] = p
			out = append(out, p)
		}
		p.rows = append(p.rows, r)
		p.keys, p.shared, p.sole = append(p.keys, each[i].keys...), append(p.shared, each[i].shared...), append(p.sole, each[i].sole...)
	}
	return out
}
