package upstream

import (
	"fmt"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/region"
)

var _ encoding.CodecV2 = feedCodec{}

// feedCodec is the gRPC codec of change streams. It reads a ChangeDataEvent as
// views into its bytes: kvproto's structs would cost three allocations and three
// copies an entry, which is most of what a change stream costs a client.
type feedCodec struct{}

// Name implements encoding.CodecV2. The empty name leaves the content type as
// it is without a codec of one's own.
func (feedCodec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (feedCodec) Marshal(v any) (mem.BufferSlice, error) {
	req, ok := v.(*cdcpb.ChangeDataRequest)
	if !ok {
		return nil, fmt.Errorf("a change stream sends no %T", v)
	}
	b, err := req.Marshal()
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Unmarshal implements encoding.CodecV2. The one copy of a message is made
// here, out of gRPC's buffers, which are used again.
func (feedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("a change stream receives no %T", v)
	}
	return m.read(data.Materialize())
}

// message is one ChangeDataEvent. Everything aliases its bytes.
type message struct {
	events   []regionEvent
	resolved resolvedEvent
	resolves bool // some resolved-ts is in it
	size     int64
}

// regionEvent is one Event: entries or an error of one registration.
type regionEvent struct {
	region  uint64
	request uint64
	entries []byte // the Entries message
	failure []byte // the Error message
	isError bool
	ts      tso.TS // the old form of a resolved-ts
}

// resolvedEvent is one resolved-ts for many regions of one request id.
type resolvedEvent struct {
	regions []uint64
	request uint64
	ts      tso.TS
}

// The fields of cdcpb, by message.
const (
	eventEvents, eventResolved                                                  = 1, 2
	eventRegion, eventEntries, eventError, eventOldResolved, eventRequest       = 1, 3, 5, 6, 7
	resolvedRegions, resolvedTS, resolvedRequest                                = 1, 2, 3
	entriesRows                                                                 = 1
	rowStart, rowCommit, rowType, rowOp, rowKey, rowValue, rowOld, rowGenerated = 1, 2, 3, 4, 5, 6, 7, 10
)

func (m *message) read(b []byte) error {
	m.size = int64(len(b))
	return fields(b, func(num protowire.Number, v uint64, sub []byte) error {
		switch num {
		case eventEvents:
			e, err := readEvent(sub)
			m.events = append(m.events, e)
			m.resolves = m.resolves || e.ts != 0
			return err
		case eventResolved:
			m.resolves = true
			return m.resolved.read(sub)
		}
		return nil
	})
}

func readEvent(b []byte) (e regionEvent, err error) {
	err = fields(b, func(num protowire.Number, v uint64, sub []byte) error {
		switch num {
		case eventRegion:
			e.region = v
		case eventRequest:
			e.request = v
		case eventEntries:
			e.entries = sub
		case eventError:
			e.failure, e.isError = sub, true
		case eventOldResolved:
			e.ts = tso.TS(v)
		}
		return nil
	})
	return e, err
}

func (r *resolvedEvent) read(b []byte) error {
	return fields(b, func(num protowire.Number, v uint64, sub []byte) error {
		switch {
		case num == resolvedRegions && sub == nil:
			r.regions = append(r.regions, v)
		case num == resolvedRegions:
			for len(sub) > 0 {
				id, n := protowire.ConsumeVarint(sub)
				if n < 0 {
					return protowire.ParseError(n)
				}
				r.regions, sub = append(r.regions, id), sub[n:]
			}
		case num == resolvedTS:
			r.ts = tso.TS(v)
		case num == resolvedRequest:
			r.request = v
		}
		return nil
	})
}

// readRows appends the rows of an Entries message to dst.
func readRows(dst []region.Entry, b []byte) ([]region.Entry, error) {
	err := fields(b, func(num protowire.Number, _ uint64, sub []byte) error {
		if num != entriesRows {
			return nil
		}
		dst = append(dst, region.Entry{})
		return readRow(&dst[len(dst)-1], sub)
	})
	if err != nil {
		return dst, cdcerr.EventFeed.Wrap(err, "rows that cannot be read")
	}
	return dst, nil
}

func readRow(e *region.Entry, b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			switch num {
			case rowStart:
				e.StartTS = tso.TS(v)
			case rowCommit:
				e.CommitTS = tso.TS(v)
			case rowType:
				e.Type = entryType(v)
			case rowOp:
				e.Op = region.Op(min(v, 0xFF))
			case rowGenerated:
				e.Generation = v
			}
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			v = v[:len(v):len(v)]
			switch num {
			case rowKey:
				e.Key = v
			case rowValue:
				e.Value = v
			case rowOld:
				e.Old = v
			}
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
		}
	}
	return nil
}

// entryType is TiKV's number for what happened; one that we do not know is Unknown.
func entryType(v uint64) region.EntryType {
	if v > uint64(region.Initialized) {
		return region.Unknown
	}
	return region.EntryType(v)
}

// fields calls fn with each varint (v) and each length-delimited field (sub,
// never nil) of a message and passes over the rest.
func fields(b []byte, fn func(num protowire.Number, v uint64, sub []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var v uint64
		var sub []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			sub, n = protowire.ConsumeBytes(b)
		default:
			if n = protowire.ConsumeFieldValue(num, typ, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := fn(num, v, sub); err != nil {
			return err
		}
	}
	return nil
}

// readFailure understands an Error message.
func readFailure(b []byte) (region.Failure, error) {
	var e cdcpb.Error
	if err := e.Unmarshal(b); err != nil {
		return region.Failure{}, cdcerr.EventFeed.Wrap(err, "an error event that cannot be read")
	}
	switch {
	case e.NotLeader != nil:
		return region.Failure{Kind: region.NotLeader, Leader: e.NotLeader.GetLeader().GetStoreId()}, nil
	case e.RegionNotFound != nil:
		return region.Failure{Kind: region.NotFound}, nil
	case e.EpochNotMatch != nil:
		f := region.Failure{Kind: region.EpochNotMatch}
		for _, m := range e.EpochNotMatch.GetCurrentRegions() {
			f.Regions = append(f.Regions, regionOf(m))
		}
		return f, nil
	case e.DuplicateRequest != nil:
		return region.Failure{Kind: region.DuplicateRequest}, nil
	case e.Compatibility != nil:
		return region.Failure{Kind: region.Compatibility,
			Detail: fmt.Sprintf("TiKV wants version %s of its clients", e.Compatibility.GetRequiredVersion())}, nil
	case e.ClusterIdMismatch != nil:
		return region.Failure{Kind: region.ClusterIDMismatch,
			Detail: fmt.Sprintf("TiKV belongs to cluster %d, PD said %d", e.ClusterIdMismatch.GetCurrent(), e.ClusterIdMismatch.GetRequest())}, nil
	case e.ServerIsBusy != nil:
		return region.Failure{Kind: region.ServerIsBusy, BackoffMS: e.ServerIsBusy.GetBackoffMs(), Detail: e.ServerIsBusy.GetReason()}, nil
	case e.Congested != nil:
		return region.Failure{Kind: region.Congested}, nil
	}
	return region.Failure{}, nil
}
