package upstream

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// fuzzRegion is the region that recorded rows are put into.
const fuzzRegion = 5

// recordedRows are the first rows of some recordings as messages of a stream,
// each of a few rows of one table.
func recordedRows(f *testing.F) (out [][]byte) {
	for _, name := range golden.Recordings(f) {
		if strings.Contains(golden.Name(f, name), "/") {
			continue
		}
		var rows []*cdcpb.Event_Row
		golden.Stream(f, name, func(l golden.Line) {
			kind, ok := cdcpb.Event_LogType_value[l.Type]
			if !ok || len(rows) == 6 || len(l.Value) > 100 || len(l.Key) == 0 || l.Key[0] != 't' {
				return
			}
			rows = append(rows, &cdcpb.Event_Row{Type: cdcpb.Event_LogType(kind), OpType: cdcpb.Event_Row_OpType(cdcpb.Event_Row_OpType_value[l.Op]),
				Key: l.Key, Value: l.Value, OldValue: l.Old, StartTs: uint64(l.StartTS), CommitTs: uint64(l.CommitTS)})
		})
		out = append(out, marshal(f, &cdcpb.ChangeDataEvent{
			Events: []*cdcpb.Event{
				{RegionId: fuzzRegion, Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: append(rows, initialized)}}},
				{RegionId: fuzzRegion, Event: &cdcpb.Event_ResolvedTs{ResolvedTs: 5}},
			},
			ResolvedTs: &cdcpb.ResolvedTs{Regions: []uint64{fuzzRegion, 300}, Ts: 1 << 60},
		}))
	}
	return out
}

func marshal(f *testing.F, m interface{ Marshal() ([]byte, error) }) []byte {
	b, err := m.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// failures are all errors that TiKV may send.
func failures(f *testing.F) (out [][]byte) {
	for _, e := range []*cdcpb.Error{
		{}, {NotLeader: &errorpb.NotLeader{RegionId: 5, Leader: &metapb.Peer{StoreId: 2}}}, {RegionNotFound: &errorpb.RegionNotFound{RegionId: 5}},
		{EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{{Id: 5}}}}, {DuplicateRequest: &cdcpb.DuplicateRequest{RegionId: 5}},
		{Compatibility: &cdcpb.Compatibility{RequiredVersion: "6.2.0"}}, {ClusterIdMismatch: &cdcpb.ClusterIDMismatch{Current: 1, Request: 2}},
		{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "scans", BackoffMs: 1 << 40}}, {Congested: &cdcpb.Congested{RegionId: 5}},
	} {
		out = append(out, marshal(f, e))
	}
	return out
}

// FuzzWire reads bytes of any kind: what comes out aliases them, and is no more.
func FuzzWire(f *testing.F) {
	for _, b := range recordedRows(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if m.read(b) != nil {
			return
		}
		size := 2 * len(m.resolved.regions)
		for _, e := range m.events {
			rows, err := readRows(nil, e.entries)
			if err != nil && !cdcerr.EventFeed.Is(err) {
				t.Fatal(err)
			}
			for i := range rows {
				size += len(rows[i].Key) + len(rows[i].Value) + len(rows[i].Old)
			}
			size += len(e.failure)
		}
		if size > 2*len(b) {
			t.Fatalf("%d bytes became %d", len(b), size)
		}
	})
}

// FuzzFailure reads errors of any kind, and a region's tracker decides on them.
func FuzzFailure(f *testing.F) {
	for _, b := range failures(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		failure, err := readFailure(b)
		if err != nil {
			if !cdcerr.EventFeed.Is(err) {
				t.Fatal(err)
			}
			return
		}
		tr := fuzzTracker()
		tr.StepFailure(region.Source{Stream: 1, Region: fuzzRegion}, failure)
		settled(t, tr)
	})
}

