package mysql

import (
	"sync"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// warned collects what a sink warns of.
type warned struct {
	mu  sync.Mutex
	all []error
}

func (w *warned) take(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, err)
}

// told gives what there was and forgets it.
func (w *warned) told() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.all
	w.all = nil
	return out
}

// What is ridden out is told as soon as a retry has failed, with its code, and what
// is none is not.
func TestWhatIsRiddenOutIsTold(t *testing.T) {
	w := newWorld(t)
	p := w.through("worker-count=1")
	heard := new(warned)
	w.sink.cfg.Warn = heard.take
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	if all := heard.told(); len(all) != 0 {
		t.Error(all)
	}
	p.cutAt(cut{"REPLACE", true})
	w.insert(tab, cells("2"))
	if all := heard.told(); len(all) != 0 {
		t.Error("what the first retry mended was told:", all)
	}
	p.cutAt(cut{"REPLACE", true}, cut{"REPLACE", true})
	w.insert(tab, cells("3"))
	if all := heard.told(); len(all) != 1 || !cdcerr.MySQLConnection.Is(all[0]) {
		t.Error(all)
	}
	p.cutAt(cut{"ALTER", true}, cut{"ALTER", true}, cut{"ALTER", true})
	w.alter(tab, "alter table t add column c int", "create table t (id int primary key, c int)")
	if all := heard.told(); len(all) != 1 || !cdcerr.MySQLConnection.Is(all[0]) {
		t.Error(all)
	}
	w.want("select id from t", "1", "2", "3")
}

// A connection that the server ended while nobody wrote, by wait_timeout or
// otherwise, is opened anew before anything is begun on it: nothing has failed.
func TestIdleConnections(t *testing.T) {
	w := newWorld(t)
	w.sink = openURI(t, server.URI()+"?worker-count=1")
	heard := new(warned)
	w.sink.cfg.Warn = heard.take
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	lane := w.sink.lanes[0].session
	var id string
	if err := lane.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	mustExec(t, w.db, "KILL "+id)
	for column(t, w.db, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = "+id)[0] != "0" {
	}
	lane.used = time.Now().Add(-2 * idleLong)
	w.insert(tab, cells("2"))
	if all := heard.told(); len(all) != 0 {
		t.Error(all)
	}
	w.want("select id from t", "1", "2")
	// One that was used just now is found out by its statement, and the first retry
	// does it.
	if err := lane.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	mustExec(t, w.db, "KILL "+id)
	w.insert(tab, cells("3"))
	if all := heard.told(); len(all) != 0 {
		t.Error(all)
	}
	w.want("select id from t", "1", "2", "3")
}
