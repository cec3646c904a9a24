package owner

import (
	"slices"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// units are the ids of the partitions of each unit (event.Table.Unit), by the id that its
// span has: as they are at the watermark, and of what DDLs above it bring as they leave it.
func (l *Loop) units() map[span.TableID][]int64 {
	l.mu.Lock()
	at, begun := l.mark.Checkpoint, l.owner != nil
	l.mu.Unlock()
	out := map[span.TableID][]int64{}
	if !begun {
		return out
	}
	for _, ts := range []tso.TS{at, max(at, l.feed.Resolved())} {
		for _, t := range l.feed.Tables(ts) {
			if id := span.TableID(t.ID); t.Unit() && out[id] == nil {
				out[id] = t.PhysicalIDs()
			}
		}
	}
	return out
}

// Shown gives each of the spans' table ids as operators see them: a unit as its partitions,
// which are those of any other partitioned table to them.
func (l *Loop) Shown() func(id span.TableID) []int64 {
	units := l.units()
	return func(id span.TableID) []int64 {
		if of, is := units[id]; is {
			return of
		}
		return []int64{int64(id)}
	}
}

// placed is by which id what an operator calls table is placed, and by which it is shown:
// each partition of a unit stands for all of it, and so does its own id.
func (l *Loop) placed(table span.TableID) (is, shown span.TableID) {
	l.mu.Lock()
	wanted := len(l.owner.Sets(table)) > 0
	l.mu.Unlock()
	for unit, of := range l.units() {
		switch {
		case unit == table && wanted:
			return table, span.TableID(of[0])
		case !wanted && slices.Contains(of, int64(table)):
			return unit, table
		}
	}
	return table, table
}
