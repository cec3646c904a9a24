package fake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

func TestUnknownFeaturesAreNamed(t *testing.T) {
	_, cl := calm(t)
	f := openFeed(t, cl, 1, multiplexed+", warp,fold")
	_, err := f.stream.Recv()
	if s := status.Convert(err); s.Code() != codes.Unimplemented || s.Message() != "warp,fold" {
		t.Errorf("got %v", err)
	}
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	_, cl := calm(t)
	r := cl.regionOf(t, "t1")
	other := r.Leader.StoreId%3 + 1
	for _, tc := range []struct {
		name  string
		store uint64
		edit  func(*cdcpb.ChangeDataRequest)
		want  string
	}{
		{"wrong store", other, func(*cdcpb.ChangeDataRequest) {}, fmt.Sprintf("1: not leader, ask %d", r.Leader.StoreId)},
		{"no such region", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) { q.RegionId = 7 }, "1: region not found"},
		{"old version", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) {
			q.RegionEpoch = &metapb.RegionEpoch{Version: 1, ConfVer: q.RegionEpoch.ConfVer}
		}, fmt.Sprintf("1: epoch not match: %d", r.Region.Id)},
		{"another conf-ver is no reason", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) {
			q.RegionEpoch = &metapb.RegionEpoch{Version: q.RegionEpoch.Version, ConfVer: 99}
		}, "1: INITIALIZED"},
		{"another cluster", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) { q.Header.ClusterId = 3 }, "1: cluster id mismatch 3"},
		{"another cluster, but too old to know", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) {
			q.Header.ClusterId, q.Header.TicdcVersion = 3, "v8.5.0"
		}, "1: INITIALIZED"},
		{"raw kv", r.Leader.StoreId, func(q *cdcpb.ChangeDataRequest) { q.KvApi = cdcpb.ChangeDataRequest_RawKV }, "1: compatibility"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := openFeed(t, cl, tc.store, multiplexed)
			req := cl.request(r, 1, 1)
			tc.edit(req)
			f.send(req)
			f.want(tc.want)
		})
	}
}

func TestOneRegionManyRequests(t *testing.T) {
	c, cl := calm(t)
	deregister := &cdcpb.ChangeDataRequest_Deregister_{Deregister: &cdcpb.ChangeDataRequest_Deregister{}}
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	f.send(cl.request(r, 1, 1))
	f.want("1: INITIALIZED")
	f.send(cl.request(r, 1, 1))
	f.want("1: duplicate request")
	f.send(cl.request(r, 2, 1))
	f.want("2: INITIALIZED")
	must(t, c.Prewrite(put("t1", "a", 5)))
	got := map[string]bool{f.next(): true, f.next(): true}
	for _, id := range []string{"1", "2"} {
		if !got[id+": PREWRITE PUT t1 value=a 5"] {
			t.Fatalf("got %v", got)
		}
	}
	f.send(&cdcpb.ChangeDataRequest{RequestId: 1, RegionId: r.Region.Id, Request: deregister})
	f.want("1: region not found")
	must(t, c.Rollback([]byte("t1"), 5))
	f.want("2: ROLLBACK t1 5")
	// Region 0 is all regions of the request.
	f.send(&cdcpb.ChangeDataRequest{RequestId: 2, Request: deregister})
	f.want("2: region not found")
	f.send(cl.request(r, 2, 1))
	f.want("2: INITIALIZED")

	// Without multiplexing there is one subscription a region, whatever its id.
	f = openFeed(t, cl, r.Leader.StoreId, "")
	f.send(cl.request(r, 1, 1))
	f.want("1: INITIALIZED")
	f.send(cl.request(r, 2, 1))
	f.want("2: duplicate request")
}

