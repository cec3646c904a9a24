package fake_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// client speaks to a cluster with nothing but the generated stubs.
type client struct {
	cluster *fake.Cluster
	pd      pdpb.PDClient
	conns   map[uint64]*grpc.ClientConn // by store
	closers []io.Closer
}

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)),
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(8<<20))
}

func newClient(t testing.TB, c *fake.Cluster) *client {
	t.Helper()
	cl := &client{cluster: c, conns: map[uint64]*grpc.ClientConn{}}
	t.Cleanup(func() {
		for _, x := range cl.closers {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	conn, err := dial(c.PD()[0][len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	cl.closers = append(cl.closers, conn)
	cl.pd = pdpb.NewPDClient(conn)
	stores, err := cl.pd.GetAllStores(within(t, guard), &pdpb.GetAllStoresRequest{Header: cl.header()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stores.Stores {
		conn, err := dial(s.Address)
		if err != nil {
			t.Fatal(err)
		}
		cl.closers = append(cl.closers, conn)
		cl.conns[s.Id] = conn
	}
	return cl
}

func (cl *client) header() *pdpb.RequestHeader {
	return &pdpb.RequestHeader{ClusterId: cl.cluster.ClusterID()}
}

func (cl *client) regions(ctx context.Context, start, end span.Key) ([]*pdpb.Region, error) {
	resp, err := cl.pd.BatchScanRegions(ctx, &pdpb.BatchScanRegionsRequest{
		Header: cl.header(), Ranges: []*pdpb.KeyRange{{StartKey: []byte(start), EndKey: []byte(end)}},
		ContainAllKeyRange: true,
	})
	if err != nil {
		return nil, err
	}
	return resp.Regions, nil
}

// scan reads everything at a ts, region by region and page by page.
func (cl *client) scan(ctx context.Context, at tso.TS) (map[string]string, error) {
	out := map[string]string{}
	regions, err := cl.regions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	for _, r := range regions {
		kv := tikvpb.NewTikvClient(cl.conns[r.Leader.StoreId])
		start, _ := span.DecodeKey(span.Key(r.Region.StartKey))
		for {
			resp, err := kv.KvScan(ctx, &kvrpcpb.ScanRequest{
				Context:  &kvrpcpb.Context{RegionId: r.Region.Id, RegionEpoch: r.Region.RegionEpoch, Peer: r.Leader},
				StartKey: start, Limit: 512, Version: uint64(at),
			})
			if err != nil {
				return nil, err
			}
			if resp.RegionError != nil || resp.Error != nil {
				return nil, fmt.Errorf("scan: %v %v", resp.RegionError, resp.Error)
			}
			for _, p := range resp.Pairs {
				if p.Error != nil {
					return nil, fmt.Errorf("scan: %v", p.Error)
				}
				out[string(p.Key)] = string(p.Value)
			}
			if len(resp.Pairs) < 512 {
				break
			}
			start = append(resp.Pairs[511].Key, 0)
		}
	}
	return out, nil
}
