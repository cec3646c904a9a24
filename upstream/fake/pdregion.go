package fake

import (
	"context"
	"errors"
	"io"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// What PD knows about stores and regions. Keys in these calls are encoded.

// GetAllStores lists the stores.
func (p *pdServer) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	resp := &pdpb.GetAllStoresResponse{Header: p.header()}
	for _, s := range p.cluster.stores {
		resp.Stores = append(resp.Stores, s.proto())
	}
	return resp, nil
}

// GetStore describes one store.
func (p *pdServer) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	for _, s := range p.cluster.stores {
		if s.id == req.StoreId {
			return &pdpb.GetStoreResponse{Header: p.header(), Store: s.proto()}, nil
		}
	}
	return &pdpb.GetStoreResponse{Header: p.refused(&pdpb.Error{
		Type: pdpb.ErrorType_UNKNOWN, Message: "invalid store ID, not found",
	})}, nil
}

// GetRegion finds the region of an encoded key.
func (p *pdServer) GetRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.region(p.cluster.pdRegionsLocked().Find(span.Key(req.RegionKey))), nil
}

// GetPrevRegion finds the region left of that of an encoded key.
func (p *pdServer) GetPrevRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.region(p.cluster.pdRegionsLocked().Before(span.Key(req.RegionKey))), nil
}

// GetRegionByID finds a region by its id.
func (p *pdServer) GetRegionByID(_ context.Context, req *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.region(p.cluster.pdRegionsLocked().ByID(req.RegionId)), nil
}

// region answers with r; a region that does not exist is an empty answer.
func (p *pdServer) region(r *topology.Region) *pdpb.GetRegionResponse {
	resp := &pdpb.GetRegionResponse{Header: p.header()}
	if r != nil {
		resp.Region, resp.Leader = regionPB(r), peerPB(r.Leader)
	}
	return resp
}

// ScanRegions lists the regions of a range, in the old form and the new.
func (p *pdServer) ScanRegions(_ context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	resp := &pdpb.ScanRegionsResponse{Header: p.header()}
	for _, r := range p.scan(req.StartKey, req.EndKey, int(req.Limit)) {
		resp.Regions = append(resp.Regions, r)
		resp.RegionMetas = append(resp.RegionMetas, r.Region)
		resp.Leaders = append(resp.Leaders, r.Leader)
	}
	return resp, nil
}

// BatchScanRegions lists the regions of several ranges, each region once. The
// regions of the fake have no holes, so that every range is covered as far as
// the limit goes.
func (p *pdServer) BatchScanRegions(_ context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	resp := &pdpb.BatchScanRegionsResponse{Header: p.header()}
	last := uint64(0)
	for _, r := range req.Ranges {
		left := 0
		if req.Limit > 0 {
			if left = int(req.Limit) - len(resp.Regions); left <= 0 {
				break
			}
			left++ // the first may be the last of the range before
		}
		for _, found := range p.scan(r.StartKey, r.EndKey, left) {
			if found.Region.Id == last || (req.Limit > 0 && len(resp.Regions) == int(req.Limit)) {
				continue
			}
			last = found.Region.Id
			resp.Regions = append(resp.Regions, found)
		}
	}
	return resp, nil
}

func (p *pdServer) scan(start, end []byte, limit int) []*pdpb.Region {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	var out []*pdpb.Region
	for _, r := range p.cluster.pdRegionsLocked().Range(span.Key(start), span.Key(end), limit) {
		out = append(out, &pdpb.Region{Region: regionPB(r), Leader: peerPB(r.Leader)})
	}
	return out
}

// QueryRegion answers batches of look-ups, the way newer clients ask.
func (p *pdServer) QueryRegion(stream pdpb.PD_QueryRegionServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.check(stream.Context(), req.GetHeader()); err != nil {
			return err
		}
		if err := stream.Send(p.query(req)); err != nil {
			return err
		}
	}
}

func (p *pdServer) query(req *pdpb.QueryRegionRequest) *pdpb.QueryRegionResponse {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	resp := &pdpb.QueryRegionResponse{Header: p.header(), RegionsById: map[uint64]*pdpb.RegionResponse{}}
	// known adds a region to the answer; the id of none is 0.
	known := func(r *topology.Region) uint64 {
		if r == nil {
			return 0
		}
		resp.RegionsById[r.ID] = &pdpb.RegionResponse{Region: regionPB(r), Leader: peerPB(r.Leader)}
		return r.ID
	}
	for _, id := range req.Ids {
		known(p.cluster.pdRegionsLocked().ByID(id))
	}
	for _, key := range req.Keys {
		resp.KeyIdMap = append(resp.KeyIdMap, known(p.cluster.pdRegionsLocked().Find(span.Key(key))))
	}
	for _, key := range req.PrevKeys {
		resp.PrevKeyIdMap = append(resp.PrevKeyIdMap, known(p.cluster.pdRegionsLocked().Before(span.Key(key))))
	}
	return resp
}
