package fake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"
	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// multiplexing is the one feature that EventFeedV2 knows.
const multiplexing = "stream-multiplexing"

// Since these versions of the subscriber TiKV sends one ResolvedTs for many
// regions, and compares cluster ids.
var (
	batchResolvedSince = semver.Version{Major: 4, Minor: 0, Patch: 8}
	clusterIDSince     = semver.Version{Major: 5, Minor: 3, Patch: 0}
)

// subKey names a subscription on its stream.
type subKey struct{ request, region uint64 }

// subscription is one region, or a part of it, of one request.
type subscription struct {
	conn       *conn
	request    uint64
	region     uint64
	start, end []byte // raw; within the region
	after      tso.TS // the scan tells commits above it
	filterLoop bool
	bulkSent   int // the bulk events before it, which its scan tells

	// Under Cluster.mu.
	dead        bool // an error was told, or it was deregistered: nothing more may come
	initialized bool
	resolved    tso.TS

	open *item // the last item of live rows in the queue; under conn.mu
}

func (s *subscription) covers(key []byte) bool {
	return bytes.Compare(key, s.start) >= 0 && (len(s.end) == 0 || bytes.Compare(key, s.end) < 0)
}

// EventFeed is the old form of the stream: one subscription a region.
func (s *storeServer) EventFeed(stream cdcpb.ChangeData_EventFeedServer) error {
	return s.feed(stream, false)
}

// EventFeedV2 negotiates features by the request's metadata.
func (s *storeServer) EventFeedV2(stream cdcpb.ChangeData_EventFeedV2Server) error {
	var unknown []string
	multiplex := false
	md, _ := metadata.FromIncomingContext(stream.Context())
	for _, header := range md.Get("features") {
		for name := range strings.SplitSeq(header, ",") {
			switch name = strings.TrimSpace(name); name {
			case multiplexing:
				multiplex = true
			case "":
			default:
				unknown = append(unknown, name)
			}
		}
	}
	if len(unknown) > 0 {
		return status.Error(codes.Unimplemented, strings.Join(unknown, ","))
	}
	return s.feed(stream, multiplex)
}

