package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/span"
)

// puppetMember is one of several PDs: only the leader answers most questions.
type puppetMember struct {
	*puppet
	door *door
}

// startPD adds a member; the first one leads.
func (p *puppet) startPD(t testing.TB) *door {
	m := &puppetMember{puppet: p}
	g := grpc.NewServer()
	pdpb.RegisterPDServer(g, m)
	meta_storagepb.RegisterMetaStorageServer(g, p)
	keyspacepb.RegisterKeyspaceServer(g, p)
	mux := http.NewServeMux()
	mux.HandleFunc("/pd/api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"version": p.version})
	})
	m.door, _ = p.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			g.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, m)
	return m.door
}

// leads is the error of a member that does not lead.
func (m *puppetMember) leads() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members[m.leader] != m {
		return status.Error(codes.Unavailable, "not leader")
	}
	return nil
}

func (m *puppetMember) Tso(s pdpb.PD_TsoServer) error {
	if err := m.leads(); err != nil {
		return err
	}
	return m.puppet.Tso(s)
}

func (m *puppetMember) BatchScanRegions(ctx context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	if err := m.leads(); err != nil {
		return nil, err
	}
	return m.puppet.BatchScanRegions(ctx, req)
}

func (p *puppet) header() *pdpb.ResponseHeader {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.ResponseHeader{ClusterId: p.cluster}
}

// refuse is what PD says to requests for another cluster.
func (p *puppet) refuse(h *pdpb.RequestHeader) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.GetClusterId() != p.cluster {
		return status.Errorf(codes.FailedPrecondition, "mismatch cluster id, need %d but got %d", p.cluster, h.GetClusterId())
	}
	return nil
}

func (p *puppet) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	scheme := "http://"
	if p.tls != nil {
		scheme = "https://"
	}
	resp := &pdpb.GetMembersResponse{Header: p.header()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.members {
		resp.Members = append(resp.Members, &pdpb.Member{Name: "pd", MemberId: uint64(i + 1), ClientUrls: []string{scheme + m.door.Addr().String()}})
	}
	resp.Leader, resp.EtcdLeader = resp.Members[p.leader], resp.Members[p.leader]
	return resp, nil
}

func (p *puppet) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{Header: p.header(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}

func (p *puppet) Tso(s pdpb.PD_TsoServer) error {
	for {
		req, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		ts := &pdpb.Timestamp{Physical: puppetNow + p.ticks.Add(1), Logical: int64(req.GetCount())}
		if err := s.Send(&pdpb.TsoResponse{Header: p.header(), Count: req.GetCount(), Timestamp: ts}); err != nil {
			return err
		}
	}
}

func (p *puppet) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.GetAllStoresResponse{Header: header, Stores: slices.Clone(p.stores)}, nil
}

func (p *puppet) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	if err := p.refuse(req.Header); err != nil {
		return nil, err
	}
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stores {
		if s.Id == req.StoreId {
			return &pdpb.GetStoreResponse{Header: header, Store: s}, nil
		}
	}
	return nil, status.Errorf(codes.Unknown, "invalid store ID %d, not found", req.StoreId)
}

// within are the regions that share keys with a range.
func (p *puppet) within(start, end []byte, limit int32) []*pdpb.Region {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookups++
	var out []*pdpb.Region
	want := span.Span{Start: span.Key(start), End: span.Key(end)}
	for _, r := range p.regions {
		has := span.Span{Start: span.Key(r.Region.StartKey), End: span.Key(r.Region.EndKey)}
		if want.Overlaps(has) && len(out) < int(limit) {
			out = append(out, r)
		}
	}
	return out
}

func (p *puppet) BatchScanRegions(_ context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	p.mu.Lock()
	old := p.oldPD
	p.mu.Unlock()
	if old {
		return nil, status.Error(codes.Unimplemented, "unknown method BatchScanRegions")
	}
	if err := p.refuse(req.Header); err != nil {
		return nil, err
	}
	r := req.Ranges[0]
	return &pdpb.BatchScanRegionsResponse{Header: p.header(), Regions: p.within(r.StartKey, r.EndKey, req.Limit)}, nil
}

