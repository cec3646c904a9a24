package fake

import (
	"bytes"
	"context"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// Keys in these calls are raw; TiKV encodes them itself.

// open checks that this store may answer for the region of a request, and takes
// the snapshot to read from at a ts.
func (s *storeServer) open(rc *kvrpcpb.Context, at uint64) (mvcc.Snapshot, *topology.Region, *errorpb.Error) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	r, fault := s.leadsLocked(rc)
	if fault != nil {
		return mvcc.Snapshot{}, nil, fault
	}
	// The newest is read at no ts in particular.
	if tso.TS(at) != tso.Max {
		c.store.See(tso.TS(at))
	}
	return c.store.Snapshot(), r, nil
}

// leadsLocked finds the region of a request, if this store leads it.
func (s *storeServer) leadsLocked(rc *kvrpcpb.Context) (*topology.Region, *errorpb.Error) {
	if p := rc.GetPeer(); p.GetStoreId() != 0 && p.GetStoreId() != s.id {
		return nil, &errorpb.Error{
			Message:       "store id does not match",
			StoreNotMatch: &errorpb.StoreNotMatch{RequestStoreId: p.GetStoreId(), ActualStoreId: s.id},
		}
	}
	r := s.cluster.regions.ByID(rc.GetRegionId())
	if r == nil {
		return nil, &errorpb.Error{
			Message: "region not found", RegionNotFound: &errorpb.RegionNotFound{RegionId: rc.GetRegionId()},
		}
	}
	if r.Leader.Store != s.id {
		return nil, &errorpb.Error{
			Message: "not leader", NotLeader: &errorpb.NotLeader{RegionId: r.ID, Leader: peerPB(r.Leader)},
		}
	}
	if e := rc.GetRegionEpoch(); e.GetVersion() != r.Version || e.GetConfVer() != r.ConfVer {
		return nil, &errorpb.Error{
			Message: "epoch not match", EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{regionPB(r)}},
		}
	}
	if r.Merging {
		return nil, &errorpb.Error{
			Message: "region is merging", ReadIndexNotReady: &errorpb.ReadIndexNotReady{Reason: "the region is being merged", RegionId: r.ID},
		}
	}
	return r, nil
}

// within refuses a key that lies outside the region.
func within(r *topology.Region, key []byte) *errorpb.Error {
	if r.Contains(span.EncodeKey(key)) {
		return nil
	}
	return &errorpb.Error{Message: "key not in region", KeyNotInRegion: &errorpb.KeyNotInRegion{
		Key: key, RegionId: r.ID, StartKey: []byte(r.Start), EndKey: []byte(r.End),
	}}
}

// KvGet reads one key.
func (s *storeServer) KvGet(_ context.Context, req *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	snapshot, r, fault := s.open(req.Context, req.Version)
	if fault == nil {
		fault = within(r, req.Key)
	}
	if fault != nil {
		return &kvrpcpb.GetResponse{RegionError: fault}, nil
	}
	p, ok := snapshot.Get(req.Key, readOf(req.Version, req.Context))
	resp := &kvrpcpb.GetResponse{NotFound: !ok}
	if p.Locked != nil {
		return &kvrpcpb.GetResponse{Error: lockedPB(p.Locked)}, nil
	}
	resp.Value = p.Value
	if req.NeedCommitTs {
		resp.CommitTs = uint64(p.CommitTS)
	}
	return resp, nil
}

// KvBatchGet reads several keys of one region; missing ones are left out.
func (s *storeServer) KvBatchGet(_ context.Context, req *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	snapshot, r, fault := s.open(req.Context, req.Version)
	resp := &kvrpcpb.BatchGetResponse{RegionError: fault}
	if fault != nil {
		return resp, nil
	}
	for _, key := range req.Keys {
		if fault := within(r, key); fault != nil {
			return &kvrpcpb.BatchGetResponse{RegionError: fault}, nil
		}
		if p, ok := snapshot.Get(key, readOf(req.Version, req.Context)); ok {
			resp.Pairs = append(resp.Pairs, pairPB(p, false, req.NeedCommitTs))
		}
	}
	return resp, nil
}

// KvScan reads the keys of a range, as far as the region and the limit go. A
// locked key comes as a pair with an error.
func (s *storeServer) KvScan(_ context.Context, req *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	snapshot, r, fault := s.open(req.Context, req.Version)
	if fault != nil {
		return &kvrpcpb.ScanResponse{RegionError: fault}, nil
	}
	start, end := req.StartKey, req.EndKey
	if req.Reverse {
		// A reverse scan starts at its upper end.
		start, end = end, start
		if len(end) == 0 || (len(r.RawEnd) != 0 && bytes.Compare(end, r.RawEnd) > 0) {
			fault = within(r, end)
		}
	} else {
		fault = within(r, start)
	}
	if fault != nil {
		return &kvrpcpb.ScanResponse{RegionError: fault}, nil
	}
	start, end = clipTo(r, start, end)
	resp := &kvrpcpb.ScanResponse{}
	if req.Limit == 0 {
		return resp, nil
	}
	snapshot.Scan(start, end, readOf(req.Version, req.Context), req.Reverse, func(p mvcc.Pair) bool {
		resp.Pairs = append(resp.Pairs, pairPB(p, req.KeyOnly, false))
		return len(resp.Pairs) < int(req.Limit)
	})
	return resp, nil
}

func readOf(version uint64, rc *kvrpcpb.Context) mvcc.Read {
	return mvcc.Read{At: tso.TS(version), Resolved: rc.GetResolvedLocks(), Committed: rc.GetCommittedLocks()}
}

func pairPB(p mvcc.Pair, keyOnly, commitTS bool) *kvrpcpb.KvPair {
	out := &kvrpcpb.KvPair{Key: p.Key}
	if p.Locked != nil {
		out.Error = lockedPB(p.Locked)
		return out
	}
	if !keyOnly {
		out.Value = p.Value
	}
	if commitTS {
		out.CommitTs = uint64(p.CommitTS)
	}
	return out
}
