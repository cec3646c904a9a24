package mysql

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// With safe-mode=false a row is written as what happened to it, of several rows as
// much at once as max-multi-update-row and max-multi-update-row-size let; tables
// without a key, and a plan that may be carried out twice, as ever.
func TestPlainForms(t *testing.T) {
	d := Dialect{Kind: MariaDB}
	tab := tableOf(t, "s", "create table t (a int, b varchar(5), u int, n varchar(5000), primary key (a, b), unique (u))")
	one := tableOf(t, "s", "create table o (a int primary key, n int)")
	bare := tableOf(t, "s", "create table k (a int)")
	long := strings.Repeat("x", 4000)
	changes := []change{
		{table: tab, after: image(t, tab, "1", "x", "1", "new")},
		{table: tab, before: image(t, tab, "2", "x", "2", "old")},
		{table: tab, before: image(t, tab, "3", "x", "3", "old"), after: image(t, tab, "3", "x", "3", "new")},
		{table: tab, before: image(t, tab, "4", "x", "4", "old"), after: image(t, tab, "4", "x", "4", "NULL")},
		{table: tab, before: image(t, tab, "5", "x", "5", "old"), after: image(t, tab, "5", "x", "50", "new")},
		{table: tab, before: image(t, tab, "6", "x", "6", "old"), after: image(t, tab, "6", "x", "6", long)},
		{table: one, before: image(t, one, "1", "1"), after: image(t, one, "1", "2")},
		{table: tab}, // came and went
		{table: bare, after: image(t, bare, "7")},
	}
	var texts tableTexts
	print := func(plain bool, updates, average int) (got []string) {
		x := writer{dialect: d, target: 1 << 20, rows: batchRows, updates: updates, average: average, max: 1 << 20, run: func(s []byte) error {
			got = append(got, strings.ReplaceAll(string(s), long, "…"))
			return nil
		}}
		if err := x.plan(makePlan(changes, &texts, d, plain)); err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := func(what string, got []string, want ...string) {
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	same("plain", print(true, 40, 1024),
		"DELETE FROM `s`.`t` WHERE (`a`,`b`) IN ((2,'x'),(5,'x'))",
		"UPDATE `s`.`t` SET `u`=CASE WHEN `a`=3 AND `b`='x' THEN 3 WHEN `a`=4 AND `b`='x' THEN 4 END,`n`=CASE WHEN `a`=3 AND `b`='x' THEN 'new' WHEN `a`=4 AND `b`='x' THEN NULL END WHERE (`a`,`b`) IN ((3,'x'),(4,'x'))",
		"UPDATE `s`.`t` SET `u`=6,`n`='…' WHERE (`a`,`b`) IN ((6,'x'))",
		"UPDATE `s`.`o` SET `n`=2 WHERE `a` IN (1)",
		"INSERT INTO `s`.`t` (`a`,`b`,`u`,`n`) VALUES (1,'x',1,'new'),(5,'x',50,'new')",
		"REPLACE INTO `s`.`k` (`a`) VALUES (7)")
	if got := print(true, 1, 1024); len(got) != 7 || strings.Contains(strings.Join(got, ""), "CASE") {
		t.Errorf("max-multi-update-row=1: %q", got)
	}
	if got := print(true, 40, 10); len(got) != 7 || strings.Contains(strings.Join(got, ""), "CASE") {
		t.Errorf("max-multi-update-row-size=10: %q", got)
	}
	if got := print(true, 40, 8192); len(got) != 5 || !strings.Contains(got[1], "`a`=6") {
		t.Errorf("max-multi-update-row-size=8192: %q", got)
	}
	for _, text := range print(false, 40, 1024) {
		if strings.HasPrefix(text, "UPDATE") || strings.HasPrefix(text, "INSERT") {
			t.Error(text)
		}
	}
}

// With safe-mode=false the end is that of upstream, whatever connections break; and
// after a restart too, which begins with what may have been written.
func TestWithoutSafeModeEndsRight(t *testing.T) {
	fewer(t, 40)
	w := newWorld(t)
	params := []string{"worker-count=4", "max-txn-row=5", "safe-mode=false", "max-multi-update-row=3"}
	p := w.through(params...)
	tables := []*event.Table{
		w.create("create table t (id int, u int, v int not null, n int, primary key (id) nonclustered, unique (u), unique (v))"),
		w.create("create table t2 (id int not null, u int, v int not null, n int, unique (id), unique (u), unique (v))"),
		w.create("create table t3 (id varchar(5) collate utf8mb4_general_ci primary key, u varchar(5) collate utf8mb4_unicode_ci, v int not null, n int, unique (u), unique (v))"),
	}
	rapid.Check(t, func(rt *rapid.T) {
		var txns []event.Txn
		ends := make([]map[int]modelRow, len(tables))
		w.sink.cfg.Replayed = upTo(w.ts)
		for i, table := range tables {
			mustExec(t, w.db, "TRUNCATE TABLE "+qualified(w.schema, table.Name))
			var own []event.Txn
			own, ends[i] = history(rt, w, table)
			txns = append(txns, own...)
		}
		for from, run := 0, 0; run < 3; run++ {
			if rapid.Bool().Draw(rt, "cut") {
				p.cutAt(cut{rapid.SampledFrom([]string{"INSERT", "UPDATE", "COMMIT"}).Draw(rt, "at"), rapid.Bool().Draw(rt, "before")})
			}
			to := len(txns)
			if run < 2 {
				to = rapid.IntRange(from, len(txns)).Draw(rt, "crash at")
			}
			if err := w.sink.writeNow(t.Context(), sink.Endless, txns[from:to]); err != nil {
				rt.Fatal(err)
			}
			from = rapid.IntRange(0, to).Draw(rt, "checkpoint")
			replayed := w.sink.cfg.Replayed()
			if to > 0 {
				replayed = max(replayed, txns[to-1].CommitTS)
			}
			if err := w.sink.Close(); err != nil {
				rt.Fatal(err)
			}
			p.spare() // opening is not tried again
			w.sink = openURI(t, p.uri(params...))
			w.sink.cfg.Replayed = upTo(replayed)
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

// upTo is what may have been written before.
func upTo(ts tso.TS) func() tso.TS { return func() tso.TS { return ts } }

// A row that somebody put downstream is replaced, as in safe mode.
func TestWithoutSafeModeARowIsInTheWay(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?safe-mode=false")
	w.sink.cfg.Replayed = upTo(w.ts)
	tab := w.create("create table t (id int primary key, n int)")
	w.rows("insert into t values (1, 7)")
	w.insert(tab, cells("1", "1"), cells("2", "2"))
	w.want("select id, n from t", "1|1", "2|2")
}
