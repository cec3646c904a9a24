package mysql

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// owning is the sink of the owner elected at a revision.
func owning(t testing.TB, uri, life string, snapshot Snapshot, revision uint64) (*Sink, error) {
	t.Helper()
	return livedAs(t, uri, life, snapshot, func(c *Config) { c.Role, c.Leave = sink.Owner, under(revision) })
}

func (w *world) owner(uri string, revision uint64) *Sink {
	w.Helper()
	s, err := owning(w, uri, "x", nil, revision)
	if err != nil {
		w.Fatal(err)
	}
	return w.ended(s)
}

// capturing is a capture's sink for rows.
func (w *world) capturing(uri, capture string) *Sink {
	w.Helper()
	s, err := livedAs(w, uri, "x", nil, func(c *Config) { c.Role, c.Capture = sink.Rows, capture })
	if err != nil {
		w.Fatal(err)
	}
	return w.ended(s)
}

// ended has a sink closed, and the test's changefeed forgotten.
func (w *world) ended(s *Sink) *Sink {
	w.Cleanup(func() {
		w.closed(s)
		if err := Forget(context.Background(), s.cfg); err != nil {
			w.Error(err)
		}
	})
	return s
}

// term is the nth that the owner of a revision gives.
func term(revision, n uint64) uint64 { return revision<<termBits | n }

// carry has an owner carry a DDL out.
func (w *world) carry(owner *Sink, revision uint64, d *event.DDL) {
	w.Helper()
	if err := owner.DDL(context.Background(), under(revision), d); err != nil {
		w.Fatal(err)
	}
}

// making is a DDL that creates a table.
func (w *world) making(text string) (*event.Table, *event.DDL) {
	w.Helper()
	t := tableOf(w, w.schema, text)
	t.ID += 1000 * (w.job + 1) // of each DDL another table
	return t, w.numbered(&event.DDL{Action: event.ActionCreateTable, Query: text, Tables: []event.TableChange{{After: t}}})
}

// altering is a DDL that makes of a table what the second text creates.
func (w *world) altering(before *event.Table, action event.Action, text, then string) (*event.Table, *event.DDL) {
	w.Helper()
	after := tableOf(w, w.schema, then)
	after.ID = before.ID
	return after, w.numbered(&event.DDL{Action: action, Query: text, Tables: []event.TableChange{{Before: before, After: after}}})
}

// Two captures' sinks write while owners come and go and change the tables: what a
// capture knows of a table is that of the version of which the row is.
func TestOwnerAndCapturesTogether(t *testing.T) {
	w := newWorld(t)
	first := w.owner(server.URI(), 1)
	one, two := w.capturing(server.URI()+"?worker-count=4", "one"), w.capturing(server.URI()+"?worker-count=4", "two")
	a, make1 := w.making("create table a (id int primary key, v int)")
	b, make2 := w.making("create table b (id int primary key, v int)")
	w.carry(first, 1, make1)
	w.carry(first, 1, make2)
	put := func(s *Sink, t *event.Table, n uint64, rows ...[]string) {
		w.Helper()
		var out []*event.Row
		for _, r := range rows {
			out = append(out, w.row(t, r[0], nil, r))
		}
		if err := s.writeNow(context.Background(), under(term(1, n)), []event.Txn{w.txn(out...)}); err != nil {
			w.Fatal(err)
		}
	}
	put(one, a, 1, cells("1", "10"), cells("2", "20"))
	put(two, b, 2, cells("1", "11"))
	// Names that change places, a column that is called otherwise, a unique index that
	// only the downstream has.
	renamed := w.numbered(&event.DDL{Action: event.ActionRenameTables, Tables: []event.TableChange{
		{Before: a, After: named(a, "c")}, {Before: b, After: named(b, "a")}, {Before: named(a, "c"), After: named(a, "b")}}})
	w.carry(first, 1, renamed)
	a, b = named(a, "b"), named(b, "a")
	put(one, a, 1, cells("3", "30"))
	put(two, b, 2, cells("2", "21"))
	w.want("select * from b", "1|10", "2|20", "3|30")
	w.want("select * from a", "1|11", "2|21")
	next := w.owner(server.URI(), 2)
	mustExec(t, w.db, "alter table "+qualified(w.schema, "b")+" add unique index hand (v)")
	a, changed := w.altering(a, event.ActionModifyColumn, "alter table b change column v u int", "create table b (id int primary key, u int)")
	w.carry(next, 2, changed)
	put(one, a, 1, cells("4", "40"))
	if f := one.claimer.found[nameOf(a)]; f.table != a || !slices.ContainsFunc(f.unique, func(x foundIndex) bool { return x.columns[0].name == "u" }) {
		t.Errorf("of the downstream's indexes is known %+v", f)
	}
	w.want("select id, u from b", "1|10", "2|20", "3|30", "4|40")
	w.want("select count(*) from information_schema.columns where table_schema = database() and table_name = 'b' and column_name = 'u'", "1")
}

