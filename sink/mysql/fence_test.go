package mysql

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// refusedAnswer is how the packet of error 1690 begins.
var refusedAnswer = []byte{0xff, 0x9a, 0x06}

// under is the leave to write under a term, for ever.
func under(term uint64) sink.Leave { return func() sink.Grant { return sink.Grant{Fence: term} } }

// compared is a sink of the test's changefeed, with whatever else the URI says.
func (w *world) compared(uri string) *Sink {
	w.Helper()
	s := lived(w, uri, "x", nil)
	w.Cleanup(func() {
		w.closed(s)
		mustExec(w, w.db, "DELETE FROM "+fenceTable+s.cfg.fenced())
	})
	return s
}

// putting is a transaction that makes the row of id 1 say v.
func (w *world) putting(tab *event.Table, v string) []event.Txn {
	return []event.Txn{w.txn(w.row(tab, 1, cells("1", "x"), cells("1", v)))}
}

// What was sent and has not come when its connection breaks comes after the same
// rows were written again and changed: it is refused. The KILL of lost connections is
// taken away here, since it would do, where it can be done, before the packet comes.
func TestAttemptThatComesLateIsRefused(t *testing.T) {
	for _, multi := range []string{"true", "false"} {
		t.Run("multi="+multi, func(t *testing.T) {
			w := newWorld(t)
			tab := w.create("create table t (id int primary key, v varchar(10))")
			p := newProxy(t, server.Addr())
			s := w.compared(p.uri("worker-count=1", "multi-stmt-enable="+multi))
			if err := s.writeNow(t.Context(), under(3), w.putting(tab, "first")); err != nil {
				t.Fatal(err)
			}
			was := s.lanes[0].session.post.life
			text := "stale"
			if multi == "false" {
				text = "SELECT EXP" // what follows is sent by nobody: the last that can come late
			}
			h := p.holdAt(text)
			if err := s.writeNow(t.Context(), under(3), w.putting(tab, "stale")); err != nil {
				t.Fatal(err)
			}
			if err := s.writeNow(t.Context(), under(3), w.putting(tab, "new")); err != nil {
				t.Fatal(err)
			}
			if s.lanes[0].session.post.life == was {
				t.Error("the life did not grow with an attempt whose end is not known")
			}
			if answer := h.release(t); !bytes.Contains(answer, refusedAnswer) {
				t.Errorf("the server answered %q", answer)
			}
			w.want("select v from t", "new")
		})
	}
}

// A process that is gone for good, with a packet on its way; the one after it has
// written meanwhile.
func TestEarlierLifeIsRefused(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10))")
	p := newProxy(t, server.Addr())
	old := w.compared(p.uri("worker-count=4", "reconnect-timeout=1ms"))
	h := p.holdAt("stale")
	if err := old.writeNow(t.Context(), under(3), w.putting(tab, "stale")); err == nil && w.rows("select v from t")[0] != "stale" {
		t.Fatal("lost")
	}
	next := w.compared(server.URI() + "?worker-count=2")
	if err := next.writeNow(t.Context(), under(3), w.putting(tab, "new")); err != nil {
		t.Fatal(err)
	}
	if answer := h.release(t); bytes.Contains(answer, []byte("new")) {
		t.Errorf("the server answered %q", answer)
	}
	w.want("select v from t", "new")
	// And when it goes on it does not get far: not with rows, a DDL or a sync point.
	if err := old.writeNow(t.Context(), under(3), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("a row: %v", err)
	}
	if err := old.DDL(t.Context(), under(3), w.numbered(&event.DDL{Action: event.ActionDropTable, Query: "drop table t", Tables: []event.TableChange{{Before: tab}}})); !cdcerr.Fenced.Is(err) {
		t.Errorf("a DDL: %v", err)
	}
	if err := old.SyncPoint(t.Context(), under(3), event.SyncPoint{TS: w.ts}); !cdcerr.Fenced.Is(err) {
		t.Errorf("a sync point: %v", err)
	}
	w.want("select v from t", "new")
	if err := next.writeNow(t.Context(), under(3), w.putting(tab, "newer")); err != nil {
		t.Error(err)
	}
	w.want("select v from t", "newer")
}

