package verify

import (
	"hash/fnv"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Seen remembers every commit-ts of every key. It has to remember all of them: a
// delivery that repeats an old one is forgiven at any distance, and only memory
// tells it from a new row that comes late. The validators of one changefeed share
// one.
type Seen struct {
	of map[string][]tso.TS // by key, ascending
}

// NewSeen has seen nothing.
func NewSeen() *Seen { return &Seen{of: map[string][]tso.TS{}} }

// Has tells whether this change of this key came before.
func (s *Seen) Has(r *event.Row) bool {
	_, again := slices.BinarySearch(s.of[string(r.Key)], r.CommitTS)
	return again
}

// Add remembers a row. Rows of one key come in order but for a fault, so that
// this appends.
func (s *Seen) Add(r *event.Row) {
	all := s.of[string(r.Key)]
	if at, again := slices.BinarySearch(all, r.CommitTS); !again {
		s.of[string(r.Key)] = slices.Insert(all, at, r.CommitTS)
	}
}

// latest is the key's highest commit-ts so far.
func (s *Seen) latest(r *event.Row) tso.TS {
	if all := s.of[string(r.Key)]; len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

// Order checks that the rows of one key arrive in the order of their commit-ts.
// A row that was seen before may come again.
type Order struct{ seen *Seen }

// NewOrder judges by what was seen; whoever calls Row adds the row afterwards.
func NewOrder(seen *Seen) *Order { return &Order{seen} }

// Row takes the next row.
func (o *Order) Row(r *event.Row) error {
	if last := o.seen.latest(r); r.CommitTS < last && !o.seen.Has(r) {
		return cdcerr.Bug("order: key %X of %s came at commit-ts %d after %d (start-ts %d)",
			r.Key, r.Table.FullName(), r.CommitTS, last, r.StartTS)
	}
	return nil
}

// Resolved checks P4: once a resolved-ts (a sink's checkpoint is one) is out, no
// row at or below it comes that was not seen before; and P3: it never goes back.
type Resolved struct {
	seen *Seen
	at   tso.TS // no new row at or below it
	last tso.TS
}

// NewResolved starts at a changefeed's start-ts: its rows lie above that, while
// the first resolved-ts may lie just below, before the DDLs at the start-ts itself.
// Whoever calls Row adds the row to what was seen afterwards.
func NewResolved(seen *Seen, start tso.TS) *Resolved {
	return &Resolved{seen: seen, at: start, last: start.Prev()}
}

// Row takes the next row.
func (v *Resolved) Row(r *event.Row) error {
	if r.CommitTS <= v.at && !v.seen.Has(r) {
		return cdcerr.Bug("P4: key %X of %s came at commit-ts %d, resolved-ts %d was out (start-ts %d)",
			r.Key, r.Table.FullName(), r.CommitTS, v.at, r.StartTS)
	}
	return nil
}

// Resolved takes the next resolved-ts.
func (v *Resolved) Resolved(ts tso.TS) error {
	if ts < v.last {
		return cdcerr.Bug("P3: resolved-ts went back from %d to %d", v.last, ts)
	}
	v.at, v.last = max(v.at, ts), ts
	return nil
}

// Transaction checks that the rows of one upstream transaction arrive together,
// once, in (commit-ts, start-ts) order. A transaction that comes again must be
// the same one: the same keys.
type Transaction struct {
	done map[txnID]keyset
	last txnID
}

type txnID struct{ commit, start tso.TS }

// keyset is a set of keys by size and sum of hashes: enough to tell a repeated
// transaction from a torn one without keeping its keys.
type keyset struct {
	n   int
	sum uint64
}

// NewTransaction has seen nothing.
func NewTransaction() *Transaction {
	return &Transaction{done: map[txnID]keyset{}}
}

// Txn takes the next transaction.
func (v *Transaction) Txn(t *event.Txn) error {
	id := txnID{commit: t.CommitTS, start: t.StartTS}
	keys, err := keysOf(t)
	if err != nil {
		return err
	}
	if was, again := v.done[id]; again {
		if was != keys {
			return cdcerr.Bug("transaction start-ts %d commit-ts %d is torn: %d rows came before, %d now and not the same keys",
				t.StartTS, t.CommitTS, was.n, keys.n)
		}
		return nil
	}
	if id.commit < v.last.commit || id.commit == v.last.commit && id.start < v.last.start {
		return cdcerr.Bug("transaction start-ts %d commit-ts %d came after start-ts %d commit-ts %d",
			t.StartTS, t.CommitTS, v.last.start, v.last.commit)
	}
	v.done[id], v.last = keys, id
	return nil
}

func keysOf(t *event.Txn) (keyset, error) {
	if len(t.Rows) == 0 {
		return keyset{}, cdcerr.Bug("transaction start-ts %d commit-ts %d has no rows", t.StartTS, t.CommitTS)
	}
	var set keyset
	in := make(map[string]struct{}, len(t.Rows))
	hash := fnv.New64a()
	for _, r := range t.Rows {
		if r.CommitTS != t.CommitTS || r.StartTS != t.StartTS {
			return set, cdcerr.Bug("transaction start-ts %d commit-ts %d holds a row of start-ts %d commit-ts %d (%s)",
				t.StartTS, t.CommitTS, r.StartTS, r.CommitTS, r.Table.FullName())
		}
		if _, twice := in[string(r.Key)]; twice {
			return set, cdcerr.Bug("transaction start-ts %d commit-ts %d holds key %X of %s twice",
				t.StartTS, t.CommitTS, r.Key, r.Table.FullName())
		}
		in[string(r.Key)] = struct{}{}
		hash.Reset()
		_, _ = hash.Write(r.Key)
		set.n++
		set.sum += hash.Sum64()
	}
	return set, nil
}
