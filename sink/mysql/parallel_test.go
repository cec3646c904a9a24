package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

func (w *world) noGrant() sink.Leave { return sink.Endless }

// Lanes that finish in any order do every unit once, and of two units that meet
// the first one first.
func TestGraphKeepsOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lanes := make([]*lane, rapid.IntRange(1, 5).Draw(rt, "lanes"))
		for i := range lanes {
			lanes[i] = new(lane)
		}
		cfg := Default()
		cfg.MaxTxnRows = rapid.IntRange(1, 6).Draw(rt, "rows")
		g := newGraph(lanes, newWidth(len(lanes)), cfg.MaxTxnRows)
		var all, order []*unit // as they came, and as they were begun
		seen := map[*unit]bool{}
		held := map[*lane][]*unit{}
		step := func() bool {
			var able []*lane
			for _, l := range lanes {
				if held[l] != nil || len(l.queue) > 0 {
					able = append(able, l)
				}
			}
			if len(able) == 0 {
				return false
			}
			l := able[rapid.IntRange(0, len(able)-1).Draw(rt, "lane")]
			if held[l] != nil {
				g.finish(l, held[l])
				held[l] = nil
				return true
			}
			units, _ := g.take(l, &cfg)
			for _, u := range units {
				if seen[u] {
					rt.Fatal("a unit was handed out twice")
				}
				seen[u] = true
				for _, before := range all[:slices.Index(all, u)] {
					other := !slices.Contains(units, before)
					if overlap(before, u) && (!seen[before] || other && !before.done) {
						rt.Fatal("a unit was begun before one that it meets was done")
					}
				}
			}
			order = append(order, units...)
			held[l] = units
			return true
		}
		draw := func(name string, from uint64) []uint64 {
			return rapid.SliceOfNDistinct(rapid.Uint64Range(from, from+5), 0, 3, rapid.ID[uint64]).Draw(rt, name)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "units") {
			u := &unit{txn: event.Txn{Rows: make([]*event.Row, rapid.IntRange(1, 3).Draw(rt, "size"))}}
			for i := range u.txn.Rows {
				u.txn.Rows[i] = &event.Row{Table: new(event.Table)}
			}
			u.keys, u.shared = draw("keys", 0), draw("shared", 100)
			if rapid.IntRange(0, 3).Draw(rt, "odd") == 0 {
				u.sole = draw("sole", 100)
			}
			u.unique()
			all = append(all, u)
			g.add(u)
			for rapid.Bool().Draw(rt, "go on") && step() {
			}
		}
		for step() {
		}
		if len(order) != len(all) || g.left() != 0 || len(g.last) != 0 || len(g.wholes) != 0 || g.rows != 0 {
			rt.Fatalf("%d of %d units, %d left, %d claims", len(order), len(all), g.left(), len(g.last)+len(g.wholes))
		}
	})
}

func overlap(a, b *unit) bool {
	common := func(x, y []uint64) bool {
		return slices.ContainsFunc(x, func(h uint64) bool { return slices.Contains(y, h) })
	}
	return common(a.keys, b.keys) || common(a.sole, b.sole) || common(a.sole, b.shared) || common(a.shared, b.sole)
}

