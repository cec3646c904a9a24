package verify_test

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/verify"
)

// broken checks that an error is a broken belief and says why.
func broken(t *testing.T, err error, text string) {
	t.Helper()
	if !cdcerr.Unexpected.Is(err) || !strings.Contains(err.Error(), text) {
		t.Fatalf("want a broken belief with %q, got %v", text, err)
	}
}

// rowsInto is a validator whose rows are remembered, as a Judge does it.
func rowsInto(seen *verify.Seen, take func(*event.Row) error) func(*event.Row) error {
	return func(r *event.Row) error {
		err := take(r)
		seen.Add(r)
		return err
	}
}

func TestOrderForgivesWhatItSaw(t *testing.T) {
	a, seen := tableOf(7, "t"), verify.NewSeen()
	row := rowsInto(seen, verify.NewOrder(seen).Row)
	for _, ts := range []tso.TS{10, 12, 10, 12, 13} {
		if err := row(insert(a, ts, 1, "x")); err != nil {
			t.Fatal(err)
		}
	}
	broken(t, row(insert(a, 11, 1, "x")), "commit-ts 11 after 13")
	if err := row(insert(a, 11, 2, "x")); err != nil {
		t.Fatal("another key has an order of its own:", err)
	}
	for ts, want := range map[tso.TS]bool{9: false, 10: true, 11: true, 12: true, 13: true, 14: false} {
		if seen.Has(insert(a, ts, 1, "x")) != want {
			t.Errorf("seen at %d: %t", ts, !want)
		}
	}
}

func TestResolvedIsAPromise(t *testing.T) {
	a, seen := tableOf(7, "t"), verify.NewSeen()
	v := verify.NewResolved(seen, 5)
	broken(t, v.Row(insert(a, 5, 1, "x")), "resolved-ts 5 was out")
	if err := v.Resolved(4); err != nil {
		t.Fatal("before the DDLs at the start:", err)
	}
	broken(t, v.Resolved(3), "P3")
	broken(t, v.Row(insert(a, 5, 1, "x")), "P4")
	row := rowsInto(seen, v.Row)
	if err := row(insert(a, 10, 1, "x")); err != nil {
		t.Fatal(err)
	}
	if err := v.Resolved(10); err != nil {
		t.Fatal(err)
	}
	if err := row(insert(a, 10, 1, "x")); err != nil {
		t.Fatal("a repeated row is no new one:", err)
	}
	broken(t, row(insert(a, 10, 2, "x")), "P4")
	broken(t, v.Resolved(9), "P3")
}

func TestTransactionsAreWhole(t *testing.T) {
	a, v := tableOf(7, "t"), verify.NewTransaction()
	whole := txn(insert(a, 10, 1, "x"), insert(a, 10, 2, "x"))
	for range 2 {
		if err := v.Txn(whole); err != nil {
			t.Fatal(err)
		}
	}
	broken(t, v.Txn(txn(insert(a, 10, 1, "x"))), "torn")
	broken(t, v.Txn(txn(insert(a, 10, 1, "x"), insert(a, 10, 3, "x"))), "torn")
	broken(t, v.Txn(txn(insert(a, 9, 1, "x"))), "came after")
	broken(t, v.Txn(txn(insert(a, 12, 1, "x"), insert(a, 11, 2, "x"))), "holds a row of start-ts 10 commit-ts 11")
	broken(t, v.Txn(txn(insert(a, 12, 1, "x"), insert(a, 12, 1, "y"))), "twice")
	broken(t, v.Txn(&event.Txn{StartTS: 1, CommitTS: 20}), "no rows")
}

// pieceOf is one piece of the transaction of its rows.
func pieceOf(n int, more bool, rows ...*event.Row) *event.Txn {
	t := txn(rows...)
	t.Piece, t.More = n, more
	return t
}

func TestPiecesMakeATransaction(t *testing.T) {
	a, v := tableOf(7, "t"), verify.NewTransaction()
	take := func(all ...*event.Txn) {
		t.Helper()
		for _, one := range all {
			if err := v.Txn(one); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, last := pieceOf(1, true, insert(a, 10, 1, "x"), remove(a, 10, 2, "x")), pieceOf(2, false, insert(a, 10, 2, "y"))
	take(first, last, first, last)
	take(first, first, last) // it broke off, and began anew
	take(txn(insert(a, 10, 1, "x"), insert(a, 10, 2, "y")))
	broken(t, v.Txn(last), "without the one before")
	take(first)
	broken(t, v.Txn(pieceOf(3, false, insert(a, 10, 3, "x"))), "without the one before")
	broken(t, v.Txn(txn(insert(a, 12, 1, "x"))), "after its piece 1, which was not the last")
	take(first)
	broken(t, v.Txn(pieceOf(2, false, insert(a, 10, 1, "x"))), "twice")
	take(first)
	broken(t, v.Txn(pieceOf(2, false, insert(a, 10, 4, "x"))), "torn")
	broken(t, v.Txn(txn(remove(a, 13, 1, "x"), insert(a, 13, 1, "y"))), "twice")
}