// An owner is opened, and carries DDLs of other tables out, while captures write: it
// does not hold them up for good, and none of them fails.
func TestOwnersComeWhileCapturesWrite(t *testing.T) {
	w := newWorld(t)
	owner := w.owner(server.URI(), 1)
	var made []*event.Table
	for i := range 2 {
		tab, d := w.making(fmt.Sprintf("create table t%d (id int primary key, v varchar(10))", i))
		w.carry(owner, 1, d)
		made = append(made, tab)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	begun := make(chan struct{}, len(made))
	rounds := make([]int, len(made))
	var txns [2][]event.Txn
	for i, tab := range made {
		txns[i] = w.putting(tab, "x")
	}
	for i := range made {
		s := w.capturing(server.URI()+"?worker-count=2", fmt.Sprint("capture ", i))
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := s.writeNow(context.Background(), under(term(1, uint64(i))), txns[i]); err != nil {
					return fmt.Errorf("capture %d after %d rounds: %w", i, rounds[i], err)
				}
				if rounds[i]++; rounds[i] == 1 {
					begun <- struct{}{}
				}
			}
			return nil
		})
	}
	for range made {
		<-begun
	}
	for revision := uint64(2); revision < 6; revision++ {
		owner := w.owner(server.URI(), revision)
		if floors, err := owner.Floors(t.Context()); err != nil || len(floors) != len(made) {
			t.Errorf("owner %d: %q, %v", revision, floors, err)
		}
		_, d := w.making(fmt.Sprintf("create table o%d (id int primary key)", revision))
		w.carry(owner, revision, d)
		if err := owner.Checkpoint(t.Context(), d.SwitchTS); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	w.want("show tables", "o2", "o3", "o4", "o5", "t0", "t1")
	w.want("select v from t0 union all select v from t1", "x", "x")
}

// An owner that is not the owner any more neither runs a DDL nor notes one, whatever of
// it is on its way already.
func TestDeposedOwner(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, server.Addr())
	old := w.owner(p.uri("reconnect-timeout=1ms"), 1)
	rows := w.capturing(server.URI(), "one")
	tab, made := w.making("create table t (id int primary key, v varchar(10))")
	w.carry(old, 1, made)
	if err := rows.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "before")); err != nil {
		t.Fatal(err)
	}
	truncate := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Query: "truncate table t", Tables: []event.TableChange{{Before: tab, After: tab}}})
	h := p.holdAt("TRUNCATE TABLE")
	p.dieAfterHold()
	// The note of it holds no such text: what is held is the statement itself.
	if err := old.DDL(t.Context(), under(1), truncate); err == nil {
		t.Fatal("no error")
	}
	next := w.owner(server.URI(), 2)
	if on, err := next.Recorded(t.Context()); err != nil || len(on) != 2 || on[1].Job != truncate.JobID || on[1].Done || on[1].TS != truncate.SwitchTS || !slices.Equal(on[1].Tables, []int64{tab.ID}) {
		t.Errorf("on record: %+v, %v", on, err)
	}
	w.carry(next, 2, truncate)
	if err := rows.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "after")); err != nil {
		t.Fatal(err)
	}
	if answer := h.release(t); !bytes.Contains(answer, refusedAnswer) {
		t.Errorf("the server answered %q", answer)
	}
	w.want("select v from t", "after")
	// It goes on, and learns that it is over.
	p.live()
	record := "select sluice_record from tidb_cdc.ddl_ts_v1" + next.cfg.whose()
	was := w.rows(record)
	_, other := w.making("create table u (id int primary key)")
	for _, d := range []*event.DDL{truncate, other} {
		if err := old.DDL(t.Context(), under(1), d); !cdcerr.Fenced.Is(err) {
			t.Errorf("a DDL: %v", err)
		}
	}
	if err := old.SyncPoint(t.Context(), under(1), event.SyncPoint{TS: w.ts}); !cdcerr.Fenced.Is(err) {
		t.Errorf("a sync point: %v", err)
	}
	if _, err := owning(t, server.URI(), "x", nil, 1); !cdcerr.Fenced.Is(err) {
		t.Errorf("opened again: %v", err)
	}
	w.want("show tables", "t")
	w.want("select v from t", "after")
	w.want(record, was...)
}

