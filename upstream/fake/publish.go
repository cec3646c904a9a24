package fake

import (
	"bytes"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// loopMask is the part of a txn_source that names a replicating writer; all
// above it are writes that no change stream shows.
const loopMask = 0xff

// publishLocked tells every subscriber of the change's key what happened to it,
// and whoever waits for its lock that it may be gone.
func (c *Cluster) publishLocked(ch *mvcc.Change) {
	c.journalLocked(ch)
	c.waiting.wake(ch.Key)
	c.hazards.before(c)
	if ch.Kind != mvcc.Nothing && c.journalErr == nil {
		for range c.breaks.row(c, ch) {
			c.deliverLocked(ch)
		}
	}
	c.hazards.after(c, ch)
}

func (c *Cluster) deliverLocked(ch *mvcc.Change) {
	if ch.TxnSource > loopMask {
		return
	}
	subs := c.byRegion[c.regionOfLocked(ch.Key).ID]
	if len(subs) == 0 {
		return
	}
	row := rowPB(ch)
	for i := 0; i < len(subs); i++ {
		sub := subs[i]
		if !sub.covers(ch.Key) || (sub.filterLoop && ch.TxnSource != 0) {
			continue
		}
		if !sub.conn.live(sub, row) {
			c.failLocked(sub, &cdcpb.Error{Congested: &cdcpb.Congested{RegionId: sub.region}})
			subs = c.byRegion[sub.region]
			i--
		}
	}
}

// regionOfLocked finds the region of a raw key; neighbours are asked for one
// after the other, so the last answer is kept.
func (c *Cluster) regionOfLocked(key []byte) *topology.Region {
	r := c.lastRegion
	if r != nil && bytes.Compare(key, r.RawStart) >= 0 && (len(r.RawEnd) == 0 || bytes.Compare(key, r.RawEnd) < 0) {
		return r
	}
	c.lastRegion = c.regions.Find(span.EncodeKey(key))
	return c.lastRegion
}
