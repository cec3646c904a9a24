package mysql

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/sink"
)

// server is the MariaDB of this package's tests, each of which makes databases
// of its own.
var server *mariadb.Server

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-mysql")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if server, err = mariadb.Open(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// heavy asks for the forms of tests that take minutes: make heavy.
func heavy() bool { return os.Getenv("SLUICE_HEAVY") != "" }

// fewer runs the test's random cases that often, and says so: each takes the
// server some tenths of a second. With SLUICE_HEAVY, or a number by -rapid.checks,
// it changes nothing; under -short rapid takes a fifth by itself.
func fewer(t *testing.T, cases int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if before := checks.Value.String(); !heavy() && before == checks.DefValue {
		t.Logf("%d random cases instead of %s; all by SLUICE_HEAVY=1", cases, before)
		if err := flag.Set("rapid.checks", strconv.Itoa(cases)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := flag.Set("rapid.checks", before); err != nil {
				t.Error(err)
			}
		})
	}
}

// testLog logs where go test -v shows it.
func testLog(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(tbWriter{t}, nil))
}

type tbWriter struct{ testing.TB }

func (w tbWriter) Write(b []byte) (int, error) {
	w.Logf("%s", b)
	return len(b), nil
}

// openSink is a sink on the test server.
func openSink(t testing.TB, snapshot Snapshot) *Sink {
	t.Helper()
	cfg, err := ParseURI(server.URI())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), cfg, snapshot, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// writeNow writes and flushes.
func (s *Sink) writeNow(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	if err := s.Write(ctx, g, txns); err != nil {
		return err
	}
	return s.Flush(ctx)
}

// openDB is a pool on the test server, without any database.
func openDB(t testing.TB) *sql.DB {
	t.Helper()
	db := server.DB()
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// emptyServer drops all databases of earlier tests.
func emptyServer(t testing.TB, db *sql.DB) {
	t.Helper()
	for _, name := range column(t, db, "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('mysql','sys','information_schema','performance_schema')") {
		mustExec(t, db, "DROP DATABASE "+ident(name))
	}
}

func mustExec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// column is the first column of a query.
func column(t testing.TB, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		if !v.Valid {
			v.String = "NULL"
		}
		out = append(out, v.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