// A capture that was fenced off is told so, by an owner or by its end, and writes
// nothing; under a new term, in a place that it takes anew, it does.
func TestFencedCapture(t *testing.T) {
	w := newWorld(t)
	owner := w.owner(server.URI(), 1)
	tab, made := w.making("create table t (id int primary key, v varchar(10))")
	w.carry(owner, 1, made)
	p := newProxy(t, server.Addr())
	s := w.capturing(p.uri("worker-count=1", "reconnect-timeout=1ms"), "one")
	if err := s.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "first")); err != nil {
		t.Fatal(err)
	}
	h := p.holdAt("stale")
	p.dieAfterHold()
	if err := s.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "stale")); err == nil {
		t.Fatal("no error")
	}
	next := w.owner(server.URI(), 2)
	if err := next.Raise(t.Context(), "one", term(2, 0)); err != nil {
		t.Fatal(err)
	}
	if answer := h.release(t); !bytes.Contains(answer, refusedAnswer) {
		t.Errorf("the server answered %q", answer)
	}
	p.live()
	for _, n := range []uint64{term(1, 1), term(2, 0)} {
		if err := s.writeNow(t.Context(), under(n), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
			t.Errorf("term %d: %v", n, err)
		}
	}
	again := w.capturing(server.URI(), "one")
	if err := again.writeNow(t.Context(), under(term(1, 9)), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("opened under the owner before: %v", err)
	}
	if err := again.writeNow(t.Context(), under(term(2, 1)), w.putting(tab, "again")); err != nil {
		t.Error(err)
	}
	w.want("select v from t", "again")
}

// What an owner has fenced off and nobody took again is gone when the next one comes;
// nothing can be written by it all the same.
func TestFenceIsCleared(t *testing.T) {
	w := newWorld(t)
	owner := w.owner(server.URI(), 1)
	tab, made := w.making("create table t (id int primary key, v varchar(10))")
	w.carry(owner, 1, made)
	lost, late, living := w.capturing(server.URI(), "lost"), w.capturing(server.URI(), "late"), w.capturing(server.URI(), "living")
	for _, s := range []*Sink{lost, living} {
		if err := s.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "first")); err != nil {
			t.Fatal(err)
		}
	}
	for _, capture := range []string{"lost", "late"} {
		if err := owner.Raise(t.Context(), capture, term(1, 2)); err != nil {
			t.Fatal(err)
		}
	}
	again := w.owner(server.URI(), 1) // the same owner's next run: it may have given a term that is not used yet
	if floors, err := again.Floors(t.Context()); err != nil || !slices.Equal(floors, []string{"late", "living", "lost"}) {
		t.Errorf("%q, %v", floors, err)
	}
	next := w.owner(server.URI(), 2)
	if floors, err := next.Floors(t.Context()); err != nil || !slices.Equal(floors, []string{"living"}) {
		t.Errorf("%q, %v", floors, err)
	}
	for _, s := range []*Sink{lost, late} {
		for _, n := range []uint64{1, 2, 3} {
			if err := s.writeNow(t.Context(), under(term(1, n)), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
				t.Errorf("%s: %v", s.cfg.Capture, err)
			}
		}
	}
	if err := living.writeNow(t.Context(), under(term(1, 1)), w.putting(tab, "living")); err != nil {
		t.Error(err)
	}
	w.want("select v from t", "living")
}