// A process that stopped between its rows and its COMMIT is waited for: what comes
// after it is the later. If it does not go on the server ends its transaction.
func TestOpenTransactionIsWaitedFor(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		t.Run(fmt.Sprint("goes on=", goesOn), func(t *testing.T) {
			w := newWorld(t)
			tab := w.create("create table t (id int primary key, v varchar(10))")
			p := newProxy(t, server.Addr())
			old := w.compared(p.uri("worker-count=1", "multi-stmt-enable=false", "reconnect-timeout=1ms"))
			if err := old.writeNow(t.Context(), under(3), w.putting(tab, "first")); err != nil {
				t.Fatal(err)
			}
			h := p.holdAt("COMMIT")
			p.dieAfterHold()
			if err := old.writeNow(t.Context(), under(3), w.putting(tab, "stale")); err == nil {
				t.Fatal("no error")
			}
			next := w.compared(server.URI())
			var g errgroup.Group
			g.Go(func() error { return next.writeNow(context.Background(), under(3), w.putting(tab, "new")) })
			if goesOn {
				w.waiting(fenceTable)
				w.want("select v from t", "first")
				h.release(t)
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if !goesOn {
				h.release(t)
			}
			w.want("select v from t", "new")
		})
	}
}

// Raise returns when what was begun under a lower term is durable or will never be.
func TestRaise(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10))")
	p := newProxy(t, server.Addr())
	owner := w.compared(server.URI())
	old := w.compared(p.uri("worker-count=1", "multi-stmt-enable=false", "reconnect-timeout=1ms"))
	old.cfg.Capture = "one"
	other := w.compared(server.URI())
	other.cfg.Capture = "two"
	for _, s := range []*Sink{old, other} {
		if err := s.writeNow(t.Context(), under(5), w.putting(tab, "first")); err != nil {
			t.Fatal(err)
		}
	}
	h := p.holdAt("COMMIT")
	p.dieAfterHold()
	if err := old.writeNow(t.Context(), under(5), w.putting(tab, "begun")); err == nil {
		t.Fatal("no error")
	}
	var g errgroup.Group
	g.Go(func() error { return owner.Raise(context.Background(), "one", 7) })
	w.waiting(fenceTable)
	h.release(t)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if v := w.rows("select v from t")[0]; v != "begun" && v != "first" { // first: it took longer than idleTransaction to come here
		t.Errorf("the row is %s", v)
	}
	p.live()
	if err := old.writeNow(t.Context(), under(5), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("written under a term that is over: %v", err)
	}
	if err := other.writeNow(t.Context(), under(5), w.putting(tab, "other")); err != nil {
		t.Errorf("another capture's fence is not concerned: %v", err)
	}
	// Nor under the new one, before it has taken its place again; and a raise that comes twice or late
	// changes nothing.
	if err := old.writeNow(t.Context(), under(7), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("written in a place that was taken away: %v", err)
	}
	old = w.compared(server.URI())
	old.cfg.Capture = "one"
	if err := old.writeNow(t.Context(), under(7), w.putting(tab, "again")); err != nil {
		t.Errorf("refused under the new term: %v", err)
	}
	for _, term := range []uint64{7, 6} {
		if err := owner.Raise(t.Context(), "one", term); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.writeNow(t.Context(), under(7), w.putting(tab, "more")); err != nil {
		t.Error(err)
	}
	w.want("select v from t", "more")
	// Who has never come finds a floor as well.
	if err := owner.Raise(t.Context(), "three", 9); err != nil {
		t.Fatal(err)
	}
	late := w.compared(server.URI())
	late.cfg.Capture = "three"
	if err := late.writeNow(t.Context(), under(8), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("opened below its floor: %v", err)
	}
	if err := late.writeNow(t.Context(), under(9), w.putting(tab, "late")); err != nil {
		t.Error(err)
	}
	w.want("select v from t", "late")
}

// A new owner that has raised its own fence knows all captures that ever will have
// a place under earlier ones.
func TestFloorsAreKnownToANewOwner(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10))")
	owner, one, two := w.compared(server.URI()), w.compared(server.URI()), w.compared(server.URI())
	one.cfg.Capture, two.cfg.Capture = "one", "two"
	if err := one.writeNow(t.Context(), under(2<<termBits), w.putting(tab, "one")); err != nil {
		t.Fatal(err)
	}
	if err := owner.Raise(t.Context(), "", 3); err != nil {
		t.Fatal(err)
	}
	if floors, err := owner.Floors(t.Context()); err != nil || !slices.Equal(floors, []string{"one"}) {
		t.Fatalf("%q, %v", floors, err)
	}
	if err := two.writeNow(t.Context(), under(2<<termBits+5), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("a place under an owner that is over: %v", err)
	}
	if err := two.writeNow(t.Context(), under(3<<termBits), w.putting(tab, "two")); err != nil {
		t.Error(err)
	}
	if err := one.writeNow(t.Context(), under(2<<termBits), w.putting(tab, "one")); err != nil {
		t.Errorf("a capture that was not fenced off writes on: %v", err)
	}
	w.want("select v from t", "one")
}

