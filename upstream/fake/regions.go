package fake

import (
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// Regions on command: they split, merge and change their leaders, and whoever
// subscribed to them is told. PD hears of it a little later.

// Split cuts a region at a raw key. Whoever subscribed to it gets
// epoch_not_match with both parts; the right one keeps the id.
func (c *Cluster) Split(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.splitLocked(key)
}

func (c *Cluster) splitLocked(key []byte) {
	parts, ok := c.regions.Split(key)
	if !ok {
		return
	}
	c.redrawnLocked()
	fault := &errorpb.EpochNotMatch{}
	for _, r := range parts {
		fault.CurrentRegions = append(fault.CurrentRegions, regionPB(r))
	}
	c.failRegionLocked(parts[len(parts)-1].ID, &cdcpb.Error{EpochNotMatch: fault})
}

// Lead moves the leader of a region to a store. Whoever subscribed to it gets
// not_leader.
func (c *Cluster) Lead(region, store uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.regions.Lead(region, store)
	if err != nil {
		return err
	}
	c.redrawnLocked()
	c.failRegionLocked(region, &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: region, Leader: peerPB(r.Leader)}})
	return nil
}

func (c *Cluster) failRegionLocked(region uint64, fault *cdcpb.Error) {
	for len(c.byRegion[region]) > 0 {
		c.cutOff = time.Now()
		c.failLocked(c.byRegion[region][0], fault)
	}
}

// PrepareMerge makes a region the source of a merge: it serves nobody until
// CommitMerge or RollbackMerge. Whoever subscribed to it gets epoch_not_match
// that names no region.
func (c *Cluster) PrepareMerge(source uint64) error {
	return c.redraw(source, func() (*topology.Region, error) { return c.regions.PrepareMerge(source) })
}

// CommitMerge gives the keys of a prepared source to a neighbour. Whoever
// subscribed to the neighbour gets epoch_not_match that names no region.
func (c *Cluster) CommitMerge(source, target uint64) error {
	return c.redraw(target, func() (*topology.Region, error) { return c.regions.CommitMerge(source, target) })
}

// RollbackMerge lets a prepared source serve again.
func (c *Cluster) RollbackMerge(source uint64) error {
	return c.redraw(source, func() (*topology.Region, error) { return c.regions.RollbackMerge(source) })
}

// Merge gives the keys of a region to its neighbour target at once.
func (c *Cluster) Merge(source, target uint64) error {
	if err := c.PrepareMerge(source); err != nil {
		return err
	}
	if err := c.CommitMerge(source, target); err != nil {
		return errors.Join(err, c.RollbackMerge(source))
	}
	return nil
}

// redraw does a step of a merge, and ends the subscriptions of a region.
func (c *Cluster) redraw(region uint64, do func() (*topology.Region, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := do(); err != nil {
		return err
	}
	c.redrawnLocked()
	c.failRegionLocked(region, &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}})
	return nil
}

// redrawnLocked is called after every change of regions.
func (c *Cluster) redrawnLocked() {
	c.lastRegion = nil
	if c.unseen.IsZero() {
		c.unseen = time.Now()
	}
}

// pdRegionsLocked is the regions as PD knows them: stores report to it, and so
// it is late, by up to Config.PDLag.
func (c *Cluster) pdRegionsLocked() *topology.Map {
	if !c.unseen.IsZero() && time.Since(c.unseen) >= c.pdLag {
		c.pdRegions, c.unseen = c.regions.Clone(), time.Time{}
	}
	return c.pdRegions
}

// Locate is the region that holds a raw key.
func (c *Cluster) Locate(key []byte) *topology.Region {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regions.Find(span.EncodeKey(key))
}
