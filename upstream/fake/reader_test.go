package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// feed is one stream to one store, read row by row.
type feed struct {
	t      testing.TB
	cl     *client
	stream cdcpb.ChangeData_EventFeedV2Client
	queue  []string
	last   tso.TS // newest resolved-ts
}

const multiplexed = "stream-multiplexing"

func openFeed(t testing.TB, cl *client, store uint64, features string) *feed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	t.Cleanup(cancel)
	if features != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "features", features)
	}
	stream, err := cdcpb.NewChangeDataClient(cl.conns[store]).EventFeedV2(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &feed{t: t, cl: cl, stream: stream}
}

// request is a plain registration of a region.
func (cl *client) request(r *pdpb.Region, id uint64, after tso.TS) *cdcpb.ChangeDataRequest {
	return &cdcpb.ChangeDataRequest{
		Header:   &cdcpb.Header{ClusterId: cl.cluster.ClusterID(), TicdcVersion: "8.5.0"},
		RegionId: r.Region.Id, RegionEpoch: r.Region.RegionEpoch, RequestId: id, CheckpointTs: uint64(after),
		StartKey: r.Region.StartKey, EndKey: r.Region.EndKey,
	}
}

func (f *feed) send(req *cdcpb.ChangeDataRequest) {
	f.t.Helper()
	if err := f.stream.Send(req); err != nil {
		f.t.Fatal(err)
	}
}

// pull reads one message into the queue; resolved-ts only moves last.
func (f *feed) pull() {
	f.t.Helper()
	ev, err := f.stream.Recv()
	if err != nil {
		f.t.Fatal(err)
	}
	if r := ev.ResolvedTs; r != nil {
		f.last = tso.TS(r.Ts)
		return
	}
	for _, e := range ev.Events {
		switch x := e.Event.(type) {
		case *cdcpb.Event_Error:
			f.queue = append(f.queue, fmt.Sprintf("%d: %s", e.RequestId, faultName(x.Error)))
		case *cdcpb.Event_ResolvedTs:
			f.last = tso.TS(x.ResolvedTs)
		case *cdcpb.Event_Entries_:
			for _, row := range x.Entries.Entries {
				f.queue = append(f.queue, fmt.Sprintf("%d: %s", e.RequestId, rowText(row)))
			}
		}
	}
}

// next is the next thing other than resolved-ts.
func (f *feed) next() string {
	f.t.Helper()
	for len(f.queue) == 0 {
		f.pull()
	}
	s := f.queue[0]
	f.queue = f.queue[1:]
	return s
}

// want reads as many lines as it names.
func (f *feed) want(lines ...string) {
	f.t.Helper()
	for i, w := range lines {
		if got := f.next(); got != w {
			f.t.Fatalf("line %d:\n got %s\nwant %s", i+1, got, w)
		}
	}
}

// resolved waits until resolved-ts is at least ts.
func (f *feed) resolved(ts tso.TS) {
	f.t.Helper()
	for f.last < ts {
		f.pull()
	}
}

func rowText(r *cdcpb.Event_Row) string {
	s := r.Type.String()
	if r.OpType != cdcpb.Event_Row_UNKNOWN {
		s += " " + r.OpType.String()
	}
	if len(r.Key) > 0 {
		s += " " + string(r.Key)
	}
	show := func(name string, b []byte) {
		if len(b) > 8 {
			s += fmt.Sprintf(" %s=%d bytes", name, len(b))
		} else if len(b) > 0 {
			s += " " + name + "=" + string(b)
		}
	}
	show("value", r.Value)
	show("old", r.OldValue)
	if r.StartTs != 0 {
		s += fmt.Sprintf(" %d", r.StartTs)
	}
	if r.CommitTs != 0 {
		s += fmt.Sprintf("-%d", r.CommitTs)
	}
	if r.TxnSource != 0 {
		s += fmt.Sprintf(" source=%d", r.TxnSource)
	}
	return s
}

func faultName(e *cdcpb.Error) string {
	switch {
	case e.NotLeader != nil:
		return fmt.Sprintf("not leader, ask %d", e.NotLeader.GetLeader().GetStoreId())
	case e.RegionNotFound != nil:
		return "region not found"
	case e.EpochNotMatch != nil:
		var ids []string
		for _, r := range e.EpochNotMatch.CurrentRegions {
			ids = append(ids, fmt.Sprint(r.Id))
		}
		return "epoch not match: " + strings.Join(ids, " ")
	case e.DuplicateRequest != nil:
		return "duplicate request"
	case e.Compatibility != nil:
		return "compatibility"
	case e.ClusterIdMismatch != nil:
		return fmt.Sprintf("cluster id mismatch %d", e.ClusterIdMismatch.Request)
	case e.Congested != nil:
		return "congested"
	case e.ServerIsBusy != nil:
		return fmt.Sprintf("busy for %d", e.ServerIsBusy.BackoffMs)
	}
	return "?"
}

// calm is a small cluster without hazards.
func calm(t *testing.T) (*fake.Cluster, *client) {
	t.Helper()
	c := run(t, fake.Config{Calm: true, StartTS: 1000 << 18, ResolvedInterval: 2 * time.Millisecond})
	return c, newClient(t, c)
}

// regionOf finds the region of a raw key.
func (cl *client) regionOf(t testing.TB, key string) *pdpb.Region {
	t.Helper()
	resp, err := cl.pd.GetRegion(within(t, guard), &pdpb.GetRegionRequest{
		Header: cl.header(), RegionKey: []byte(span.EncodeKey([]byte(key))),
	})
	if err != nil || resp.Region == nil {
		t.Fatalf("region of %q: %v, %v", key, resp, err)
	}
	return &pdpb.Region{Region: resp.Region, Leader: resp.Leader}
}

// subscribed opens a feed on the region of a key and waits for INITIALIZED.
func (cl *client) subscribed(t *testing.T, key string) *feed {
	t.Helper()
	r := cl.regionOf(t, key)
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	f.send(cl.request(r, 1, 1))
	f.want("1: INITIALIZED")
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(key, value string, start tso.TS) mvcc.Lock {
	return mvcc.Lock{Op: mvcc.Put, Key: []byte(key), Value: []byte(value), Primary: []byte(key), StartTS: start}
}
