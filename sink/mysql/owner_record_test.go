package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// recorded is what a sink for the changefeed finds on record, in short: *job begun.
func (w *world) recorded(s *Sink, from tso.TS) string {
	w.Helper()
	on, err := s.Recorded(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, r := range on {
		text := fmt.Sprintf("%d@%d", r.Job, (r.TS-from)>>18)
		if !r.Done {
			text = "*" + text
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// DDLs of several tables are done in any order: each stands on record until the
// checkpoint has passed it, and runs once.
func TestOwnersRecord(t *testing.T) {
	w := newWorld(t)
	from := w.ts
	w.job = 0
	owner := w.owner(server.URI(), 1)
	var ddls []*event.DDL
	var tables []*event.Table
	for i := range 4 {
		tab, d := w.making(fmt.Sprintf("create table t%d (id int primary key, v varchar(10))", i))
		ddls, tables = append(ddls, d), append(tables, tab)
	}
	if on := w.recorded(owner, from); on != "" {
		t.Errorf("at the beginning: %s", on)
	}
	w.carry(owner, 1, ddls[3])
	w.carry(owner, 1, ddls[1])
	owner = w.owner(server.URI(), 2)
	if on := w.recorded(owner, from); on != "2@2 4@4" {
		t.Errorf("of another owner: %s", on)
	}
	if err := owner.Checkpoint(t.Context(), ddls[1].SwitchTS); err != nil {
		t.Fatal(err)
	}
	w.carry(owner, 2, ddls[1]) // on record: not done again
	w.carry(owner, 2, ddls[2])
	owner = w.owner(server.URI(), 3)
	if on := w.recorded(owner, from); on != "0@2 3@3 4@4" {
		t.Errorf("behind a checkpoint: %s", on)
	}
	w.want("show tables", "t1", "t2", "t3") // the first is below the checkpoint, so it is done
	for _, d := range ddls {
		w.carry(owner, 3, d)
	}
	w.want("show tables", "t1", "t2", "t3")
	// A sink that writes everything, as one that applies a redo log, knows of each
	// table up to where it is.
	_, drop := w.altering(tables[3], event.ActionTruncateTable, "truncate table t3", "create table t3 (id int primary key, v varchar(10))")
	stale2, stale3 := w.row(tables[2], 1, nil, cells("1", "x")), w.row(tables[3], 1, nil, cells("1", "stale"))
	both := w.txn(stale2, stale3)
	both.CommitTS = drop.SwitchTS
	w.carry(owner, 3, drop)
	whole := lived(t, server.URI(), "x", nil)
	w.ended(whole)
	if err := whole.writeNow(t.Context(), under(4), []event.Txn{both}); err != nil {
		t.Fatal(err)
	}
	if err := whole.DDL(t.Context(), under(4), drop); err != nil {
		t.Fatal(err)
	}
	w.want("select v from t2", "x")
	w.want("select v from t3")
	_, last := w.making("create table t4 (id int primary key)")
	if err := whole.DDL(t.Context(), under(4), last); err != nil {
		t.Fatal(err)
	}
	owner = w.owner(server.URI(), 5)
	if on := w.recorded(owner, last.SwitchTS); on != "0@0 6@0" {
		t.Errorf("behind one that writes everything: %s", on)
	}
}

// The release before wrote format 1, of which an owner and whoever writes everything
// know which DDLs are done, and go on with the one that was under way.
func TestRecordOfTheReleaseBefore(t *testing.T) {
	w := newWorld(t)
	from := w.ts
	tab := w.create("create table t (a int primary key)")
	d := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Query: "truncate table t", Tables: []event.TableChange{{Before: tab, After: tab}}})
	d.JobID = 9
	script, err := planDDL(d, w.sink.Dialect(), false)
	if err != nil {
		t.Fatal(err)
	}
	set := func(text string) {
		t.Helper()
		mustExec(t, w.db, fmt.Sprintf("replace into tidb_cdc.ddl_ts_v1 (ticdc_cluster_id, changefeed, table_id, ddl_ts, finished, is_syncpoint, sluice_record) values (%s, %s, 0, '1', 1, 0, %s)", quoted((&Config{Cluster: "default", Life: "x"}).writer()), quoted(t.Name()), quoted(text)))
	}
	w.owner(server.URI(), 1) // makes the table
	at := (w.ts - from) >> 18
	done := fmt.Sprintf(`{"version":1,"life":"x","ts":%d,"done":[7,9]}`, d.SwitchTS)
	begun := fmt.Sprintf(`{"version":1,"life":"x","ts":%d,"done":[7],"now":{"job":9,"script":%q,"statement":0,"before":{}}}`, d.SwitchTS, script.digest())
	for revision, c := range map[uint64]struct{ text, want string }{
		2: {done, fmt.Sprintf("0@%d 7@%[1]d 9@%[1]d", at)},
		3: {begun, fmt.Sprintf("0@%d 7@%[1]d *9@%[1]d", at)},
	} {
		set(c.text)
		s, err := owning(t, server.URI(), "x", nil, 9)
		if err != nil {
			t.Fatal(err)
		}
		if on := w.recorded(s, from); on != c.want {
			t.Errorf("%d: %s, want %s", revision, on, c.want)
		}
		mustExec(t, w.db, "replace into "+qualified(w.schema, "t")+" values (1)")
		w.carry(s, 9, d)
		if want := map[uint64][]string{2: {"1"}, 3: nil}[revision]; !slices.Equal(w.rows("select a from t"), want) {
			t.Errorf("%s: the table holds %q", c.text, w.rows("select a from t"))
		}
		w.closed(s)
		set(c.text)
		whole := lived(t, server.URI(), "x", nil)
		stale := w.txn(w.row(tab, 2, nil, cells("2")))
		stale.CommitTS = d.SwitchTS
		if err := whole.writeNow(t.Context(), under(9), []event.Txn{stale}); err != nil {
			t.Fatal(err)
		}
		w.want("select a from t where a = 2")
		w.closed(whole)
	}
	set(`{"version":3,"life":"x","more":1}`)
	if _, err := owning(t, server.URI(), "x", nil, 9); !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "another release") {
		t.Errorf("of the release after: %v", err)
	}
}

// While a DDL runs for long the checkpoint of the other tables is told, and is on
// record when it is done.
func TestCheckpointWhileADDLRuns(t *testing.T) {
	w := newWorld(t)
	owner := w.owner(server.URI(), 1)
	tab, made := w.making("create table t (a int primary key, b int)")
	w.carry(owner, 1, made)
	conn, err := w.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES "+qualified(w.schema, "t")+" READ"); err != nil {
		t.Fatal(err)
	}
	_, d := w.altering(tab, event.ActionDropColumn, "alter table t drop column b", "create table t (a int primary key)")
	var g errgroup.Group
	g.Go(func() error { return owner.DDL(context.Background(), under(1), d) })
	w.waiting("DROP COLUMN")
	if err := owner.Checkpoint(t.Context(), d.SwitchTS.Prev()); err != nil {
		t.Error(err)
	}
	if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	owner = w.owner(server.URI(), 2)
	on, err := owner.Recorded(t.Context())
	if err != nil || len(on) != 2 || on[0].TS != d.SwitchTS || on[0].Job != 0 || on[1].Job != d.JobID {
		t.Errorf("%+v, %v", on, err)
	}
}

