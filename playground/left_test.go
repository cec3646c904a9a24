package playground

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// dying is a database whose process is killed at the DDL that makes a table of
// that name: nothing more is said to the server, not even a farewell.
type dying struct {
	*database
	table string
}

var errKilled = errors.New("killed")

func (d *dying) open(ctx context.Context, a *attached) (sink.Sink, error) {
	s, err := d.database.open(ctx, a)
	if err != nil {
		return nil, err
	}
	return &killer{s, d}, nil
}

type killer struct {
	sink.Sink
	of *dying
}

func (k *killer) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	err := k.Sink.DDL(ctx, g, d)
	for _, t := range tablesAfter(d) {
		if t.table == k.of.table {
			return errKilled
		}
	}
	return err
}

func databaseOf(t *testing.T, server *mariadb.Server) *database {
	t.Helper()
	opened, err := openTarget(t.Context(), server.URI(), false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*database)
}

// What a killed run left is known for the playground's own; what somebody else
// made beside it is not.
func TestWhatAKilledRunLeftIsItsOwn(t *testing.T) {
	server := mariadb.Start(t)
	victim := &dying{databaseOf(t, server), "om3"}
	r, err := recordingOf(golden + "/workloads/onlinemodify.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	p := &player{options: &Options{Verify: true}, target: victim, out: io.Discard, words: io.Discard, log: slog.New(slog.DiscardHandler)}
	if _, err := p.one(t.Context(), r); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if err := errors.Join(victim.locks.release(), victim.db.Close()); err != nil {
		t.Fatal(err)
	}
	db := server.DB()
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 'om3'").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	run := []string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", server.URI(), "--verify"}
	if _, err := db.Exec("CREATE TABLE test.mine (a int)"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, run...); status != couldNotRun || !strings.Contains(stderr, ": test.mine;") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, err := db.Exec("DROP TABLE test.mine"); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := command(t, run...); status != allEqual {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	// The record is as exact as ever.
	var left string
	err = db.QueryRow("SELECT GROUP_CONCAT(tbl ORDER BY tbl) FROM sluice_playground.left_tables WHERE db = 'test'").Scan(&left)
	var stands string
	err = errors.Join(err, db.QueryRow("SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.tables WHERE table_schema = 'test'").Scan(&stands))
	if err != nil || left != stands {
		t.Errorf("on record %q, there %q: %v", left, stands, err)
	}
}

// Two playgrounds do not write to one database at once.
func TestASecondPlaygroundIsRefused(t *testing.T) {
	server := mariadb.Start(t)
	first := databaseOf(t, server)
	if err := first.claim(t.Context(), []string{"test", "other"}); err != nil {
		t.Fatal(err)
	}
	run := []string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", server.URI(), "--verify"}
	for _, args := range [][]string{run, append(run, "--drop-existing")} {
		if status, stdout, stderr := command(t, args...); status != couldNotRun || stdout != "" || !strings.Contains(stderr, "another playground writes to database test now") {
			t.Errorf("status %d, %q, %q", status, stdout, stderr)
		}
	}
	second := databaseOf(t, server)
	if err := errors.Join(second.claim(t.Context(), []string{"elsewhere"}), second.close(t.Context())); err != nil {
		t.Error("another database is free: ", err)
	}
	if err := first.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, run...); status != allEqual {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// A user who may not keep the record is told so before anything is written.
func TestWithoutARecordNothingIsWritten(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"CREATE USER narrow@'%' IDENTIFIED BY 'x'", "GRANT ALL ON test.* TO narrow@'%'"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	uri := strings.Replace(server.URI(), "root@", "narrow:x@", 1)
	status, stdout, stderr := command(t, "--recording", golden+"/20_system.jsonl.gz", "--sink-uri", uri, "--verify")
	if status != couldNotRun || stdout != "" || !strings.Contains(stderr, "grant the user all rights on sluice_playground.*") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test'").Scan(&n); err != nil || n != 0 {
		t.Error(n, err)
	}
}

// A server whose tables would have no transactions gets some that have.
func TestTablesHaveTransactions(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	if _, err := db.Exec("SET GLOBAL default_storage_engine = MyISAM"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, "--recording", golden+"/09_conflict.jsonl.gz", "--sink-uri", server.URI(), "--verify"); status != allEqual {
		t.Errorf("status %d, %q", status, stderr)
	}
	var n, other int
	if err := db.QueryRow("SELECT COUNT(*), SUM(engine <> 'InnoDB') FROM information_schema.tables WHERE table_schema = 'test'").Scan(&n, &other); err != nil || n == 0 || other != 0 {
		t.Error(n, other, err)
	}
}
