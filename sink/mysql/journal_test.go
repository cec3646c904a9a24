package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
)

// What is kept of a redo log is read by whoever comes next, and written by nobody who has
// lost its place; a changefeed that never had one makes no table for it.
func TestJournal(t *testing.T) {
	w := newWorld(t)
	s := w.compared(server.URI())
	leave, err := s.TakeOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tables := func() int { return len(w.rows("show tables from tidb_cdc like 'sluice_redo_v1'")) }
	if err := s.Note(t.Context(), leave, func(*sink.Journal) bool { return false }); err != nil || tables() != 0 {
		t.Fatalf("%v, %d tables", err, tables())
	}
	if j, err := s.Journal(t.Context()); j != nil || err != nil {
		t.Fatalf("%+v, %v", j, err)
	}
	note := func(s *Sink, leave sink.Leave, log string) error {
		return s.Note(t.Context(), leave, func(j *sink.Journal) bool { j.Log, j.Passed = log, j.Passed+5; return true })
	}
	if err := note(s, leave, "it's"); err != nil {
		t.Fatal(err)
	}
	later := lived(t, server.URI(), "y", nil)
	defer w.closed(later)
	theirs, err := later.TakeOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if j, err := later.Journal(t.Context()); err != nil || j == nil || *j != (sink.Journal{Log: "it's", Passed: 5}) {
		t.Errorf("%+v, %v", j, err)
	}
	if err := note(s, leave, "stale"); !cdcerr.Fenced.Is(err) {
		t.Errorf("who has lost its place: %v", err)
	}
	if err := note(later, theirs, "next"); err != nil {
		t.Error(err)
	}
	if j, err := later.Journal(t.Context()); err != nil || *j != (sink.Journal{Log: "next", Passed: 10}) {
		t.Errorf("%+v, %v", j, err)
	}
	if err := Forget(t.Context(), later.cfg); err != nil {
		t.Fatal(err)
	}
	if j, err := later.Journal(t.Context()); j != nil || err != nil {
		t.Errorf("after its removal: %+v, %v", j, err)
	}
	// Who may write only what a changefeed without a log needs is told what one with a log does.
	mustExec(t, w.db, "CREATE USER single@'%' IDENTIFIED BY 's'")
	defer mustExec(t, w.db, "DROP USER single@'%'")
	for _, table := range []string{"sluice_fence_v1", "ddl_ts_v1"} {
		mustExec(t, w.db, "GRANT ALL ON tidb_cdc."+table+" TO single@'%'")
	}
	single := lived(t, strings.Replace(server.URI(), "root", "single:s", 1), "x", nil)
	defer w.closed(single)
	if err := note(single, sink.Endless, "x"); !cdcerr.MySQLAccessDenied.Is(err) || !strings.Contains(err.Error(), "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON tidb_cdc.*") {
		t.Errorf("without the privilege: %v", err)
	}
	free := lived(t, server.URI()+"?enable-fence=false", "x", nil)
	defer w.closed(free)
	if free.Journals() {
		t.Error("without a fence anybody may have written")
	}
}
