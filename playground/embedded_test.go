package playground

import (
	"context"
	"database/sql"
	"net"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// serve runs an embedded database until the test ends.
func serve(t *testing.T) *Embedded {
	t.Helper()
	e, err := OpenEmbedded(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return e.Run(ctx) })
	t.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func openDSN(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func client(t *testing.T, e *Embedded) *sql.DB {
	t.Helper()
	db := openDSN(t, "root@tcp("+e.Addr()+")/")
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// What the engine would take and forget is refused, whichever way it comes.
func TestTheEmbeddedDatabaseRefusesPartitions(t *testing.T) {
	db := client(t, serve(t))
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY, v varchar(40) COMMENT 'PARTITION BY')",
		"INSERT INTO d.t VALUES (1, ' PARTITION BY ') /* PARTITION BY */", "INSERT INTO d.t VALUES (2, 'it''s PARTITION BY \\' x')"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for _, q := range []string{
		"CREATE TABLE d.p (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
		"create table d.p (id int primary key)\npartition\tby hash(id)",
		"ALTER TABLE d.t ADD PARTITION (PARTITION p VALUES LESS THAN (3))",
	} {
		if _, err := db.Exec(q); err == nil || !strings.Contains(err.Error(), "has no partitions") {
			t.Errorf("%s: %v", q, err)
		}
		if stmt, err := db.Prepare(q); err == nil {
			_ = stmt.Close()
			t.Errorf("prepared: %s", q)
		}
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM d.t WHERE v LIKE ?", "%PARTITION BY%").Scan(&n); err != nil || n != 2 {
		t.Fatal(n, err)
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	e := serve(t)
	_, port, err := net.SplitHostPort(e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseOptions([]string{"--mysql-port", port}, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenEmbedded(o.Port); !cdcerr.InvalidArgument.Is(err) || !strings.Contains(err.Error(), "--mysql-port "+port) {
		t.Fatal(err)
	}
}
