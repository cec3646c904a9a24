package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// eventually tries until it succeeds.
func eventually(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx := within(t, guard)
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := try(once)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestAStoreStopsAndComesBack(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	r := cl.regionOf(t, "t1")
	store := r.Leader.StoreId
	get := func(ctx context.Context) error {
		_, err := cl.kv(r).KvGet(ctx, &kvrpcpb.GetRequest{Context: kvContext(r), Key: []byte("t1"), Version: 99})
		return err
	}
	must(t, get(within(t, guard)))
	must(t, c.StopStore(t.Context(), store))
	must(t, c.StopStore(t.Context(), store)) // is down: nothing to do
	var err error
	for err == nil {
		_, err = f.stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
	if err := get(within(t, guard)); status.Code(err) != codes.Unavailable {
		t.Errorf("a read of a store that is down: %v", err)
	}
	if _, err := c.KV(t.Context(), store); status.Code(err) != codes.Unavailable {
		t.Errorf("from inside: %v", err)
	}
	must(t, c.StartStore(store))
	must(t, c.StartStore(store))
	eventually(t, "a read after the start", get)
	cl.subscribed(t, "t1")
	for _, id := range []uint64{0, 4} {
		if c.StartStore(id) == nil || c.StopStore(t.Context(), id) == nil || c.TroubleStore(id, fake.Trouble{}) == nil {
			t.Errorf("store %d was taken for one", id)
		}
	}
}

// A crash loses some pessimistic locks, and nothing else.
func TestWhatACrashLoses(t *testing.T) {
	c, cl := calm(t)
	for i := range 8 {
		c.Split([]byte{'t', byte('a' + i)})
	}
	for i := range 8 {
		key := string([]byte{'t', byte('a' + i), '1'})
		must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Pessimistic, Key: []byte(key), StartTS: 10, ForUpdateTS: 10}))
		must(t, c.Prewrite(put(key+"x", "v", 11)))
	}
	for id := uint64(1); id <= 3; id++ {
		must(t, c.StopStore(t.Context(), id))
		must(t, c.StartStore(id))
	}
	pessimistic, others := 0, 0
	for i := range 8 {
		eventually(t, "scan of locks", func(ctx context.Context) error {
			r := cl.regionOf(t, string([]byte{'t', byte('a' + i)}))
			resp, err := cl.kv(r).KvScanLock(ctx, &kvrpcpb.ScanLockRequest{Context: kvContext(r), MaxVersion: 99})
			if err == nil {
				others++
				pessimistic += len(resp.Locks) - 1
			}
			return err
		})
	}
	if others != 8 || pessimistic == 0 || pessimistic == 8 {
		t.Errorf("%d of 8 pessimistic locks are left, %d of 8 others", pessimistic, others)
	}
}

func TestATroubledNetwork(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	r := cl.regionOf(t, "t1")
	store := r.Leader.StoreId
	get := func(d time.Duration) error {
		_, err := cl.kv(r).KvGet(within(t, d), &kvrpcpb.GetRequest{Context: kvContext(r), Key: []byte("t1"), Version: 99})
		return err
	}
	// Whichever way is held: no answer, and nothing is lost.
	for _, trouble := range []fake.Trouble{{HoldIn: true}, {HoldOut: true}, {HoldIn: true, HoldOut: true}} {
		must(t, c.TroubleStore(store, trouble))
		if err := get(30 * time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%+v: %v", trouble, err)
		}
		must(t, c.TroubleStore(store, fake.Trouble{}))
		must(t, get(guard))
	}
	must(t, c.TroubleStore(store, fake.Trouble{HoldOut: true}))
	must(t, c.Prewrite(put("t1", "a", 5)))
	must(t, c.Commit([]byte("t1"), 5, 7))
	must(t, c.TroubleStore(store, fake.Trouble{}))
	f.want("1: PREWRITE PUT t1 value=a 5", "1: COMMIT PUT t1 value=a 5-7")

	must(t, c.TroubleStore(store, fake.Trouble{DelayIn: 20 * time.Millisecond, DelayOut: 20 * time.Millisecond}))
	begin := time.Now()
	must(t, get(guard))
	if took := time.Since(begin); took < 40*time.Millisecond {
		t.Errorf("an answer after %v", took)
	}

	// A frozen store answers nobody inside either.
	must(t, c.TroubleStore(store, fake.Trouble{HoldIn: true, HoldOut: true}))
	if _, err := c.KV(within(t, 10*time.Millisecond), store); err == nil {
		t.Error("a frozen store answers")
	}
	// It can be killed, and held connections end.
	must(t, c.StopStore(t.Context(), store))
}

