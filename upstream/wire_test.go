package upstream

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// aRow draws a row with any fields set.
func aRow(t *rapid.T) *cdcpb.Event_Row {
	part := rapid.SliceOfN(rapid.Byte(), 0, 40)
	return &cdcpb.Event_Row{
		StartTs: rapid.Uint64().Draw(t, "start"), CommitTs: rapid.Uint64().Draw(t, "commit"),
		Type:       cdcpb.Event_LogType(rapid.IntRange(0, 5).Draw(t, "type")),
		OpType:     cdcpb.Event_Row_OpType(rapid.IntRange(0, 2).Draw(t, "op")),
		Generation: rapid.Uint64().Draw(t, "generation"), TxnSource: rapid.Uint64().Draw(t, "source"),
		ExpireTsUnixSecs: rapid.Uint64().Draw(t, "expire"),
		Key:              part.Draw(t, "key"), Value: part.Draw(t, "value"), OldValue: part.Draw(t, "old"),
	}
}

// TestWire holds the reader by hand to kvproto's: what one marshals the other understands.
func TestWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &cdcpb.ChangeDataEvent{}
		if rapid.Bool().Draw(t, "resolved") {
			in.ResolvedTs = &cdcpb.ResolvedTs{Ts: rapid.Uint64().Draw(t, "ts"), RequestId: rapid.Uint64().Draw(t, "request"),
				Regions: rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "regions")}
		}
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			e := &cdcpb.Event{RegionId: rapid.Uint64().Draw(t, "region"), Index: 3, RequestId: rapid.Uint64().Draw(t, "request")}
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				var rows []*cdcpb.Event_Row
				for range rapid.IntRange(0, 4).Draw(t, "rows") {
					rows = append(rows, aRow(t))
				}
				e.Event = &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: rows}}
			case 1:
				e.Event = &cdcpb.Event_Error{Error: &cdcpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "busy", BackoffMs: 7}}}
			case 2:
				e.Event = &cdcpb.Event_ResolvedTs{ResolvedTs: rapid.Uint64().Draw(t, "old ts")}
			case 3:
				e.Event = &cdcpb.Event_LongTxn_{LongTxn: &cdcpb.Event_LongTxn{}}
			case 4:
				e.Event = &cdcpb.Event_Admin_{Admin: &cdcpb.Event_Admin{}}
			}
			in.Events = append(in.Events, e)
		}
		b, err := in.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut") // gRPC hands a message on in pieces
		var m message
		if err := (feedCodec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(b[cut:])}, &m); err != nil {
			t.Fatal(err)
		}
		compareMessage(t, in, &m)
	})
}

func compareMessage(t *rapid.T, in *cdcpb.ChangeDataEvent, m *message) {
	if uint64(m.resolved.ts) != in.GetResolvedTs().GetTs() || m.resolved.request != in.GetResolvedTs().GetRequestId() ||
		len(m.resolved.regions) != len(in.GetResolvedTs().GetRegions()) || len(m.events) != len(in.Events) {
		t.Fatalf("got %+v of %v", m, in)
	}
	for i, id := range in.GetResolvedTs().GetRegions() {
		if m.resolved.regions[i] != id {
			t.Fatalf("got %+v of %v", m, in)
		}
	}
	for i, e := range in.Events {
		got := m.events[i]
		if got.region != e.RegionId || got.request != e.RequestId || got.isError != (e.GetError() != nil) || got.ts != tso.TS(e.GetResolvedTs()) { //nolint:staticcheck // what an old store sends is read too
			t.Fatalf("got %+v of %v", got, e)
		}
		rows, err := readRows(nil, got.entries)
		if err != nil || len(rows) != len(e.GetEntries().GetEntries()) {
			t.Fatalf("got %d rows of %v, %v", len(rows), e, err)
		}
		for j, w := range e.GetEntries().GetEntries() {
			g := rows[j]
			if uint64(g.Type) != uint64(w.Type) || uint64(g.Op) != uint64(w.OpType) || uint64(g.StartTS) != w.StartTs ||
				uint64(g.CommitTS) != w.CommitTs || g.Generation != w.Generation || !bytes.Equal(g.Key, w.Key) ||
				!bytes.Equal(g.Value, w.Value) || !bytes.Equal(g.Old, w.OldValue) {
				t.Fatalf("got %+v of %v", g, w)
			}
		}
	}
}

// TestWireUnpacked reads the form of a repeated number that old writers use.
func TestWireUnpacked(t *testing.T) {
	var sub []byte
	for _, id := range []uint64{7, 8} {
		sub = protowire.AppendVarint(protowire.AppendTag(sub, resolvedRegions, protowire.VarintType), id)
	}
	sub = protowire.AppendFixed64(protowire.AppendTag(sub, 99, protowire.Fixed64Type), 1) // a field of the future
	b := protowire.AppendBytes(protowire.AppendTag(nil, eventResolved, protowire.BytesType), sub)
	var m message
	if err := m.read(b); err != nil || len(m.resolved.regions) != 2 || m.resolved.regions[1] != 8 {
		t.Errorf("got %+v, %v", m.resolved, err)
	}
}

func TestReadFailure(t *testing.T) {
	for _, tc := range []struct {
		want region.Failure
		e    *cdcpb.Error
	}{
		{region.Failure{Kind: region.NotLeader, Leader: 5}, &cdcpb.Error{NotLeader: &errorpb.NotLeader{Leader: &metapb.Peer{StoreId: 5}}}},
		{region.Failure{Kind: region.NotLeader}, &cdcpb.Error{NotLeader: &errorpb.NotLeader{}}},
		{region.Failure{Kind: region.NotFound}, &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}},
		{region.Failure{Kind: region.EpochNotMatch}, &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}},
		{region.Failure{Kind: region.EpochNotMatch, Regions: []region.Region{{ID: 4, Version: 7, ConfVer: 2, Span: span.Span{Start: "a", End: "m"}}, {ID: 3, Span: span.Span{Start: "m"}}}},
			&cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{
				{Id: 4, StartKey: []byte("a"), EndKey: []byte("m"), RegionEpoch: &metapb.RegionEpoch{ConfVer: 2, Version: 7}}, {Id: 3, StartKey: []byte("m")}}}}},
		{region.Failure{Kind: region.DuplicateRequest}, &cdcpb.Error{DuplicateRequest: &cdcpb.DuplicateRequest{}}},
		{region.Failure{Kind: region.ServerIsBusy, BackoffMS: 9, Detail: "scans"}, &cdcpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 9, Reason: "scans"}}},
		{region.Failure{Kind: region.Congested}, &cdcpb.Error{Congested: &cdcpb.Congested{}}},
		{region.Failure{Kind: region.Unexplained}, &cdcpb.Error{}},
	} {
		b, err := tc.e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readFailure(b); err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
		}
	}
}
