package fake_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/upstream/fake"
)

func TestResolvedFallsOnCommand(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	f.resolved(1010 << 18)
	c.Break(fake.RegressingResolved)
	for before := f.last; f.last >= before; {
		before = f.last
		f.pull()
	}
	if c.Broken(fake.RegressingResolved) != 1 {
		t.Error("it is not counted")
	}
	f.resolved(c.TS())
}

func TestARowAfterTheEndOnCommand(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	f.resolved(1001 << 18)
	c.Break(fake.RowAfterError)
	if n := c.Fail(cl.regionOf(t, "t1").Region.Id, fake.RegionNotFound); n != 1 {
		t.Errorf("%d registrations", n)
	}
	f.want("1: region not found")
	if got := f.next(); got[:len("1: COMMITTED PUT t")] != "1: COMMITTED PUT t" {
		t.Error(got)
	}
	if n := c.Fail(7, fake.RegionNotFound); n != 0 {
		t.Errorf("%d registrations of no region", n)
	}
}

func TestEachErrorOnCommand(t *testing.T) {
	c, cl := calm(t)
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	for i, want := range []string{
		fake.NotLeader - 1:       "?",
		fake.NotLeader:           fmt.Sprintf("not leader, ask %d", r.Leader.StoreId),
		fake.NotLeaderUnknown:    "not leader, ask 0",
		fake.RegionNotFound:      "region not found",
		fake.EpochNotMatch:       fmt.Sprintf("epoch not match: %d", r.Region.Id),
		fake.EpochNotMatchUnsaid: "epoch not match: ",
		fake.ServerIsBusy:        "busy for 50",
		fake.Congested:           "congested",
		fake.Unexplained:         "?",
		fake.DuplicateRequest:    "duplicate request",
		fake.Compatibility:       "compatibility",
		fake.ClusterIDMismatch:   fmt.Sprintf("cluster id mismatch %d", c.ClusterID()),
	} {
		e, id := fake.FeedError(i), uint64(i+1)
		c.Refuse(1, e)
		f.send(cl.request(r, id, 1))
		f.want(fmt.Sprintf("%d: %s", id, want))
		f.send(cl.request(r, id, 1))
		f.want(fmt.Sprintf("%d: INITIALIZED", id))
		c.Fail(r.Region.Id, e)
		f.want(fmt.Sprintf("%d: %s", id, want))
		if e.Terminal() != (e >= fake.DuplicateRequest) {
			t.Errorf("error %d: terminal %v", e, e.Terminal())
		}
	}
}

func TestALaggingRegion(t *testing.T) {
	c, cl := calm(t)
	c.Split([]byte("t5"))
	f, g := cl.subscribed(t, "t1"), cl.subscribed(t, "t6")
	f.resolved(1001 << 18)
	c.Lag(cl.regionOf(t, "t1").Region.Id, time.Minute)
	stuck := c.TS()
	g.resolved(stuck + 50<<18) // some ticks later
	for range 5 {
		f.pull()
	}
	if f.last > stuck {
		t.Errorf("resolved-ts is %d, it was to stay below %d", f.last, stuck)
	}
	c.Lag(cl.regionOf(t, "t1").Region.Id, 0)
	f.resolved(stuck + 50<<18)
}

func TestAnotherClusterOnCommand(t *testing.T) {
	c, cl := calm(t)
	r := cl.regionOf(t, "t1")
	ctx := within(t, guard)
	c.Impersonate(77)
	if _, err := cl.pd.GetAllStores(ctx, &pdpb.GetAllStoresRequest{Header: cl.header()}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("PD: %v", err)
	}
	members, err := cl.pd.GetMembers(ctx, &pdpb.GetMembersRequest{})
	if err != nil || members.Header.ClusterId != 77 {
		t.Errorf("members %v, %v", members, err)
	}
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	f.send(cl.request(r, 1, 1))
	f.want(fmt.Sprintf("1: cluster id mismatch %d", c.ClusterID()))
	c.Impersonate(0)
	f.send(cl.request(r, 2, 1))
	f.want("2: INITIALIZED")
}
