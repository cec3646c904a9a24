package mysql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// modelRow is a row of t(id, u, v, n): id is the primary key, u a unique key
// that may be NULL (-1), v one that may not, n no key.
type modelRow struct{ id, u, v, n int }

func (r modelRow) cells() []string {
	u := "NULL"
	if r.u >= 0 {
		u = strconv.Itoa(r.u)
	}
	return []string{strconv.Itoa(r.id), u, strconv.Itoa(r.v), strconv.Itoa(r.n)}
}

// history draws transactions that are right upstream: at every commit all keys
// are unique. Handles are apart from ids, as in a table that is not clustered,
// so that one row's id may move.
func history(rt *rapid.T, w *world, tab *event.Table) (txns []event.Txn, end map[int]modelRow) {
	state := map[int]modelRow{} // by handle
	free := func(next map[int]modelRow, not int, r modelRow) bool {
		for h, o := range next {
			if h != not && (o.id == r.id || o.v == r.v || o.u == r.u && r.u >= 0) {
				return false
			}
		}
		return true
	}
	for range rapid.IntRange(3, 12).Draw(rt, "txns") {
		next := maps.Clone(state)
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			h := rapid.IntRange(0, 5).Draw(rt, "handle")
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				delete(next, h)
				continue
			}
			next[h] = modelRow{rapid.IntRange(0, 4).Draw(rt, "id"), rapid.IntRange(-1, 3).Draw(rt, "u"), rapid.IntRange(0, 4).Draw(rt, "v"), rapid.IntRange(0, 9).Draw(rt, "n")}
		}
		// Between two changes of a transaction keys may clash; at its end not.
		for _, h := range slices.Sorted(maps.Keys(next)) {
			if !free(next, h, next[h]) {
				delete(next, h)
			}
		}
		var rows []*event.Row
		for h := range 6 {
			before, had := state[h]
			after, has := next[h]
			switch {
			case had && has && before != after:
				rows = append(rows, w.row(tab, h, before.cells(), after.cells()))
			case had && !has:
				rows = append(rows, w.row(tab, h, before.cells(), nil))
			case !had && has:
				rows = append(rows, w.row(tab, h, nil, after.cells()))
			}
		}
		if len(rows) > 0 {
			txns = append(txns, w.txn(rows...))
		}
		state = next
	}
	return txns, state
}

// However often a changefeed is interrupted and begins again from an earlier
// checkpoint, and however transactions are put together each time, the end is
// that of upstream.
func TestReplaysEndRight(t *testing.T) {
	fewer(t, 50)
	w := newWorld(t)
	tab := w.create("create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (u), unique (v))")
	noPK := w.create("create table t2 (id int not null, u int, v int not null, n int, unique (id), unique (u), unique (v))")
	rapid.Check(t, func(rt *rapid.T) {
		for _, table := range []*event.Table{tab, noPK} {
			mustExec(t, w.db, "TRUNCATE TABLE "+qualified(w.schema, table.Name))
			txns, end := history(rt, w, table)
			for from, n := 0, 0; ; n++ {
				to := len(txns)
				if n < 3 {
					to = rapid.IntRange(from, len(txns)).Draw(rt, "crash at")
				}
				w.sink.cfg.MaxTxnRows = rapid.IntRange(1, 20).Draw(rt, "group")
				if err := w.sink.writeNow(context.Background(), sink.Endless, txns[from:to]); err != nil {
					rt.Fatal(err)
				}
				if to == len(txns) && n >= 3 {
					break
				}
				from = rapid.IntRange(0, to).Draw(rt, "checkpoint")
			}
			var want []string
			for _, r := range end {
				want = append(want, join(r.cells()))
			}
			got := w.rows("select id, u, v, n from " + table.Name)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				rt.Fatalf("%s: got %q, want %q", table.Name, got, want)
			}
		}
	})
}

// A key that no unique index guards downstream: rows are deleted before they
// are put.
func TestGlobalIndexAsKey(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table g (a int, b int not null, unique ub (b) global) partition by hash (a) partitions 2")
	insert := w.txn(w.row(tab, 1, nil, cells("1", "1")), w.row(tab, 2, nil, cells("2", "2")))
	update := w.txn(w.row(tab, 1, cells("1", "1"), cells("2", "1")))
	for range 2 {
		w.write(insert)
		w.write(update)
	}
	w.want("select a, b from g", "2|1", "2|2")

	// the same where it is no key, since it may be NULL
	tab = w.create("create table n (a int, b int, unique ub (b) global) partition by hash (a) partitions 2")
	insert = w.txn(w.row(tab, 1, nil, cells("1", "1")), w.row(tab, 2, nil, cells("2", "2")))
	swap := w.txn(w.row(tab, 1, cells("1", "1"), cells("1", "2")), w.row(tab, 2, cells("2", "2"), cells("2", "1")))
	for range 2 {
		w.write(insert)
		w.write(swap)
	}
	w.want("select a, b from n", "1|2", "2|1")
}

// Images that a row had in the midst of a group may be downstream after a
// crash; the group takes them out.
func TestImagesBetween(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int not null, n int, unique (id))")
	a := w.txn(w.row(tab, "h", nil, cells("1", "1")))
	b := w.txn(w.row(tab, "h", cells("1", "1"), cells("2", "2")))
	c := w.txn(w.row(tab, "h", cells("2", "2"), nil))
	for _, done := range [][]event.Txn{{a}, {a, b}, {a, b, c}, nil} {
		w.write(done...)
		w.write(a, b, c)
		w.want("select * from t")
	}
	w.write(a)
	w.write(a, b)
	w.want("select id, n from t", "2|2")
}

func TestGroupsKeepTransactionsWhole(t *testing.T) {
	w := newWorld(t)
	tab := tableOf(t, "s", "create table t (id int primary key)")
	other := tableOf(t, "s", "create table t (id int primary key, c int)")
	other.ID = tab.ID
	rows := func(table *event.Table, n int) event.Txn {
		var out []*event.Row
		for i := range n {
			r := &event.Row{Table: table, Key: fmt.Appendf(nil, "%d", i), Raw: &event.RawKV{Value: make([]byte, 100)}}
			out = append(out, r)
		}
		return w.txn(out...)
	}
	cfg := Default()
	cfg.MaxTxnRows = 10
	for name, c := range map[string]struct {
		txns []event.Txn
		want int
	}{
		"one that is too large": {[]event.Txn{rows(tab, 50), rows(tab, 1)}, 1},
		"up to the limit":       {[]event.Txn{rows(tab, 4), rows(tab, 6), rows(tab, 1)}, 2},
		"all":                   {[]event.Txn{rows(tab, 1), rows(tab, 1)}, 2},
		"a new shape":           {[]event.Txn{rows(tab, 1), rows(other, 1)}, 1},
		"none":                  {nil, 0},
	} {
		if got := cfg.group(unitsOf(c.txns)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	cfg.MaxTxnRows, cfg.MaxTxnBytes = 1000, 500
	if got := cfg.group(unitsOf([]event.Txn{rows(tab, 2), rows(tab, 2)})); got != 1 {
		t.Errorf("bytes: %d", got)
	}
}

func unitsOf(txns []event.Txn) []*unit {
	cfg := Default()
	cfg.Atomicity = PerTable
	c := newClaimer(Dialect{Kind: MariaDB})
	var out []*unit
	for i := range txns {
		out = append(out, c.units(&cfg, sink.Endless, &txns[i])...)
	}
	return out
}
