package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// Random splits and leader changes: P2 holds after each, every key is found in
// the region that has it, old ids stay on the right, versions grow.
func TestRegionsCoverEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topology.New([]uint64{1, 2, 3}, 100)
		var borders []string
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			key := rapid.StringMatching(`[a-e]{1,3}`).Draw(t, "key")
			old := m.Find(span.EncodeKey([]byte(key)))
			parts, ok := m.Split([]byte(key))
			if ok == slices.Contains(borders, key) {
				t.Fatalf("split at %q: %v, borders %q", key, ok, borders)
			}
			if ok {
				borders = append(borders, key)
				left, right := parts[0], parts[1]
				if right.ID != old.ID || left.ID == old.ID || left.Version != old.Version+1 || right.Version != old.Version+1 ||
					left.Leader.Store != old.Leader.Store || string(left.RawEnd) != key || string(right.RawStart) != key {
					t.Fatalf("split of %+v into %+v and %+v", old, left, right)
				}
			}
			if rapid.Bool().Draw(t, "lead") {
				store := rapid.SampledFrom([]uint64{1, 2, 3}).Draw(t, "store")
				r, err := m.Lead(old.ID, store)
				if err != nil || r.Leader.Store != store || m.ByID(old.ID) != r {
					t.Fatalf("lead: %+v, %v", r, err)
				}
			}
			if n := len(borders); n > 0 && rapid.IntRange(0, 3).Draw(t, "merge") == 0 {
				border := rapid.SampledFrom(borders).Draw(t, "border")
				borders = slices.DeleteFunc(borders, func(b string) bool { return b == border })
				mergeAt(t, m, border)
			}
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(borders)
		if m.Len() != len(borders)+1 {
			t.Fatalf("%d regions, %d borders", m.Len(), len(borders))
		}
		at := rapid.StringMatching(`[a-e]{1,3}`).Draw(t, "at")
		n := 0
		for n < len(borders) && borders[n] <= at {
			n++
		}
		r := m.Find(span.EncodeKey([]byte(at)))
		all := m.Range("", "", 0)
		if all[n] != r || !r.Contains(span.EncodeKey([]byte(at))) {
			t.Fatalf("%q is in %+v, want number %d", at, r, n)
		}
		before := m.Before(span.EncodeKey([]byte(at)))
		if (n == 0) != (before == nil) || (n > 0 && before != all[n-1]) {
			t.Fatalf("before %q: %+v", at, before)
		}
		if got := m.Range(r.Start, "", 2); got[0] != r || len(got) > 2 {
			t.Fatalf("range from %q: %v", r.Start, got)
		}
	})
}

func TestLeadersSpread(t *testing.T) {
	m := topology.New([]uint64{1, 2}, 100)
	m.Split([]byte("b"))
	m.Split([]byte("c"))
	m.Split([]byte("d"))
	m.Spread()
	led := map[uint64]int{}
	for _, r := range m.Range("", "", 0) {
		led[r.Leader.Store]++
	}
	if led[1] != 2 || led[2] != 2 {
		t.Errorf("leaders by store: %v", led)
	}
	if _, err := m.Lead(100, 3); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("a store without a replica: %v", err)
	}
	if _, err := m.Lead(5, 1); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("a region that is not there: %v", err)
	}
}

// mergeAt takes a border away: one side takes the other over.
func mergeAt(t *rapid.T, m *topology.Map, border string) {
	right := m.Find(span.EncodeKey([]byte(border)))
	left, _ := m.Neighbours(right.ID)
	source, target := left, right
	if rapid.Bool().Draw(t, "leftwards") {
		source, target = right, left
	}
	before := m.Clone()
	prepared, err := m.PrepareMerge(source.ID)
	if err != nil || !prepared.Merging || prepared.Version != source.Version+1 || prepared.ConfVer != source.ConfVer+1 {
		t.Fatalf("prepared: %+v, %v", prepared, err)
	}
	if _, err := m.PrepareMerge(source.ID); err == nil {
		t.Fatal("prepared twice")
	}
	if _, ok := m.Split(append(slices.Clone(source.RawStart), 0)); ok {
		t.Fatal("a region that is being merged is split")
	}
	if rapid.IntRange(0, 2).Draw(t, "rollback") == 0 {
		back, err := m.RollbackMerge(source.ID)
		if err != nil || back.Merging || back.Version != source.Version+2 {
			t.Fatalf("rolled back: %+v, %v", back, err)
		}
		if _, err := m.CommitMerge(source.ID, target.ID); err == nil {
			t.Fatal("committed after its rollback")
		}
		if prepared, err = m.PrepareMerge(source.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.Range("", "", 0) {
		l, n := m.Neighbours(source.ID)
		if r != l && r != n {
			if _, err := m.CommitMerge(source.ID, r.ID); err == nil {
				t.Fatalf("%d took over %d, which is no neighbour", r.ID, source.ID)
			}
		}
	}
	whole, err := m.CommitMerge(source.ID, target.ID)
	if err != nil || whole.ID != target.ID || whole.Version != max(prepared.Version, target.Version)+1 || whole.Leader != target.Leader ||
		whole.Start != left.Start || whole.End != right.End || string(whole.RawStart) != string(left.RawStart) ||
		string(whole.RawEnd) != string(right.RawEnd) || m.ByID(source.ID) != nil {
		t.Fatalf("merged: %+v, %v", whole, err)
	}
	if before.ByID(source.ID) != source || before.Len() != m.Len()+1 || before.Check() != nil {
		t.Fatal("the clone changed")
	}
}

func TestMergesThatAreRefused(t *testing.T) {
	m := topology.New([]uint64{1}, 100)
	if _, err := m.PrepareMerge(100); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("the only region: %v", err)
	}
	for name, try := range map[string]func(uint64) (*topology.Region, error){
		"prepare": m.PrepareMerge, "roll back": m.RollbackMerge,
		"commit": func(id uint64) (*topology.Region, error) { return m.CommitMerge(id, 100) },
	} {
		if _, err := try(7); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%s of no region: %v", name, err)
		}
	}
	if l, r := m.Neighbours(7); l != nil || r != nil {
		t.Error("no region has neighbours")
	}
}