func TestTransactionsAsRows(t *testing.T) {
	c, cl := calm(t)
	long := strings.Repeat("x", 256)
	f := cl.subscribed(t, "t1")
	must(t, c.Prewrite(put("t1", "a", 5)))
	must(t, c.Commit([]byte("t1"), 5, 7))
	must(t, c.Commit([]byte("t1"), 5, 7)) // again: nothing
	must(t, c.Prewrite(put("t1", long, 10)))
	must(t, c.Commit([]byte("t1"), 10, 11))
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Delete, Key: []byte("t1"), StartTS: 12}))
	must(t, c.Commit([]byte("t1"), 12, 13))
	// A pessimistic transaction sees what was committed before its lock, and a
	// pessimistic lock shows neither when it is taken nor when it is given up.
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Pessimistic, Key: []byte("t2"), StartTS: 20, ForUpdateTS: 20}))
	must(t, c.Unlock([]byte("t2"), 20))
	must(t, c.Prewrite(put("t2", "b", 22)))
	must(t, c.Commit([]byte("t2"), 22, 25))
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Put, Key: []byte("t2"), Value: []byte("c"), StartTS: 21, ForUpdateTS: 26}))
	must(t, c.Rollback([]byte("t2"), 21))
	must(t, c.Rollback([]byte("t3"), 30)) // of a key that was never locked
	// A lock-only key shows nothing; neither do rows of a reorganisation.
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.LockOnly, Key: []byte("t3"), StartTS: 31}))
	must(t, c.Commit([]byte("t3"), 31, 32))
	hidden := put("t3", "h", 33)
	hidden.TxnSource = 1<<8 | 1
	must(t, c.Prewrite(hidden))
	must(t, c.Commit([]byte("t3"), 33, 34))
	loop := put("t3", "l", 35)
	loop.TxnSource = 1
	must(t, c.Prewrite(loop))
	f.want(
		"1: PREWRITE PUT t1 value=a 5",
		"1: COMMIT PUT t1 value=a 5-7",
		"1: PREWRITE PUT t1 value=256 bytes old=a 10",
		"1: COMMIT PUT t1 10-11",
		"1: PREWRITE DELETE t1 old=256 bytes 12",
		"1: COMMIT DELETE t1 12-13",
		"1: PREWRITE PUT t2 value=b 22",
		"1: COMMIT PUT t2 value=b 22-25",
		"1: PREWRITE PUT t2 value=c old=b 21",
		"1: ROLLBACK t2 21",
		"1: ROLLBACK t3 30",
		"1: PREWRITE PUT t3 value=l old=h 35 source=1",
	)
	commit, err := c.OnePhase(within(t, guard), put("t4", "d", 40))
	must(t, err)
	f.want(fmt.Sprintf("1: COMMITTED PUT t4 value=d 40-%d", commit))
}

func TestFilterLoop(t *testing.T) {
	c, cl := calm(t)
	loop := put("t1", "a", 5)
	loop.TxnSource = 3
	must(t, c.Prewrite(loop))
	must(t, c.Commit([]byte("t1"), 5, 6))
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	req := cl.request(r, 1, 1)
	req.FilterLoop = true
	f.send(req)
	f.want("1: INITIALIZED")
	loop = put("t1", "b", 7)
	loop.TxnSource = 3
	must(t, c.Prewrite(loop))
	must(t, c.Commit([]byte("t1"), 7, 8))
	must(t, c.Prewrite(put("t1", "c", 9)))
	f.want("1: PREWRITE PUT t1 value=c old=b 9")
}

func TestScanTellsLocksFirstThenNewestFirst(t *testing.T) {
	c, cl := calm(t)
	for i, v := range []string{"a", "b", "c"} {
		start := tso.TS(10 * (i + 1))
		must(t, c.Prewrite(put("t1", v, start)))
		must(t, c.Commit([]byte("t1"), start, start+5))
	}
	must(t, c.Prewrite(put("t1", "d", 40)))
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Delete, Key: []byte("t2"), StartTS: 41}))
	must(t, c.Prewrite(mvcc.Lock{Op: mvcc.Pessimistic, Key: []byte("t3"), StartTS: 42}))
	must(t, c.Rollback([]byte("t4"), 43))
	hidden := put("t5", "h", 44)
	hidden.TxnSource = 1 << 8
	must(t, c.Prewrite(hidden))
	must(t, c.Commit([]byte("t5"), 44, 45))
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	f.send(cl.request(r, 1, 15)) // exclusive
	f.want(
		"1: PREWRITE PUT t1 value=d old=c 40",
		"1: COMMITTED PUT t1 value=c old=b 30-35",
		"1: COMMITTED PUT t1 value=b old=a 20-25",
		"1: PREWRITE DELETE t2 41",
		"1: INITIALIZED",
	)
	// The oldest lock holds resolved-ts back: its start-ts, not the one before.
	f.resolved(40)
	if f.last != 40 {
		t.Errorf("resolved-ts %d, want 40", f.last)
	}
	now := c.TS()
	must(t, c.Commit([]byte("t1"), 40, now+1))
	f.want(fmt.Sprintf("1: COMMIT PUT t1 value=d 40-%d", now+1))
	f.resolved(41)
	if f.last != 41 {
		t.Errorf("resolved-ts %d, want 41", f.last)
	}
	must(t, c.Rollback([]byte("t2"), 41))
	f.want("1: ROLLBACK t2 41")
	f.resolved(now) // the pessimistic lock does not matter
}

