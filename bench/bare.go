package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-cdc/sluice/span"
)

// maxMessage is TiKV's largest, as its clients have it.
const maxMessage = 256 << 20

// bare follows the load with the generated client and throws it away: the least
// that any client pays.
func bare(ctx context.Context, pd string, rows int) (Usage, error) {
	regions, stores, cluster, err := place(ctx, pd)
	if err != nil {
		return Usage{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	counts := make(chan int, 64) // a message's rows each: the counter is never behind for long
	for id, addr := range stores {
		var own []*pdpb.Region
		for _, r := range regions {
			if r.Leader.StoreId == id {
				own = append(own, r)
			}
		}
		if len(own) > 0 {
			g.Go(func() error { return drain(ctx, addr, cluster, own, counts) })
		}
	}
	var out Usage
	g.Go(func() error {
		defer stop()
		var watch stopwatch
		for got := 0; got < rows; {
			select {
			case n := <-counts:
				if got == 0 {
					watch = startWatch()
				}
				got += n
			case <-ctx.Done():
				return fmt.Errorf("%d of %d rows: %w", got, rows, context.Cause(ctx))
			}
		}
		out = watch.stop()
		return nil
	})
	if err := g.Wait(); err != nil && out.Wall == 0 {
		return Usage{}, err
	}
	return out, nil
}

// place asks PD for the load's regions and the stores' addresses.
func place(ctx context.Context, pd string) (regions []*pdpb.Region, stores map[uint64]string, cluster uint64, err error) {
	conn, err := dial(pd)
	if err != nil {
		return nil, nil, 0, err
	}
	defer conn.Close()
	client := pdpb.NewPDClient(conn)
	members, err := client.GetMembers(ctx, &pdpb.GetMembersRequest{})
	if err != nil {
		return nil, nil, 0, err
	}
	header := &pdpb.RequestHeader{ClusterId: members.Header.ClusterId}
	s := loadSpan()
	found, err := client.BatchScanRegions(ctx, &pdpb.BatchScanRegionsRequest{
		Header: header, Ranges: []*pdpb.KeyRange{{StartKey: []byte(s.Start), EndKey: []byte(s.End)}}, Limit: 1000,
	})
	if err != nil {
		return nil, nil, 0, err
	}
	all, err := client.GetAllStores(ctx, &pdpb.GetAllStoresRequest{Header: header})
	if err != nil {
		return nil, nil, 0, err
	}
	stores = map[uint64]string{}
	for _, s := range all.Stores {
		stores[s.Id] = s.Address
	}
	return found.Regions, stores, header.ClusterId, nil
}

// drain registers the regions of one store and counts what comes.
func drain(ctx context.Context, addr string, cluster uint64, regions []*pdpb.Region, counts chan<- int) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "features", "stream-multiplexing")
	stream, err := cdcpb.NewChangeDataClient(conn).EventFeedV2(ctx)
	if err != nil {
		return err
	}
	s := loadSpan()
	for i, r := range regions {
		part, _ := s.Intersect(spanOf(r.Region))
		err := stream.Send(&cdcpb.ChangeDataRequest{
			Header:    &cdcpb.Header{ClusterId: cluster, TicdcVersion: "8.5.0"},
			RequestId: uint64(i + 1), RegionId: r.Region.Id, RegionEpoch: r.Region.RegionEpoch,
			StartKey: []byte(part.Start), EndKey: []byte(part.End), CheckpointTs: 1,
		})
		if err != nil {
			return err
		}
	}
	for {
		ev, err := stream.Recv()
		if err != nil {
			return err
		}
		n := 0
		for _, e := range ev.Events {
			if fault := e.GetError(); fault != nil {
				return fmt.Errorf("region %d: %v", e.RegionId, fault)
			}
			for _, row := range e.GetEntries().GetEntries() {
				if row.Type == cdcpb.Event_COMMIT {
					n++
				}
			}
		}
		if n == 0 {
			continue
		}
		select {
		case counts <- n:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(strings.TrimPrefix(addr, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow))
}

// gRPC's flow control windows, as large as upstream's: with gRPC's own, which are
// small, they would be the limit.
const (
	streamWindow = 1 << 20
	connWindow   = 8 << 20
)

func spanOf(r *metapb.Region) span.Span {
	return span.Span{Start: span.Key(r.StartKey), End: span.Key(r.EndKey)}
}
