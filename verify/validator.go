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
// the same one: the same keys. One that comes in pieces (event.Txn) is judged as
// the whole that they make.
type Transaction struct {
	done map[txnID]keyset
	last txnID
	open *pieces // nil: no transaction has pieces to come
}

type txnID struct{ commit, start tso.TS }

// keyset is a set of keys by size and sum of hashes: enough to tell a repeated
// transaction from a torn one without keeping its keys.
type keyset struct {
	n   int
	sum uint64
}

// pieces is what came of one transaction so far. given are its keys: true where
// all that came is a deletion, behind which an insert may be the change's other half.
type pieces struct {
	id    txnID
	n     int // pieces so far; 0 for a transaction that comes whole
	keys  keyset
	given map[string]bool
}

// NewTransaction has seen nothing.
func NewTransaction() *Transaction {
	return &Transaction{done: map[txnID]keyset{}}
}

// Txn takes the next transaction, or the next piece of one.
func (v *Transaction) Txn(t *event.Txn) error {
	id := txnID{commit: t.CommitTS, start: t.StartTS}
	p, err := v.begin(id, t)
	if err != nil {
		return err
	}
	if err := p.add(t); err != nil || t.More {
		return err
	}
	if t.Piece > 0 {
		v.open = nil
	}
	if was, again := v.done[id]; again {
		if was != p.keys {
			return cdcerr.Bug("transaction start-ts %d commit-ts %d is torn: %d rows came before, %d now and not the same keys",
				t.StartTS, t.CommitTS, was.n, p.keys.n)
		}
		return nil
	}
	if id.commit < v.last.commit || id.commit == v.last.commit && id.start < v.last.start {
		return cdcerr.Bug("transaction start-ts %d commit-ts %d came after start-ts %d commit-ts %d",
			t.StartTS, t.CommitTS, v.last.start, v.last.commit)
	}
	v.done[id], v.last = p.keys, id
	return nil
}

// begin finds what t's rows belong to. A transaction whose pieces broke off may
// begin anew, and what lies before it may come again first.
func (v *Transaction) begin(id txnID, t *event.Txn) (*pieces, error) {
	if _, again := v.done[id]; !again && v.open != nil && v.open.id != id {
		broken := v.open
		v.open = nil
		return nil, cdcerr.Bug("transaction start-ts %d commit-ts %d is torn: start-ts %d commit-ts %d came after its piece %d, which was not the last",
			broken.id.start, broken.id.commit, t.StartTS, t.CommitTS, broken.n)
	}
	switch {
	case t.Piece <= 1:
		p := &pieces{id: id, n: t.Piece, given: make(map[string]bool, len(t.Rows))}
		if t.Piece == 1 {
			v.open = p
		}
		return p, nil
	case v.open == nil || v.open.id != id || v.open.n != t.Piece-1:
		return nil, cdcerr.Bug("transaction start-ts %d commit-ts %d is torn: its piece %d came without the one before", t.StartTS, t.CommitTS, t.Piece)
	}
	v.open.n = t.Piece
	return v.open, nil
}

// add takes the rows of a transaction, or of its next piece.
func (p *pieces) add(t *event.Txn) error {
	if len(t.Rows) == 0 {
		return cdcerr.Bug("transaction start-ts %d commit-ts %d has no rows", t.StartTS, t.CommitTS)
	}
	hash := fnv.New64a()
	for _, r := range t.Rows {
		if r.CommitTS != t.CommitTS || r.StartTS != t.StartTS {
			return cdcerr.Bug("transaction start-ts %d commit-ts %d holds a row of start-ts %d commit-ts %d (%s)",
				t.StartTS, t.CommitTS, r.StartTS, r.CommitTS, r.Table.FullName())
		}
		given, before := p.given[string(r.Key)]
		if before && (p.n == 0 || !given || r.Before != nil) {
			return cdcerr.Bug("transaction start-ts %d commit-ts %d holds key %X of %s twice",
				t.StartTS, t.CommitTS, r.Key, r.Table.FullName())
		}
		p.given[string(r.Key)] = r.After == nil
		if before {
			continue
		}
		hash.Reset()
		_, _ = hash.Write(r.Key)
		p.keys.n++
		p.keys.sum += hash.Sum64()
	}
	return nil
}