// feed serves one stream: one goroutine reads requests, one sends, a few scan.
func (s *storeServer) feed(stream grpc.ServerStream, multiplex bool) error {
	c := s.cluster
	cn := c.connect(s.id, multiplex)
	defer c.disconnect(cn)
	whole, cancel := context.WithCancel(stream.Context())
	defer cancel()
	requests := make(chan error, 1)
	// RecvMsg returns only once the stream is over, and the stream is over only
	// once feed has returned: so this one is waited for by Run.
	c.readers.Go(func() { requests <- c.receive(whole, stream, cn) })
	tasks, ctx := errgroup.WithContext(whole)
	tasks.Go(func() error { return cn.send(ctx, stream) })
	for range scanWorkers {
		tasks.Go(func() error { return c.scans(ctx, cn) })
	}
	tasks.Go(func() error {
		select {
		case err := <-requests:
			// The client is done; end the others.
			return errors.Join(err, errStreamOver)
		case err := <-cn.cut:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	err := tasks.Wait()
	if errors.Is(err, errStreamOver) {
		return nil
	}
	return err
}

var errStreamOver = errors.New("the subscriber ended the stream")

// send writes the queue to the wire until the stream ends.
func (cn *conn) send(ctx context.Context, stream grpc.ServerStream) error {
	for {
		resp, weight := cn.take()
		if resp == nil {
			select {
			case <-cn.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := stream.SendMsg(resp); err != nil {
			return err
		}
		cn.sent(weight)
	}
}

// receive takes the requests of a stream until it ends.
func (c *Cluster) receive(ctx context.Context, stream grpc.ServerStream, cn *conn) error {
	for {
		req := new(cdcpb.ChangeDataRequest)
		err := stream.RecvMsg(req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// Every request may be answered with an error: no faster than they are read.
		if err := cn.room(ctx, cn.quota); err != nil {
			return err
		}
		if !cn.greeted {
			cn.greet(req.GetHeader().GetTicdcVersion())
		}
		switch req.Request.(type) {
		case *cdcpb.ChangeDataRequest_Deregister_:
			c.deregister(cn, req)
		case *cdcpb.ChangeDataRequest_NotifyTxnStatus_:
		default:
			c.hazards.meet(ctx, c, req.RegionId)
			if fault := c.register(cn, req); fault != nil {
				cn.tell(errorEvent(req.RequestId, req.RegionId, fault))
			}
		}
	}
}

func (cn *conn) greet(version string) {
	cn.greeted = true
	v, err := semver.NewVersion(version)
	if err != nil {
		v = &semver.Version{}
	}
	cn.batchResolved = !v.LessThan(batchResolvedSince)
	cn.checkCluster = !v.LessThan(clusterIDSince)
}

func errorEvent(request, region uint64, fault *cdcpb.Error) *cdcpb.Event {
	return &cdcpb.Event{RequestId: request, RegionId: region, Event: &cdcpb.Event_Error{Error: fault}}
}

// connect makes a stream known to the cluster.
func (c *Cluster) connect(store uint64, multiplex bool) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rng *rand.Rand
	if !c.cfg.Calm {
		rng = rand.New(rand.NewPCG(c.rng.Uint64(), 1))
	}
	cn := newConn(store, multiplex, c.cfg.QueueBytes, rng)
	c.conns[cn] = struct{}{}
	return cn
}

// disconnect forgets a stream and all its subscriptions.
func (c *Cluster) disconnect(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sub := range cn.subs {
		c.dropLocked(sub)
	}
	delete(c.conns, cn)
	cn.close()
}

// register takes a request for a region, or says why not.
func (c *Cluster) register(cn *conn, req *cdcpb.ChangeDataRequest) *cdcpb.Error {
	if id, own := req.GetHeader().GetClusterId(), c.claimed.Load(); cn.checkCluster && id != own {
		return &cdcpb.Error{ClusterIdMismatch: &cdcpb.ClusterIDMismatch{Current: own, Request: id}}
	}
	if req.KvApi != cdcpb.ChangeDataRequest_TiDB {
		return &cdcpb.Error{Compatibility: &cdcpb.Compatibility{RequiredVersion: "6.2.0"}}
	}
	key := subKey{req.RequestId, req.RegionId}
	if !cn.multiplex {
		key.request = 0 // one subscription a region
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cn.subs[key] != nil {
		return &cdcpb.Error{DuplicateRequest: &cdcpb.DuplicateRequest{RegionId: req.RegionId}}
	}
	r := c.regions.ByID(req.RegionId)
	if r == nil {
		return &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: req.RegionId}}
	}
	if r.Leader.Store != cn.store {
		return &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: r.ID, Leader: peerPB(r.Leader)}}
	}
	if req.GetRegionEpoch().GetVersion() != r.Version {
		return &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{regionPB(r)}}}
	}
	if r.Merging {
		// An error without a form of its own.
		return &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: r.ID}}
	}
	if fault := c.refuseLocked(r); fault != nil {
		return fault
	}
	sub := &subscription{
		conn: cn, request: req.RequestId, region: r.ID, start: r.RawStart, end: r.RawEnd,
		after: tso.TS(req.CheckpointTs), filterLoop: req.FilterLoop,
		bulkSent: c.bulkSent,
	}
	sub.clip(req.StartKey, req.EndKey)
	queue := cn.scans
	if req.ScanPriority == cdcpb.ScanPriority_SCAN_PRIORITY_HIGH {
		queue = cn.urgent
	}
	select {
	case queue <- sub:
	default:
		return &cdcpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "too many pending incremental scans", BackoffMs: 1000}}
	}
	// Live rows come from here on; the scan sees the store a little later, as in
	// TiKV, where the observer is set before the snapshot is taken.
	cn.subs[key] = sub
	c.registered++
	c.scanning++
	c.byRegion[r.ID] = append(c.byRegion[r.ID], sub)
	return nil
}

// clip narrows the subscription to a range of encoded keys; one that cannot be
// decoded means the whole region, as in TiKV.
func (s *subscription) clip(start, end []byte) {
	rawStart, err := rawKey(start)
	if err != nil {
		return
	}
	rawEnd, err := rawKey(end)
	if err != nil {
		return
	}
	if bytes.Compare(rawStart, s.start) > 0 {
		s.start = rawStart
	}
	if len(rawEnd) != 0 && (len(s.end) == 0 || bytes.Compare(rawEnd, s.end) < 0) {
		s.end = rawEnd
	}
}

func rawKey(encoded []byte) ([]byte, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	return span.DecodeKey(span.Key(encoded))
}

// deregister drops one region of a request, or with region 0 all of them.
func (c *Cluster) deregister(cn *conn, req *cdcpb.ChangeDataRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sub := range cn.subs {
		if (sub.request == req.RequestId || !cn.multiplex) && (req.RegionId == 0 || sub.region == req.RegionId) {
			c.failLocked(sub, &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: sub.region}})
		}
	}
}

// failLocked ends a subscription with an error event; nothing follows it.
func (c *Cluster) failLocked(sub *subscription, fault *cdcpb.Error) {
	if c.dropLocked(sub) {
		sub.conn.tell(errorEvent(sub.request, sub.region, fault))
		c.breaks.afterwards(sub)
	}
}

func (c *Cluster) dropLocked(sub *subscription) bool {
	if sub.dead {
		return false
	}
	sub.dead = true
	if !sub.initialized {
		c.scanning--
	}
	key := subKey{sub.request, sub.region}
	if !sub.conn.multiplex {
		key.request = 0
	}
	delete(sub.conn.subs, key)
	left := slices.DeleteFunc(c.byRegion[sub.region], func(o *subscription) bool { return o == sub })
	if len(left) == 0 {
		delete(c.byRegion, sub.region)
	} else {
		c.byRegion[sub.region] = left
	}
	return true
}