func (p *puppet) GetRegionByID(_ context.Context, req *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	resp := &pdpb.GetRegionResponse{Header: p.header()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.regions {
		if r.Region.Id == req.RegionId {
			resp.Region, resp.Leader = r.Region, r.Leader
		}
	}
	return resp, nil
}

func (p *puppet) ScanRegions(_ context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	return &pdpb.ScanRegionsResponse{Header: p.header(), Regions: p.within(req.StartKey, req.EndKey, req.Limit)}, nil
}

func (p *puppet) UpdateServiceGCSafePoint(_ context.Context, req *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.noGC:
		return nil, status.Error(codes.Unavailable, "not now")
	case req.TTL <= 0:
		delete(p.services, string(req.ServiceId))
	case req.SafePoint >= p.safepoint:
		p.services[string(req.ServiceId)] = req.SafePoint
	}
	least := p.safepoint
	if least == 0 {
		least = req.SafePoint
	}
	return &pdpb.UpdateServiceGCSafePointResponse{Header: header, ServiceId: req.ServiceId, TTL: req.TTL, MinSafePoint: least}, nil
}

func (p *puppet) gcScope(s *pdpb.KeyspaceScope) error {
	p.scopes = append(p.scopes, s.GetKeyspaceId())
	switch {
	case p.oldPD:
		return status.Error(codes.Unimplemented, "unknown method")
	case p.noGC:
		return status.Error(codes.Unavailable, "not now")
	}
	return nil
}

func (p *puppet) SetGCBarrier(_ context.Context, req *pdpb.SetGCBarrierRequest) (*pdpb.SetGCBarrierResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.gcScope(req.KeyspaceScope); err != nil {
		return nil, err
	}
	if req.BarrierTs < p.safepoint {
		header.Error = &pdpb.Error{Type: pdpb.ErrorType_UNKNOWN, Message: "behind"}
		return &pdpb.SetGCBarrierResponse{Header: header}, nil
	}
	p.services[req.BarrierId] = req.BarrierTs
	return &pdpb.SetGCBarrierResponse{Header: header, NewBarrierInfo: &pdpb.GCBarrierInfo{BarrierId: req.BarrierId, BarrierTs: req.BarrierTs, TtlSeconds: req.TtlSeconds}}, nil
}

func (p *puppet) DeleteGCBarrier(_ context.Context, req *pdpb.DeleteGCBarrierRequest) (*pdpb.DeleteGCBarrierResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.gcScope(req.KeyspaceScope); err != nil {
		return nil, err
	}
	delete(p.services, req.BarrierId)
	return &pdpb.DeleteGCBarrierResponse{Header: header}, nil
}

func (p *puppet) GetGCState(_ context.Context, req *pdpb.GetGCStateRequest) (*pdpb.GetGCStateResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.gcScope(req.KeyspaceScope); err != nil {
		return nil, err
	}
	return &pdpb.GetGCStateResponse{Header: header, GcState: &pdpb.GCState{KeyspaceScope: req.KeyspaceScope, TxnSafePoint: p.safepoint}}, nil
}

func (p *puppet) LoadKeyspace(_ context.Context, req *keyspacepb.LoadKeyspaceRequest) (*keyspacepb.LoadKeyspaceResponse, error) {
	header := p.header()
	p.mu.Lock()
	defer p.mu.Unlock()
	meta := p.spaces[req.Name]
	if meta == nil {
		header.Error = &pdpb.Error{Type: pdpb.ErrorType_ENTRY_NOT_FOUND, Message: "no such keyspace"}
	}
	return &keyspacepb.LoadKeyspaceResponse{Header: header, Keyspace: meta}, nil
}

func (p *puppet) Get(context.Context, *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	return &meta_storagepb.GetResponse{Header: &meta_storagepb.ResponseHeader{}}, nil
}
