package fake

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"
)

func drawRows(t *rapid.T, most int) []*cdcpb.Event_Row {
	rows := make([]*cdcpb.Event_Row, rapid.IntRange(0, most).Draw(t, "rows"))
	for i := range rows {
		rows[i] = &cdcpb.Event_Row{
			Type:    cdcpb.Event_LogType(rapid.IntRange(0, 5).Draw(t, "type")),
			Key:     fmt.Appendf(nil, "k%d", rapid.IntRange(0, 3).Draw(t, "key")),
			Value:   rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"),
			StartTs: uint64(i + 1),
		}
	}
	return rows
}

// What is written by hand decodes as what the generated code would have written.
func TestOutgoingMessagesDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &cdcpb.ChangeDataEvent{}
		out := &outgoing{}
		if rapid.Bool().Draw(t, "resolved") {
			want.ResolvedTs = &cdcpb.ResolvedTs{
				Regions: rapid.SliceOfN(rapid.Uint64(), 1, 40).Draw(t, "regions"), Ts: rapid.Uint64().Draw(t, "ts"), RequestId: rapid.Uint64().Draw(t, "request"),
			}
			out.resolved = want.ResolvedTs
		} else {
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				sub := &subscription{region: rapid.Uint64Min(1).Draw(t, "region"), request: rapid.Uint64().Draw(t, "request")}
				entries := &cdcpb.Event_Entries{Entries: drawRows(t, 5)}
				it := &item{sub: sub, rows: entries.Entries}
				if rapid.Bool().Draw(t, "encoded") {
					encoded, err := entries.Marshal()
					if err != nil {
						t.Fatal(err)
					}
					it = &item{sub: sub, encoded: append([]byte{}, encoded...)}
				}
				out.add(it)
				want.Events = append(want.Events, &cdcpb.Event{
					RegionId: sub.region, RequestId: sub.request, Event: &cdcpb.Event_Entries_{Entries: entries},
				})
			}
		}
		data, err := newCodec().Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		defer data.Free()
		var got cdcpb.ChangeDataEvent
		if err := got.Unmarshal(mem.BufferSlice(data).Materialize()); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("got %v, want %v", &got, want)
		}
	})
}

// Rows change places, but those of one key stay in order.
func TestShuffleKeepsTheOrderOfAKey(t *testing.T) {
	moved := false
	rapid.Check(t, func(t *rapid.T) {
		rows := drawRows(t, 30)
		before := append([]*cdcpb.Event_Row{}, rows...)
		shuffle(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), rows)
		last, seen := map[string]uint64{}, map[uint64]bool{}
		for i, r := range rows {
			if last[string(r.Key)] >= r.StartTs {
				t.Fatalf("rows of key %s out of order: %v", r.Key, rows)
			}
			last[string(r.Key)], seen[r.StartTs] = r.StartTs, true
			moved = moved || r != before[i]
		}
		if len(seen) != len(before) {
			t.Fatalf("%d rows of %d", len(seen), len(before))
		}
	})
	if !moved {
		t.Error("nothing ever moved")
	}
}