// A life that follows another one leaves what that one has noted, where its redo log may
// still be applied: a DDL that it has done is not done again. Without such a log it goes
// with the new life's first word, and in any case with the changefeed.
func TestRecordOfAnEarlierLife(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (a int primary key)")
	first := w.owner(server.URI(), 1)
	truncate := w.numbered(&event.DDL{Action: event.ActionTruncateTable, Query: "truncate table t", Tables: []event.TableChange{{Before: tab, After: tab}}})
	w.carry(first, 1, truncate)
	w.closed(first)
	mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" values (1)")
	follow := func(life string, revision uint64, keep bool) *Sink {
		t.Helper()
		s, err := livedAs(t, server.URI(), life, nil, func(c *Config) {
			c.Role, c.Leave, c.KeepLives = sink.Owner, under(revision), keep
			c.Replayed = func() tso.TS { return w.ts }
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	lives := func() string {
		return strings.Join(w.rows("select json_value(sluice_record, '$.life') from tidb_cdc.ddl_ts_v1 where changefeed = "+quoted(t.Name())+" order by 1"), " ")
	}
	second := follow("y", 2, true)
	w.closed(second)
	if got := lives(); got != "x y" {
		t.Fatalf("on record are the lives %q", got)
	}
	apply := lived(t, server.URI(), "x", nil)
	if _, err := apply.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.carry(apply, 3, truncate)
	w.want("select a from t", "1")
	w.closed(apply)
	if err := ForgetLife(t.Context(), apply.cfg); err != nil || lives() != "y" {
		t.Errorf("%v, on record are the lives %q", err, lives())
	}
	w.closed(follow("z", 4, true))
	w.closed(follow("v", 5, false))
	if got := lives(); got != "v" {
		t.Errorf("on record are the lives %q", got)
	}
	w.closed(follow("u", 6, true))
	if err := Forget(t.Context(), second.cfg); err != nil || lives() != "" {
		t.Errorf("%v, on record are the lives %q", err, lives())
	}
}