// fuzzTracker follows one region, which is registered on stream 1.
func fuzzTracker() *region.Tracker {
	tr := region.New(region.Config{StartTS: 1, Patience: region.Patience{Stuck: time.Second, Slow: time.Second, Renew: time.Second}})
	tr.Tick(0)
	whole := span.Span{}
	tr.Ready()
	tr.StepLocated(whole, []region.Region{{ID: fuzzRegion, Store: 1, Version: 1, ConfVer: 1, Span: whole}})
	for _, q := range tr.Ready().Requests {
		tr.Placed(q, 1)
	}
	return tr
}

// settled verifies what a tracker makes of whatever it got: rows above its start
// and complete, errors with a code, and every key in its place.
func settled(t *testing.T, tr *region.Tracker) {
	tr.StepClock(1<<62, 1<<61)
	tr.Tick(time.Hour)
	r := tr.Ready()
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.CommitTS <= 1 || (row.Op == event.Put) != (len(row.Value) > 0) {
			t.Fatalf("row %+v", row)
		}
	}
	if r.Err != nil && cdcerr.Of(r.Err) == nil {
		t.Fatalf("no code: %v", r.Err)
	}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
}

// FuzzFeed takes a stream of any messages to the tracker, as a subscription does.
func FuzzFeed(f *testing.F) {
	rows, errs := recordedRows(f), failures(f)
	for i, b := range rows {
		f.Add(b, errs[i%len(errs)], rows[(i+1)%len(rows)])
	}
	f.Fuzz(func(t *testing.T, first, failed, second []byte) {
		tr := fuzzTracker()
		for _, b := range [][]byte{first, second} {
			var m message
			if m.read(b) != nil {
				return
			}
			for i := range m.events {
				e := &m.events[i]
				src := region.Source{Stream: 1, Region: e.region}
				rows, err := readRows(nil, e.entries)
				if err != nil {
					return
				}
				tr.StepRows(src, rows)
				if e.ts != 0 {
					tr.StepResolved(1, 0, []uint64{e.region}, e.ts)
				}
			}
			tr.StepResolved(1, slotOf(m.resolved.request), m.resolved.regions, m.resolved.ts)
			settled(t, tr)
			if failure, err := readFailure(failed); err == nil {
				tr.StepFailure(region.Source{Stream: 1, Region: fuzzRegion}, failure)
			}
		}
	})
}

// FuzzVersion reads what PD says of its version.
func FuzzVersion(f *testing.F) {
	for _, s := range []string{`{"version":"v8.5.0"}`, `{"version":"7.1.0-alpha-12-gabc"}`, `{"version":" v9"}`, `{}`, `[`, `{"version":"15.0.0"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		version, err := readVersion(body)
		if err != nil {
			return
		}
		if err := checkVersion("PD", version); err != nil && !cdcerr.VersionIncompatible.Is(err) {
			t.Fatal(err)
		}
	})
}

// FuzzKeyspace takes borders of regions, as PD names them, out of a keyspace.
func FuzzKeyspace(f *testing.F) {
	k := newKeyspace("one", 7)
	for _, raw := range []string{"", "x\x00\x00\x07t\x80", "x\x00\x00\x08", "t\x80"} {
		f.Add([]byte(span.EncodeKey([]byte(raw))), []byte(span.EncodeKey([]byte(raw+"z"))))
		f.Add([]byte(raw), []byte{})
	}
	f.Fuzz(func(t *testing.T, start, end []byte) {
		s := span.Span{Start: span.Key(start), End: span.Key(end)}
		k.inner(s)
		if on, err := k.span(s); err == nil {
			from, to, err := rawBorders(s)
			gotFrom, gotTo, err2 := rawBorders(k.inner(on))
			if err != nil || err2 != nil || !bytes.Equal(gotFrom, from) || !bytes.Equal(gotTo, to) {
				t.Fatalf("%v is %v in the keyspace, and %v out of it", s, on, k.inner(on))
			}
		}
	})
}