// A sink does what is its role's, and nothing else.
func TestRolesAreKept(t *testing.T) {
	w := newWorld(t)
	owner, rows := w.owner(server.URI(), 1), w.capturing(server.URI(), "one")
	tab, d := w.making("create table t (id int primary key, v varchar(10))")
	for name, err := range map[string]error{
		"rows to an owner":    owner.Write(t.Context(), under(1), w.putting(tab, "x")),
		"a DDL to a capture":  rows.DDL(t.Context(), under(term(1, 1)), d),
		"a sync point to one": rows.SyncPoint(t.Context(), under(term(1, 1)), event.SyncPoint{TS: w.ts}),
		"an owner without a leave": func() error {
			_, err := livedAs(t, server.URI(), "x", nil, func(c *Config) { c.Role = sink.Owner })
			return err
		}(),
		"rows without a capture": func() error {
			_, err := livedAs(t, server.URI(), "x", nil, func(c *Config) { c.Role = sink.Rows })
			return err
		}(),
	} {
		if !cdcerr.Unexpected.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rows.Recorded(t.Context()); !cdcerr.Unexpected.Is(err) {
		t.Errorf("the record for a capture: %v", err)
	}
	if rows.noted != nil {
		t.Error("a capture has read the record")
	}
}

// Up to where rows may have been written before is asked at each Write: a capture is
// given spans one by one.
func TestReplayedIsAskedAtEachWrite(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10))")
	p := newProxy(t, server.Addr())
	s := w.compared(p.uri("safe-mode=false"))
	write := func(id int, want bool) {
		t.Helper()
		txn := w.txn(w.row(tab, id, nil, cells(fmt.Sprint(id), "x")))
		before, _ := p.made()
		p.cutAt(cut{"INSERT INTO " + qualified(w.schema, "t"), false})
		if err := s.writeNow(t.Context(), sink.Endless, []event.Txn{txn}); err != nil {
			t.Fatal(err)
		}
		if n, _ := p.made(); (n > before) != want {
			t.Errorf("row %d was inserted: %v, want %v", id, n > before, want)
		}
		p.spare()
	}
	write(1, false) // nothing is known
	s.cfg.Replayed = upTo(w.ts)
	write(2, true)
	s.cfg.Replayed = upTo(w.ts + 1<<18) // a span came, of which another capture may have written that far
	write(3, false)
	write(4, true)
	w.want("select id from t", "1", "2", "3", "4")
}

// Captures that take their places at one moment do not stand in each other's way.
func TestCapturesComeAtOnce(t *testing.T) {
	w := newWorld(t)
	owner := w.owner(server.URI(), 1)
	tab, made := w.making("create table t (id int primary key, v varchar(10))")
	w.carry(owner, 1, made)
	const captures = 8
	retried := make(chan string, 100)
	start := make(chan struct{})
	var g errgroup.Group
	for i := range captures {
		s := w.capturing(server.URI()+"?worker-count=4", fmt.Sprint("capture ", i))
		s.log = slog.New(heard{"the fence is not ours yet", retried})
		txn := w.txn(w.row(tab, i, nil, cells(fmt.Sprint(i), "x")))
		g.Go(func() error {
			<-start
			return s.writeNow(context.Background(), under(term(1, uint64(i))), []event.Txn{txn})
		})
	}
	close(start)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(retried) > 0 {
		t.Errorf("tried again %d times", len(retried))
	}
	w.want("select count(*) from t", fmt.Sprint(captures))
}

// Whoever takes over writes alone: neither the owner of before nor a capture of its does
// any more, and a later owner has the place again. What was noted last is known.
func TestTakeOver(t *testing.T) {
	w := newWorld(t)
	owner, rows := w.owner(server.URI(), 3), w.capturing(server.URI(), "one")
	tab, made := w.making("create table t (id int primary key, v varchar(10))")
	alone, err := livedAs(w, server.URI(), "x", nil, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	w.ended(alone)
	w.carry(owner, 3, made)
	if err := rows.writeNow(t.Context(), under(term(3, 9)), w.putting(tab, "before")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // by who was killed meanwhile too
		leave, err := alone.TakeOver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !alone.noted.holds(made) {
			t.Error("it does not know of a DDL that was noted after it was opened")
		}
		if err := rows.writeNow(t.Context(), under(term(3, 10)), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
			t.Errorf("a capture of before writes: %v", err)
		}
		_, other := w.making("create table late (id int primary key)")
		if err := owner.DDL(t.Context(), under(3), other); !cdcerr.Fenced.Is(err) {
			t.Errorf("the owner of before carries out DDLs: %v", err)
		}
		if err := alone.writeNow(t.Context(), leave, w.putting(tab, "after")); err != nil {
			t.Fatal(err)
		}
		if err := alone.DDL(t.Context(), leave, made); err != nil {
			t.Errorf("a DDL that is done: %v", err)
		}
		w.closed(alone)
		if alone, err = livedAs(w, server.URI(), "x", nil, func(*Config) {}); err != nil {
			t.Fatal(err)
		}
		w.ended(alone)
	}
	w.want("select v from t", "after")
	next := w.owner(server.URI(), 9)
	_, other := w.making("create table later (id int primary key)")
	w.carry(next, 9, other)
	again := w.capturing(server.URI(), "one")
	if err := again.writeNow(t.Context(), under(term(9, 1)), w.putting(tab, "goes on")); err != nil {
		t.Error(err)
	}
}