func TestRangeOfARegion(t *testing.T) {
	c, cl := calm(t)
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	req := cl.request(r, 1, 1)
	req.StartKey, req.EndKey = []byte(span.EncodeKey([]byte("t3"))), []byte(span.EncodeKey([]byte("t5")))
	f.send(req)
	f.want("1: INITIALIZED")
	// Keys that are not encoded mean the whole region.
	req = cl.request(r, 2, 1)
	req.StartKey, req.EndKey = nil, []byte("\xff\xff\xff\xff\xff")
	f.send(req)
	f.want("2: INITIALIZED")
	must(t, c.Prewrite(put("t5", "a", 5)))
	must(t, c.Prewrite(put("t3", "a", 5)))
	f.want("2: PREWRITE PUT t5 value=a 5")
	got := map[string]bool{f.next(): true, f.next(): true}
	if !got["1: PREWRITE PUT t3 value=a 5"] || !got["2: PREWRITE PUT t3 value=a 5"] {
		t.Errorf("got %v", got)
	}
}

func TestSplitAndLeaderChangeEndSubscriptions(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	before := cl.regionOf(t, "t1")
	c.Split([]byte("t5"))
	left, right := cl.regionOf(t, "t1"), cl.regionOf(t, "t6")
	if right.Region.Id != before.Region.Id || left.Region.Id == before.Region.Id {
		t.Errorf("the right part must keep the id: %d became %d and %d", before.Region.Id, left.Region.Id, right.Region.Id)
	}
	f.want(fmt.Sprintf("1: epoch not match: %d %d", left.Region.Id, right.Region.Id))
	c.Split([]byte("t5")) // a border already: nothing happens
	f.send(cl.request(before, 2, 1))
	f.want(fmt.Sprintf("2: epoch not match: %d", right.Region.Id))
	f.send(cl.request(right, 3, 1))
	f.want("3: INITIALIZED")
	must(t, c.Prewrite(put("t2", "left", 5)))
	must(t, c.Prewrite(put("t7", "right", 5)))
	f.want("3: PREWRITE PUT t7 value=right 5")
	to := right.Leader.StoreId%3 + 1
	must(t, c.Lead(right.Region.Id, to))
	f.want(fmt.Sprintf("3: not leader, ask %d", to))
	if got := cl.regionOf(t, "t7"); got.Leader.StoreId != to {
		t.Errorf("led by %d, want %d", got.Leader.StoreId, to)
	}
	if err := c.Lead(right.Region.Id, 99); err == nil {
		t.Error("a store that does not exist leads")
	}
}

func TestOldSubscribersGetOneResolvedARegion(t *testing.T) {
	c, cl := calm(t)
	r := cl.regionOf(t, "t1")
	f := openFeed(t, cl, r.Leader.StoreId, "")
	req := cl.request(r, 1, 1)
	req.Header.TicdcVersion = "4.0.7"
	f.send(req)
	f.want("1: INITIALIZED")
	for f.last < c.TS()-1<<18 {
		ev, err := f.stream.Recv()
		must(t, err)
		if ev.ResolvedTs != nil {
			t.Fatal("a ResolvedTs message for a subscriber that does not know it")
		}
		f.last = tso.TS(ev.Events[0].GetResolvedTs()) //nolint:staticcheck // the old form is what is tested
	}
	// The first form of the call does the same.
	old, err := cdcpb.NewChangeDataClient(cl.conns[r.Leader.StoreId]).EventFeed(within(t, guard))
	must(t, err)
	must(t, old.Send(cl.request(r, 1, 1)))
	ev, err := old.Recv()
	must(t, err)
	if got := ev.Events[0].GetEntries().GetEntries(); len(got) != 1 || got[0].Type != cdcpb.Event_INITIALIZED {
		t.Errorf("got %v", ev)
	}
}

// A reader that stands still meets "congested"; one beside it reads on.
func TestSlowReaderStallsNobody(t *testing.T) {
	c := run(t, fake.Config{Calm: true, StartTS: 1000 << 18, QueueBytes: 1 << 20, ResolvedInterval: 2 * time.Millisecond})
	cl := newClient(t, c)
	slow, fast := cl.subscribed(t, "t1"), cl.subscribed(t, "t1")
	value := strings.Repeat("v", 64<<10)
	// Far more than the slow one's queue, its connection and its window hold.
	for i := range 1000 {
		must(t, c.Prewrite(put(fmt.Sprintf("t%04d", i), value, 5)))
		fast.want(fmt.Sprintf("1: PREWRITE PUT t%04d value=65536 bytes 5", i))
	}
	rows := 0
	for {
		line := slow.next()
		if line == "1: congested" {
			break
		}
		if want := fmt.Sprintf("1: PREWRITE PUT t%04d value=65536 bytes 5", rows); line != want {
			t.Fatalf("got %s, want %s", line, want)
		}
		rows++
	}
	if rows == 0 || rows == 1000 {
		t.Errorf("%d rows before congested", rows)
	}
	// Its next scan has all that it missed, waiting for room as it goes.
	r := cl.regionOf(t, "t1")
	slow.send(cl.request(r, 2, 1))
	for i := range 1000 {
		slow.want(fmt.Sprintf("2: PREWRITE PUT t%04d value=65536 bytes 5", i))
	}
	slow.want("2: INITIALIZED")
}