func TestPDChangesItsLeader(t *testing.T) {
	c := run(t, fake.Config{PDs: 3})
	cl := openPD(t, c, pd.SecurityOption{})
	ctx := within(t, guard)
	var last tso.TS
	next := func(ctx context.Context) error {
		physical, logical, err := cl.GetTS(ctx)
		if err != nil {
			return err
		}
		if ts := tso.New(physical, logical); ts <= last {
			t.Fatalf("ts %d after %d", ts, last)
		} else {
			last = ts
		}
		return nil
	}
	must(t, next(ctx))
	if members, err := cl.GetAllMembers(ctx); err != nil || len(members.Members) != 3 || members.Leader.MemberId != 1 {
		t.Fatalf("members %v, %v", members, err)
	}
	for _, leader := range []int{2, 1} {
		must(t, c.LeadPD(leader))
		eventually(t, "ts after the leader moved", next)
		eventually(t, "regions after the leader moved", func(ctx context.Context) error {
			_, err := cl.GetRegion(ctx, []byte("a"))
			return err
		})
		if got := c.PDLeader(); got != leader {
			t.Errorf("leader %d", got)
		}
	}
	// Gone altogether, and back on the same ports, the leader another.
	for i := range 3 {
		must(t, c.StopPD(ctx, i))
	}
	once, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := next(once); err == nil {
		t.Error("a ts of no PD")
	}
	must(t, c.LeadPD(0))
	for i := range 3 {
		must(t, c.StartPD(i))
	}
	eventually(t, "ts after all of PD was gone", next)
	if c.LeadPD(3) == nil || c.StopPD(ctx, -1) == nil || c.StartPD(3) == nil || c.TroublePD(3, fake.Trouble{}) == nil {
		t.Error("a member that is none")
	}
}

// What followers refuse, and what they pass on.
func TestFollowersOfPD(t *testing.T) {
	c := run(t, fake.Config{PDs: 2})
	cl := newClient(t, c) // of the first member
	ctx := within(t, guard)
	must(t, c.LeadPD(1))
	ask := func(headers ...string) codes.Code {
		ctx := ctx
		if len(headers) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, headers...)
		}
		_, err := cl.pd.GetAllStores(ctx, &pdpb.GetAllStoresRequest{Header: cl.header()})
		return status.Code(err)
	}
	if got := ask(); got != codes.Unavailable {
		t.Errorf("a follower: %v", got)
	}
	if got := ask("pd-forwarded-host", c.PD()[1]); got != codes.OK {
		t.Errorf("passed on: %v", got)
	}
	if got := ask("pd-forwarded-host", c.PD()[0]); got != codes.Unavailable {
		t.Errorf("passed on to itself: %v", got)
	}
	if got := ask("pd-allow-follower-handle", "true"); got != codes.OK {
		t.Errorf("followers allowed: %v", got)
	}
	must(t, c.StopPD(ctx, 1))
	if got := ask("pd-forwarded-host", c.PD()[1]); got != codes.Unavailable {
		t.Errorf("passed on to a dead leader: %v", got)
	}
	resp, err := cl.pd.GetMembers(ctx, &pdpb.GetMembersRequest{})
	if err != nil || resp.Leader.ClientUrls[0] != c.PD()[1] {
		t.Errorf("members %v, %v", resp, err)
	}
	stream, err := cl.pd.Tso(ctx)
	must(t, err)
	must(t, stream.Send(&pdpb.TsoRequest{Header: cl.header(), Count: 1}))
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("ts of a follower: %v", err)
	}
}
