package fake

import (
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// FeedError is an error that TiKV ends a registration with.
type FeedError uint8

// The errors. Those from DuplicateRequest on end a subscription for good, as
// TiKV gives them only to a subscriber that does wrong, or is in the wrong place.
const (
	NotLeader           FeedError = iota + 1 // names the leader
	NotLeaderUnknown                         // names nobody: an election is under way
	RegionNotFound                           // also TiKV's word for whatever it has no other word for
	EpochNotMatch                            // names the region as it is
	EpochNotMatchUnsaid                      // names none, as after a merge
	ServerIsBusy                             // asks for a pause
	Congested                                // its queue is full
	Unexplained                              // an error without any of the fields
	DuplicateRequest
	Compatibility
	ClusterIDMismatch
)

// Terminal tells whether a subscriber may not try again after the error.
func (e FeedError) Terminal() bool { return e >= DuplicateRequest }

// busyMS is the pause that a busy store asks for.
const busyMS = 50

func (e FeedError) message(c *Cluster, r *topology.Region) *cdcpb.Error {
	switch e {
	case NotLeader:
		return &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: r.ID, Leader: peerPB(r.Leader)}}
	case NotLeaderUnknown:
		return &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: r.ID}}
	case RegionNotFound:
		return &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: r.ID}}
	case EpochNotMatch:
		return &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{regionPB(r)}}}
	case EpochNotMatchUnsaid:
		return &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}
	case ServerIsBusy:
		return &cdcpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "too many pending incremental scans", BackoffMs: busyMS}}
	case Congested:
		return &cdcpb.Error{Congested: &cdcpb.Congested{RegionId: r.ID}}
	case DuplicateRequest:
		return &cdcpb.Error{DuplicateRequest: &cdcpb.DuplicateRequest{RegionId: r.ID}}
	case Compatibility:
		return &cdcpb.Error{Compatibility: &cdcpb.Compatibility{RequiredVersion: "99.0.0"}}
	case ClusterIDMismatch:
		return &cdcpb.Error{ClusterIdMismatch: &cdcpb.ClusterIDMismatch{Current: c.cfg.ClusterID + 1, Request: c.cfg.ClusterID}}
	}
	return &cdcpb.Error{}
}

// Fail ends every registration of a region with an error, and says how many
// there were.
func (c *Cluster) Fail(region uint64, e FeedError) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.regions.ByID(region)
	n := len(c.byRegion[region])
	if r != nil {
		c.failRegionLocked(region, e.message(c, r))
	}
	return n
}

// Refuse answers the next n requests for registration with an error.
func (c *Cluster) Refuse(n int, e FeedError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.refusals = append(c.refusals, e)
	}
}

// accept refuses nothing any more.
func (c *Cluster) accept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals = nil
}

// refuseLocked is the error for a registration that is to be refused, else nil.
func (c *Cluster) refuseLocked(r *topology.Region) *cdcpb.Error {
	if len(c.refusals) == 0 {
		return nil
	}
	e := c.refusals[0]
	c.refusals = c.refusals[1:]
	return e.message(c, r)
}

// Lag keeps the resolved-ts of a region where it is for some time. TiKV
// promises nothing of how fast it moves.
func (c *Cluster) Lag(region uint64, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lagging == nil {
		c.lagging = map[uint64]time.Time{}
	}
	c.lagging[region] = time.Now().Add(d)
}

// lagsLocked tells whether a region's resolved-ts has to stay where it is.
func (c *Cluster) lagsLocked(region uint64) bool {
	until, ok := c.lagging[region]
	if ok && time.Now().After(until) {
		delete(c.lagging, region)
		return false
	}
	return ok
}

// SetPDLag changes Config.PDLag.
func (c *Cluster) SetPDLag(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pdLag = d
}
