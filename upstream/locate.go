package upstream

import (
	"context"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/pd/client/clients/router"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// place is a region with what a read needs to know of it.
type place struct {
	region.Region
	peer  *metapb.Peer // its leader
	epoch *metapb.RegionEpoch
}

// locateMax is the most regions of one answer; more are asked for in turn. PD's
// answer stays below a megabyte.
const locateMax = 1024

// locate asks PD for the regions of a span, in key order, the first ones where
// there are too many. There may be holes.
func (c *Client) locate(ctx context.Context, s span.Span) ([]place, error) {
	select {
	case c.lookups <- struct{}{}:
		defer func() { <-c.lookups }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, err := c.pd.BatchScanRegions(ctx, []router.KeyRange{{StartKey: []byte(s.Start), EndKey: []byte(s.End)}}, locateMax)
	if status.Code(err) == codes.Unimplemented {
		// The older PDs that we support answer for one range only.
		found, err = c.pd.ScanRegions(ctx, []byte(s.Start), []byte(s.End), locateMax) //nolint:staticcheck // deprecated, but theirs
	}
	if err != nil {
		return nil, c.pdError(ctx, err, cdcerr.RegionLookup, "the regions of %v", s)
	}
	out := make([]place, 0, len(found))
	for _, r := range found {
		out = append(out, placeOf(r))
	}
	return out, nil
}

func placeOf(r *router.Region) place {
	p := place{peer: r.Leader, epoch: r.Meta.GetRegionEpoch()}
	p.Region = regionOf(r.Meta)
	if r.Leader.GetId() != 0 { // a region without a leader names an empty peer
		p.Store = r.Leader.GetStoreId()
	}
	return p
}

// regionOf is a region without its leader.
func regionOf(m *metapb.Region) region.Region {
	return region.Region{
		ID:      m.GetId(),
		ConfVer: m.GetRegionEpoch().GetConfVer(),
		Version: m.GetRegionEpoch().GetVersion(),
		Span:    span.Span{Start: span.Key(m.GetStartKey()), End: span.Key(m.GetEndKey())},
	}
}
