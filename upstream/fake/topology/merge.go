package topology

import (
	"maps"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// A merge has two steps, as in TiKV: the source is prepared, and serves nobody
// from then on; then the target takes its keys over, or the source is itself
// again. Both steps change the source's version.

// PrepareMerge makes a region the source of a merge.
func (m *Map) PrepareMerge(source uint64) (*Region, error) {
	old := m.byID[source]
	switch {
	case old == nil:
		return nil, cdcerr.InvalidArgument.New("region %d: there is none of this id", source)
	case old.Merging:
		return nil, cdcerr.InvalidArgument.New("region %d: it is being merged", source)
	case len(m.byID) == 1:
		return nil, cdcerr.InvalidArgument.New("region %d: it is the only one", source)
	}
	next := *old
	next.Version++
	next.ConfVer++
	next.Merging = true
	m.put(&next)
	return &next, nil
}

// RollbackMerge lets a prepared source go on as it was.
func (m *Map) RollbackMerge(source uint64) (*Region, error) {
	old := m.byID[source]
	if old == nil || !old.Merging {
		return nil, cdcerr.InvalidArgument.New("region %d: it is not being merged", source)
	}
	next := *old
	next.Version++
	next.Merging = false
	m.put(&next)
	return &next, nil
}

// CommitMerge gives the keys of a prepared source to a neighbour, which keeps
// its id and leader. The source is gone.
func (m *Map) CommitMerge(source, target uint64) (*Region, error) {
	from, into := m.byID[source], m.byID[target]
	switch {
	case from == nil || !from.Merging:
		return nil, cdcerr.InvalidArgument.New("region %d: it is not being merged", source)
	case into == nil || into.Merging:
		return nil, cdcerr.InvalidArgument.New("region %d: it cannot take region %d over", target, source)
	case !leftOf(from, into) && !leftOf(into, from):
		return nil, cdcerr.InvalidArgument.New("regions %d and %d are no neighbours", source, target)
	}
	next := *into
	next.Version = max(from.Version, into.Version) + 1
	m.tree.Delete(from)
	m.tree.Delete(into)
	delete(m.byID, source)
	if from.Start < into.Start {
		next.Start, next.RawStart = from.Start, from.RawStart
	} else {
		next.End, next.RawEnd = from.End, from.RawEnd
	}
	m.put(&next)
	return &next, nil
}

func leftOf(a, b *Region) bool { return a.End != "" && a.End == b.Start }

// Neighbours are the regions left and right of one; nil where there is none.
func (m *Map) Neighbours(id uint64) (left, right *Region) {
	r := m.byID[id]
	if r == nil {
		return nil, nil
	}
	if r.End != "" {
		right = m.Find(r.End)
	}
	return m.Before(r.Start), right
}

// Clone is the map as it is now: later changes of one do not show in the other.
func (m *Map) Clone() *Map {
	next := *m
	next.tree, next.byID = m.tree.Clone(), maps.Clone(m.byID)
	return &next
}
