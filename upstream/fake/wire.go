package fake

import (
	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/topology"
)

// Everything that translates between the cluster's own words and TiKV's messages.

func regionPB(r *topology.Region) *metapb.Region {
	out := &metapb.Region{
		Id: r.ID, StartKey: []byte(r.Start), EndKey: []byte(r.End),
		RegionEpoch: &metapb.RegionEpoch{ConfVer: r.ConfVer, Version: r.Version},
	}
	for _, p := range r.Peers {
		out.Peers = append(out.Peers, peerPB(p))
	}
	return out
}

func peerPB(p topology.Peer) *metapb.Peer { return &metapb.Peer{Id: p.ID, StoreId: p.Store} }

var opsPB = [...]cdcpb.Event_Row_OpType{mvcc.Put: cdcpb.Event_Row_PUT, mvcc.Delete: cdcpb.Event_Row_DELETE}

// rowPB is a change as a row of a change stream.
func rowPB(ch *mvcc.Change) *cdcpb.Event_Row {
	row := &cdcpb.Event_Row{StartTs: uint64(ch.StartTS), Key: ch.Key}
	switch ch.Kind {
	case mvcc.RolledBack:
		row.Type = cdcpb.Event_ROLLBACK
		return row
	case mvcc.Prewrite:
		row.Type = cdcpb.Event_PREWRITE
	case mvcc.Commit:
		row.Type = cdcpb.Event_COMMIT
	case mvcc.Committed:
		row.Type = cdcpb.Event_COMMITTED
	}
	row.CommitTs = uint64(ch.CommitTS)
	row.OpType = opsPB[ch.Op]
	row.Value, row.OldValue = ch.Value, ch.Old
	row.TxnSource, row.Generation = ch.TxnSource, ch.Generation
	return row
}

// rowBytes is about what a row takes on the wire and in a queue.
func rowBytes(row *cdcpb.Event_Row) int64 {
	return int64(len(row.Key)+len(row.Value)+len(row.OldValue)) + 48
}

var lockOps = [...]kvrpcpb.Op{
	mvcc.Put: kvrpcpb.Op_Put, mvcc.Delete: kvrpcpb.Op_Del,
	mvcc.LockOnly: kvrpcpb.Op_Lock, mvcc.Pessimistic: kvrpcpb.Op_PessimisticLock,
}

func lockPB(l *mvcc.Lock) *kvrpcpb.LockInfo {
	return &kvrpcpb.LockInfo{
		PrimaryLock: l.Primary, LockVersion: uint64(l.StartTS), Key: l.Key, LockTtl: l.TTL, TxnSize: l.TxnSize,
		LockType: lockOps[l.Op], LockForUpdateTs: uint64(l.ForUpdateTS), MinCommitTs: uint64(l.MinCommitTS),
		UseAsyncCommit: l.AsyncCommit, Secondaries: l.Secondaries,
	}
}

func lockedPB(l *mvcc.Lock) *kvrpcpb.KeyError { return &kvrpcpb.KeyError{Locked: lockPB(l)} }

// codec writes TiKV's generated messages by their own methods: gRPC's default
// codec goes through a reflecting wrapper for them, which costs a third of the
// stream's speed.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

type sizedMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// Marshal encodes v into a pooled buffer.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(sizedMessage)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.Size()
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	n, err := m.MarshalToSizedBuffer((*buf)[:size])
	if err != nil {
		pool.Put(buf)
		return nil, err
	}
	*buf = (*buf)[size-n : size]
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}