// However transactions that meet are spread over workers, cut and put together,
// and however often connections break and a run begins anew, the end is that of
// upstream.
func TestParallelEndsRight(t *testing.T) {
	fewer(t, 25)
	w := newWorld(t)
	p := w.through("worker-count=7", "max-txn-row=3")
	tables := []*event.Table{
		w.create("create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (u), unique (v))"),
		w.create("create table t2 (id int not null, u int, v int not null, n int, unique (id), unique (u), unique (v))"),
		w.create("create table t3 (id varchar(5) collate utf8mb4_general_ci primary key, u varchar(5) collate utf8mb4_unicode_ci, v int not null, n int, unique (u), unique (v))"),
	}
	rapid.Check(t, func(rt *rapid.T) {
		var txns []event.Txn
		ends := make([]map[int]modelRow, len(tables))
		for i, table := range tables {
			mustExec(t, w.db, "TRUNCATE TABLE "+qualified(w.schema, table.Name))
			var own []event.Txn
			own, ends[i] = history(rt, w, table)
			txns = append(txns, own...)
		}
		w.sink.cfg.MaxTxnRows = rapid.IntRange(1, 20).Draw(rt, "rows")
		for from, n := 0, 0; ; n++ {
			to := len(txns)
			if n < 3 {
				to = rapid.IntRange(from, len(txns)).Draw(rt, "crash at")
				if rapid.Bool().Draw(rt, "cut") {
					p.cutAt(cut{"REPLACE", rapid.Bool().Draw(rt, "before")})
				}
			}
			for at := from; at < to; {
				next := min(to, at+rapid.IntRange(1, 10).Draw(rt, "call"))
				if err := w.sink.Write(t.Context(), sink.Endless, txns[at:next]); err != nil {
					rt.Fatal(err)
				}
				at = next
			}
			if err := w.sink.Flush(t.Context()); err != nil {
				rt.Fatal(err)
			}
			if to == len(txns) && n >= 3 {
				break
			}
			from = rapid.IntRange(0, to).Draw(rt, "checkpoint")
		}
		for i, table := range tables {
			var want []string
			for _, r := range ends[i] {
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

// A DDL that is not carried out comes without a flush: the downstream's table
// keeps what upstream dropped, and rows of both shapes meet by every key of it.
// An index's number is another one from there on.
func TestOrderAcrossAnIgnoredDDL(t *testing.T) {
	fewer(t, 40)
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=7&max-txn-row=2")
	old := w.create("create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (u), unique (v))")
	dropped := tableOf(t, w.schema, "create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (v))")
	dropped.ID = old.ID
	emptied := tableOf(t, w.schema, "create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (u), unique (v))")
	emptied.ID = old.ID + 1 // as TRUNCATE makes it
	rapid.Check(t, func(rt *rapid.T) {
		mustExec(t, w.db, "TRUNCATE TABLE "+qualified(w.schema, old.Name))
		txns, end := history(rt, w, old)
		after := rapid.SampledFrom([]*event.Table{dropped, emptied}).Draw(rt, "after")
		for i := rapid.IntRange(0, len(txns)).Draw(rt, "ddl at"); i < len(txns); i++ {
			for _, r := range txns[i].Rows {
				r.Table, r.Key = after, fmt.Appendf(nil, "t%d_%s", after.ID, r.Key)
			}
		}
		if err := w.sink.writeNow(t.Context(), sink.Endless, txns); err != nil {
			rt.Fatal(err)
		}
		var want []string
		for _, r := range end {
			want = append(want, join(r.cells()))
		}
		got := w.rows("select id, u, v, n from t")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			rt.Fatalf("got %q, want %q", got, want)
		}
	})
}

// The pk-shifting transaction, cut into downstream transactions of two rows: its
// rows stay together, since each takes the key that another gives up.
func TestShiftedKeysAreNotCutApart(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?max-txn-row=2&worker-count=4")
	tab := w.create("create table t (pk int primary key nonclustered, v int)")
	var insert, shift []*event.Row
	for i := range 40 {
		insert = append(insert, w.row(tab, i, nil, cells(strconv.Itoa(i), strconv.Itoa(i))))
		shift = append(shift, w.row(tab, i, cells(strconv.Itoa(i), strconv.Itoa(i)), cells(strconv.Itoa(i+1), strconv.Itoa(i))))
	}
	w.write(w.txn(insert...))
	slices.Reverse(shift)
	shifted := w.txn(shift...)
	for range 2 {
		w.write(shifted)
		w.want("select count(*), min(pk), max(pk), sum(pk - v) from t", "40|1|40|40")
	}
}

// Units that do not meet are under way at once: one that waits for a lock does
// not hold the others up, and Flush waits for it.
func TestWorkersDoNotWaitForEachOther(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=4&max-txn-row=1")
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("select * from " + qualified(w.schema, "t") + " where id = 1 for update"); err != nil {
		t.Fatal(err)
	}
	var txns []event.Txn
	for i := range 20 {
		txns = append(txns, w.txn(w.row(tab, i+1, nil, cells(strconv.Itoa(i+1)))))
	}
	if err := w.sink.Write(t.Context(), sink.Endless, txns); err != nil {
		t.Fatal(err)
	}
	for len(w.rows("select id from t")) < 15 { // all but what the waiting lane may have
	}
	var g errgroup.Group
	flushed := make(chan struct{})
	g.Go(func() error {
		defer close(flushed)
		return w.sink.Flush(t.Context())
	})
	select {
	case <-flushed:
		t.Error("flushed while a row waits for a lock")
	default:
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select count(*) from t", "20")
}

// An error of a row written earlier comes out of Flush or of a later Write; then
// the sink can be used again.
func TestErrorsComeOut(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	gone := tableOf(t, w.schema, "create table gone (id int primary key)")
	if err := w.sink.Write(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(gone, 1, nil, cells("1")))}); err != nil {
		t.Fatal(err)
	}
	if err := w.sink.Flush(t.Context()); err == nil {
		t.Fatal("no error")
	}
	var err error
	for n := 0; err == nil && n < 100_000; n++ {
		err = w.sink.Write(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(gone, n, nil, cells(strconv.Itoa(n))))})
	}
	if err == nil {
		t.Fatal("a hundred thousand writes, and no error")
	}
	w.insert(tab, cells("1"))
	w.want("select id from t", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.sink.writeNow(ctx, sink.Endless, []event.Txn{w.txn(w.row(tab, 2, nil, cells("2")))}); err == nil {
		t.Error("written under a context that has ended")
	}
	w.insert(tab, cells("3"))
}

// What is taken on is bounded, whatever comes.
func TestWriteWaitsForRoom(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=2&max-txn-row=1")
	tab := w.create("create table t (id int primary key)")
	other, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("insert into " + qualified(w.schema, "t") + " values (1)"); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error {
		// information_schema.innodb_trx would not do: whoever asks it all the time gets the same old answer.
		for column(t, w.db, "select count(*) from information_schema.processlist where info like 'REPLACE%' and time_ms > 50")[0] == "0" {
		}
		return other.Rollback()
	})
	for i := range 50 {
		if err := w.sink.Write(t.Context(), sink.Endless, []event.Txn{w.txn(w.row(tab, 1, cells("1"), cells("1")), w.row(tab, i+2, nil, cells(fmt.Sprint(i+2))))}); err != nil {
			t.Fatal(err)
		}
		w.sink.burst.graph.mu.Lock()
		rows := w.sink.burst.graph.rows
		w.sink.burst.graph.mu.Unlock()
		if rows > 2*1*aheadTxns+2 {
			t.Fatalf("%d rows are taken on", rows)
		}
	}
	if err := w.sink.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("select count(*) from t", "51")
}
