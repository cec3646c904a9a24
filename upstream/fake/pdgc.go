package fake

import (
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/sluice-cdc/sluice/tso"
)

// nullKeyspace is the scope of everything that has no keyspace.
const nullKeyspace = 0xFFFFFFFF

func nullScope() *pdpb.KeyspaceScope {
	return &pdpb.KeyspaceScope{Keyspace: &pdpb.KeyspaceScope_KeyspaceId{KeyspaceId: nullKeyspace}}
}

// UpdateServiceGCSafePoint is the older interface to GC; see gcState.service.
func (p *pdServer) UpdateServiceGCSafePoint(_ context.Context, req *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	minimum := p.shared.gc.service(string(req.ServiceId), tso.TS(req.SafePoint), req.TTL, time.Now())
	return &pdpb.UpdateServiceGCSafePointResponse{
		Header: p.header(), ServiceId: []byte(gcWorker), TTL: 1<<63 - 1, MinSafePoint: uint64(minimum),
	}, nil
}

// GetGCSafePoint is the ts below which versions may be gone.
func (p *pdServer) GetGCSafePoint(context.Context, *pdpb.GetGCSafePointRequest) (*pdpb.GetGCSafePointResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	return &pdpb.GetGCSafePointResponse{Header: p.header(), SafePoint: uint64(p.shared.gc.gcSafePoint)}, nil
}

// UpdateGCSafePoint raises it, as far as the txn safe point.
func (p *pdServer) UpdateGCSafePoint(_ context.Context, req *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	p.shared.gc.gcSafePoint = max(p.shared.gc.gcSafePoint, min(tso.TS(req.SafePoint), p.shared.gc.txnSafePoint))
	return &pdpb.UpdateGCSafePointResponse{Header: p.header(), NewSafePoint: uint64(p.shared.gc.gcSafePoint)}, nil
}

// GetGCState is everything about GC.
func (p *pdServer) GetGCState(_ context.Context, req *pdpb.GetGCStateRequest) (*pdpb.GetGCStateResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	now := time.Now()
	state := &pdpb.GCState{
		KeyspaceScope: nullScope(), TxnSafePoint: uint64(p.shared.gc.txnSafePoint), GcSafePoint: uint64(p.shared.gc.gcSafePoint),
	}
	for id, b := range p.shared.gc.barriers {
		if !req.ExcludeGcBarriers && !b.expired(now) {
			state.GcBarriers = append(state.GcBarriers, b.info(id, now))
		}
	}
	return &pdpb.GetGCStateResponse{Header: p.header(), GcState: state}, nil
}

// AdvanceTxnSafePoint is what TiDB's GC worker calls.
func (p *pdServer) AdvanceTxnSafePoint(_ context.Context, req *pdpb.AdvanceTxnSafePointRequest) (*pdpb.AdvanceTxnSafePointResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	before := p.shared.gc.txnSafePoint
	p.shared.gc.advance(tso.TS(req.Target), time.Now())
	return &pdpb.AdvanceTxnSafePointResponse{
		Header: p.header(), OldTxnSafePoint: uint64(before), NewTxnSafePoint: uint64(p.shared.gc.txnSafePoint),
	}, nil
}

// SetGCBarrier keeps the txn safe point from passing a ts.
func (p *pdServer) SetGCBarrier(_ context.Context, req *pdpb.SetGCBarrierRequest) (*pdpb.SetGCBarrierResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	now := time.Now()
	if fault := p.shared.gc.set(req.BarrierId, tso.TS(req.BarrierTs), req.TtlSeconds, now); fault != nil {
		return &pdpb.SetGCBarrierResponse{Header: p.refused(fault)}, nil
	}
	return &pdpb.SetGCBarrierResponse{
		Header: p.header(), NewBarrierInfo: p.shared.gc.barriers[req.BarrierId].info(req.BarrierId, now),
	}, nil
}

// DeleteGCBarrier takes a barrier away.
func (p *pdServer) DeleteGCBarrier(_ context.Context, req *pdpb.DeleteGCBarrierRequest) (*pdpb.DeleteGCBarrierResponse, error) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	resp := &pdpb.DeleteGCBarrierResponse{Header: p.header()}
	if b, ok := p.shared.gc.barriers[req.BarrierId]; ok {
		resp.DeletedBarrierInfo = b.info(req.BarrierId, time.Now())
		delete(p.shared.gc.barriers, req.BarrierId)
	}
	return resp, nil
}
