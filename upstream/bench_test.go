package upstream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/clients/router"
	"github.com/tikv/pd/client/pkg/caller"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// bulk is a load of rows with values of 200 bytes in one region of one table.
func bulk(rows int) *fake.Bulk {
	value := make([]byte, 200)
	prefix := span.RecordPrefix(100)
	return &fake.Bulk{Rows: rows, Regions: 1, Row: func(i int) (k, v []byte) {
		v = append([]byte(nil), value...)
		binary.BigEndian.PutUint64(v, uint64(i))
		return span.AppendInt(append([]byte(nil), prefix...), int64(i)), v
	}}
}

// BenchmarkStream compares Subscribe with a bare client: one that reads the same
// messages with kvproto's code and throws them away.
func BenchmarkStream(b *testing.B) {
	const rows = 1_000_000
	for _, c := range []struct {
		name string
		read func(context.Context, *fake.Cluster, *upstream.Client) (int, error)
	}{{"bare", bare}, {"subscribe", subscribed}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				cl, client := cluster(b, fake.Config{Bulk: bulk(rows), Stores: 1, Calm: true}, nil)
				b.StartTimer()
				n, err := c.read(b.Context(), cl, client)
				if err != nil || n != rows {
					b.Fatalf("%d rows, %v", n, err)
				}
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func subscribed(ctx context.Context, c *fake.Cluster, client *upstream.Client) (n int, err error) {
	err = client.Subscribe(ctx, upstream.Subscription{Span: span.OfTable(100), StartTS: c.TS()}, func(b upstream.Batch) error {
		if n += len(b.Rows); n >= 1_000_000 {
			return errThere
		}
		return nil
	})
	if errors.Is(err, errThere) {
		err = nil
	}
	return n, err
}

func bare(ctx context.Context, c *fake.Cluster, client *upstream.Client) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := pd.NewClientWithContext(ctx, caller.Component("bare"), c.PD(), pd.SecurityOption{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	s := span.OfTable(100)
	found, err := p.BatchScanRegions(ctx, []router.KeyRange{{StartKey: []byte(s.Start), EndKey: []byte(s.End)}}, 0)
	if err != nil || len(found) != 1 {
		return 0, fmt.Errorf("%d regions, %w", len(found), err)
	}
	store, err := p.GetStore(ctx, found[0].Leader.StoreId)
	if err != nil {
		return 0, err
	}
	cc, err := grpc.NewClient("passthrough:///"+store.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(8<<20), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<28)))
	if err != nil {
		return 0, err
	}
	defer cc.Close()
	stream, err := cdcpb.NewChangeDataClient(cc).EventFeedV2(metadata.AppendToOutgoingContext(ctx, "features", "stream-multiplexing"))
	if err != nil {
		return 0, err
	}
	err = stream.Send(&cdcpb.ChangeDataRequest{
		Header: &cdcpb.Header{ClusterId: client.ClusterID(), TicdcVersion: "8.5.0"}, RequestId: 1, RegionId: found[0].Meta.Id,
		RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: found[0].Meta.RegionEpoch.Version}, CheckpointTs: uint64(c.TS()),
		StartKey: []byte(s.Start), EndKey: []byte(s.End)})
	if err != nil {
		return 0, err
	}
	for n < 1_000_000 {
		m, err := stream.Recv()
		if err != nil {
			return n, err
		}
		for _, e := range m.Events {
			for _, row := range e.GetEntries().GetEntries() {
				if row.Type == cdcpb.Event_COMMIT || row.Type == cdcpb.Event_COMMITTED {
					n++
				}
			}
		}
	}
	return n, nil
}