// When a changefeed is removed its fence goes too, and what comes then is refused.
func TestForgottenFenceRefuses(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, v varchar(10))")
	s := w.compared(server.URI())
	if err := s.writeNow(t.Context(), under(1), w.putting(tab, "first")); err != nil {
		t.Fatal(err)
	}
	if err := Forget(t.Context(), s.cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.writeNow(t.Context(), under(1), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("written without a fence: %v", err)
	}
	again := w.compared(server.URI())
	if err := again.writeNow(t.Context(), under(1), w.putting(tab, "new")); err != nil {
		t.Fatal(err)
	}
	if err := s.writeNow(t.Context(), under(1), w.putting(tab, "stale")); !cdcerr.Fenced.Is(err) {
		t.Errorf("a changefeed made anew has the old one's life: %v", err)
	}
	w.want("select v from t", "new")
}

// Who may not write the fence hears of it when the changefeed is made, with what is to
// be granted and what does without.
func TestFenceTakesRights(t *testing.T) {
	w := newWorld(t)
	s := w.compared(server.URI()) // so that the table is there
	mustExec(t, w.db, "CREATE OR REPLACE USER unfenced")
	t.Cleanup(func() { mustExec(t, w.db, "DROP USER unfenced") })
	open := func(params string) error {
		cfg, err := ParseURI(strings.Replace(server.URI(), "root", "unfenced", 1) + params)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Changefeed, cfg.Life = t.Name(), "x"
		opened, err := Open(t.Context(), cfg, nil, testLog(t))
		if err == nil {
			w.closed(opened)
		}
		return err
	}
	for _, rights := range []string{"", "SELECT", "SELECT, INSERT"} {
		if rights != "" {
			mustExec(t, w.db, "GRANT "+rights+" ON tidb_cdc.* TO unfenced")
		}
		err := open("?enable-ddl-ts=false")
		if !cdcerr.MySQLAccessDenied.Is(err) || !strings.Contains(err.Error(), "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON tidb_cdc.*") || !strings.Contains(err.Error(), "enable-fence=false") {
			t.Errorf("with %q: %v", rights, err)
		}
	}
	if err := open("?enable-ddl-ts=false&enable-fence=false"); err != nil {
		t.Errorf("without a fence: %v", err)
	}
	if !s.Fences() {
		t.Error("the fence is not on by default")
	}
}

// BenchmarkFence is how long the same takes with the fence and without, in turn: the
// ratio of the two.
func BenchmarkFence(b *testing.B) {
	const txnsPerWrite = 100
	for _, rowsPerTxn := range []int{1, 20, 256} {
		b.Run(fmt.Sprintf("rows=%d", rowsPerTxn), func(b *testing.B) {
			db := openDB(b)
			mustExec(b, db, "CREATE OR REPLACE DATABASE bench")
			mustExec(b, db, "CREATE TABLE bench.t (id bigint primary key, k int, c varchar(120), pad varchar(60))")
			tab := tableOf(b, "bench", "create table t (id bigint primary key, k int, c varchar(120), pad varchar(60))")
			row := image(b, tab, "0", "7", strings.Repeat("c", 120), strings.Repeat("p", 60))
			var sinks [2]*Sink
			var took [2][]time.Duration
			for i, params := range []string{"?enable-fence=false", "?enable-fence=true"} {
				// One upstream transaction is one downstream, so that each passes the fence.
				sinks[i] = lived(b, fmt.Sprintf("%s%s&worker-count=4&max-txn-row=%d", server.URI(), params, rowsPerTxn), "x", nil)
			}
			n := 0
			for turn := 0; b.Loop(); turn++ {
				for k := range sinks {
					i := (turn + k) % 2 // who goes first pays for what the other left to be done
					txns := make([]event.Txn, txnsPerWrite)
					for at := range txns {
						txns[at].CommitTS = tso.TS(n + 1) //nolint:gosec // above 0
						for range rowsPerTxn {
							after := slices.Clone(row)
							after[0] = event.IntValue(int64(n % 20_000))
							txns[at].Rows = append(txns[at].Rows, &event.Row{Table: tab, Key: fmt.Appendf(nil, "t_r%08d", n), After: after})
							n++
						}
					}
					began := time.Now()
					if err := sinks[i].writeNow(b.Context(), sink.Endless, txns); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			median := func(of []time.Duration) float64 { // others work on this machine too
				slices.Sort(of)
				return float64(of[len(of)/2].Nanoseconds()) / 1000 / txnsPerWrite
			}
			without, with := median(took[0]), median(took[1])
			b.ReportMetric(without, "without-µs/txn")
			b.ReportMetric(with, "with-µs/txn")
			b.ReportMetric(with/without, "ratio")
			for _, s := range sinks {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			mustExec(b, db, "DROP DATABASE bench")
		})
	}
}
