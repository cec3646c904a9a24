package playground

import (
	"database/sql"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// within carries statements out in one transaction.
func within(t *testing.T, db *sql.DB, statements ...string) error {
	conn, err := db.Conn(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, q := range append(append([]string{"BEGIN"}, statements...), "COMMIT") {
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// The engine by itself has the later of two commits take back what the other one wrote.
func TestTheEmbeddedDatabaseKeepsTransactionsApart(t *testing.T) {
	db := client(t, serve(t))
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	const writers, each = 4, 20
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			for i := range each {
				id := 1000*w + 2*i
				err := within(t, db, fmt.Sprintf("INSERT INTO d.t VALUES (%d)", id), fmt.Sprintf("INSERT INTO d.t VALUES (%d)", id+1))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM d.t").Scan(&n); err != nil || n != 2*writers*each {
		t.Errorf("%d rows, %v", n, err)
	}
}

// A client that dies in a transaction holds nobody up, and leaves nothing of it.
func TestTheEmbeddedDatabaseEndsTheTransactionsOfTheDead(t *testing.T) {
	e := serve(t)
	db := client(t, e)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	dead := openDSN(t, "root@tcp("+e.Addr()+")/")
	for _, q := range []string{"BEGIN", "INSERT INTO d.t VALUES (1)"} {
		dead.SetMaxOpenConns(1)
		if _, err := dead.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := within(t, db, "INSERT INTO d.t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	var id int
	if err := db.QueryRow("SELECT SUM(id) FROM d.t").Scan(&id); err != nil || id != 2 {
		t.Errorf("the sum is %d, %v", id, err)
	}
}
