package fake_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestMergeEndsSubscriptionsOfBoth(t *testing.T) {
	c, cl := calm(t)
	c.Split([]byte("t5"))
	left, right := cl.regionOf(t, "t1"), cl.regionOf(t, "t6")
	f := openFeed(t, cl, left.Leader.StoreId, multiplexed)
	f.send(cl.request(left, 1, 1))
	f.want("1: INITIALIZED")
	g := openFeed(t, cl, right.Leader.StoreId, multiplexed)
	g.send(cl.request(right, 1, 1))
	g.want("1: INITIALIZED")
	expect(t, writesTo(t, cl, "t1").prewrite(5, "t1=a", nil), "ok")
	f.want("1: PREWRITE PUT t1 value=a 5")

	// The source is told first; it serves nobody while it is being merged.
	must(t, c.PrepareMerge(left.Region.Id))
	f.want("1: epoch not match: ")
	prepared := cl.regionOf(t, "t1")
	if prepared.Region.RegionEpoch.Version != left.Region.RegionEpoch.Version+1 {
		t.Errorf("prepared: %v", prepared)
	}
	f.send(cl.request(left, 2, 1))
	f.want(fmt.Sprintf("2: epoch not match: %d", left.Region.Id))
	f.send(cl.request(prepared, 3, 1))
	f.want("3: region not found")
	expect(t, writesTo(t, cl, "t1").commit(5, 6, "t1"), "region is merging")
	if c.PrepareMerge(left.Region.Id) == nil || c.CommitMerge(left.Region.Id, 7) == nil {
		t.Error("a merge that cannot be")
	}
	must(t, c.RollbackMerge(left.Region.Id))
	f.send(cl.request(cl.regionOf(t, "t1"), 4, 1))
	f.want("4: PREWRITE PUT t1 value=a 5", "4: INITIALIZED")

	must(t, c.Merge(left.Region.Id, right.Region.Id))
	f.want("4: epoch not match: ")
	g.want("1: epoch not match: ")
	whole := cl.regionOf(t, "t1")
	if whole.Region.Id != right.Region.Id || cl.regionOf(t, "t6").Region.Id != whole.Region.Id {
		t.Errorf("merged: %v", whole)
	}
	f.send(cl.request(left, 5, 1))
	f.want("5: region not found")
	g.send(cl.request(whole, 2, 1))
	g.want("2: PREWRITE PUT t1 value=a 5", "2: INITIALIZED")
	expect(t, writesTo(t, cl, "t1").commit(5, 6, "t1"), "ok")
	g.want("2: COMMIT PUT t1 value=a 5-6")
	if c.Merge(whole.Region.Id, whole.Region.Id) == nil {
		t.Error("merged with itself")
	}
	// The merge that was refused left the region as it was.
	expect(t, writesTo(t, cl, "t1").prewrite(8, "t1=b", nil), "ok")
}

// PD hears of changes late: its regions are an old, but whole, picture.
func TestPDIsLate(t *testing.T) {
	c := run(t, fake.Config{Calm: true, StartTS: 1000 << 18, PDLag: 200 * time.Millisecond})
	cl := newClient(t, c)
	old := cl.regionOf(t, "t1")
	begin := time.Now()
	c.Split([]byte("t5"))
	must(t, c.Merge(cl.cluster.Locate([]byte("t1")).ID, old.Region.Id))
	c.Split([]byte("t3"))
	got := cl.regionOf(t, "t1")
	if time.Since(begin) < 200*time.Millisecond && got.Region.RegionEpoch.Version != old.Region.RegionEpoch.Version {
		t.Errorf("PD knows %v at once", got)
	}
	if time.Since(begin) < 200*time.Millisecond {
		resp, err := cl.kv(old).KvGet(within(t, guard), &kvrpcpb.GetRequest{Context: kvContext(old), Key: []byte("t1")})
		must(t, err)
		if resp.RegionError.GetEpochNotMatch() == nil {
			t.Errorf("the store does not know: %v", resp)
		}
	}
	for cl.regionOf(t, "t1").Region.Id == old.Region.Id {
		if time.Since(begin) > guard {
			t.Fatal("PD never hears of the split")
		}
	}
}
