package topology

import (
	"fmt"

	"github.com/google/btree"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// Peer is one replica of a region.
type Peer struct {
	ID    uint64
	Store uint64
}

// Region is one piece of the key space, [Start, End) in encoded keys.
type Region struct {
	ID      uint64
	Start   span.Key
	End     span.Key
	Version uint64 // grows with every split and merge
	ConfVer uint64
	Peers   []Peer
	Leader  Peer
	Merging bool // the source of a merge that is under way

	// The borders as raw keys; rows are compared with these.
	RawStart []byte
	RawEnd   []byte
}

// Contains tells whether an encoded key lies in the region.
func (r *Region) Contains(k span.Key) bool { return k >= r.Start && (r.End == "" || k < r.End) }

// Map is all regions of a cluster. Together they always cover every key.
type Map struct {
	stores []uint64
	nextID uint64
	turn   int // whose turn it is to lead
	tree   *btree.BTreeG[*Region]
	byID   map[uint64]*Region
}

// New is one region over everything. Store ids are the caller's; ids of regions
// and peers begin at firstID.
func New(stores []uint64, firstID uint64) *Map {
	m := &Map{
		stores: stores,
		nextID: firstID,
		tree:   btree.NewG(32, func(a, b *Region) bool { return a.Start < b.Start }),
		byID:   map[uint64]*Region{},
	}
	m.put(m.place(&Region{ID: m.id(), Version: 1}))
	return m
}

// Len is the number of regions.
func (m *Map) Len() int { return len(m.byID) }

// ByID is the region of that id, nil where there is none.
func (m *Map) ByID(id uint64) *Region { return m.byID[id] }

// Find is the region that holds k. There always is one.
func (m *Map) Find(k span.Key) *Region {
	var found *Region
	m.tree.DescendLessOrEqual(&Region{Start: k}, func(r *Region) bool {
		found = r
		return false
	})
	return found
}

// Before is the region left of the one that holds k, nil for the first.
func (m *Map) Before(k span.Key) *Region {
	var found *Region
	m.tree.DescendLessOrEqual(&Region{Start: m.Find(k).Start}, func(r *Region) bool {
		if r.Contains(k) {
			return true
		}
		found = r
		return false
	})
	return found
}

// Range is the regions that hold keys of [start, end), in order; at most limit
// of them where limit > 0.
func (m *Map) Range(start, end span.Key, limit int) []*Region {
	var out []*Region
	m.tree.AscendGreaterOrEqual(&Region{Start: m.Find(start).Start}, func(r *Region) bool {
		if end != "" && r.Start >= end {
			return false
		}
		out = append(out, r)
		return limit <= 0 || len(out) < limit
	})
	return out
}

// Split cuts the region that holds raw at raw. The parts come back in key
// order: the left one is new, the right one keeps the id. ok is false where
// there already is a border, or the region is being merged.
func (m *Map) Split(raw []byte) (parts []*Region, ok bool) {
	at := span.EncodeKey(raw)
	old := m.Find(at)
	if old.Start == at || old.Merging {
		return nil, false
	}
	left, right := *old, *old
	left.ID = m.id()
	left.End, left.RawEnd = at, raw
	right.Start, right.RawStart = at, raw
	left.Version, right.Version = old.Version+1, old.Version+1
	left.Peers = make([]Peer, len(old.Peers))
	for i, p := range old.Peers {
		left.Peers[i] = Peer{m.id(), p.Store}
		if p.Store == old.Leader.Store {
			left.Leader = left.Peers[i]
		}
	}
	m.put(&left)
	m.put(&right)
	return []*Region{&left, &right}, true
}

// Lead makes the replica on a store the leader of a region.
func (m *Map) Lead(region, store uint64) (*Region, error) {
	old := m.byID[region]
	if old == nil {
		return nil, cdcerr.InvalidArgument.New("region %d: there is none of this id", region)
	}
	for _, p := range old.Peers {
		if p.Store == store {
			next := *old
			next.Leader = p
			m.put(&next)
			return &next, nil
		}
	}
	return nil, cdcerr.InvalidArgument.New("store %d: region %d has no replica there", store, region)
}

// Spread hands the leaders out to the stores in turn, in key order.
func (m *Map) Spread() {
	for _, r := range m.Range("", "", 0) {
		next := *r
		next.Leader = next.Peers[m.turn%len(next.Peers)]
		m.turn++
		m.put(&next)
	}
}

// Check verifies that the regions cover every key exactly once (P2).
func (m *Map) Check() error {
	want, n := span.Key(""), 0
	var err error
	m.tree.Ascend(func(r *Region) bool {
		if r.Start != want || (n > 0 && want == "") || m.byID[r.ID] != r {
			err = fmt.Errorf("region %d starts at %X, want %X", r.ID, string(r.Start), string(want))
		}
		want = r.End
		n++
		return err == nil
	})
	if err == nil && (want != "" || n != len(m.byID)) {
		err = fmt.Errorf("%d regions in key order end at %X, %d by id", n, string(want), len(m.byID))
	}
	return err
}

// place gives a region a replica on every store (so that any store can be made
// its leader) and a leader.
func (m *Map) place(r *Region) *Region {
	r.ConfVer = uint64(len(m.stores))
	for _, store := range m.stores {
		r.Peers = append(r.Peers, Peer{m.id(), store})
	}
	r.Leader = r.Peers[0]
	return r
}

func (m *Map) put(r *Region) {
	m.tree.ReplaceOrInsert(r)
	m.byID[r.ID] = r
}

func (m *Map) id() uint64 {
	m.nextID++
	return m.nextID - 1
}
