package region

import (
	"encoding/binary"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// BenchmarkMatcher runs the rows of one message, a prewrite and a commit each,
// through a Tracker again and again. The bytes are the message's, used again:
// whatever is allocated is the Tracker's own doing.
func BenchmarkMatcher(b *testing.B) {
	const rows = 1024
	t := New(Config{StartTS: 1})
	t.Tick(0)
	var src Source
	for _, s := range t.Ready().Reloads {
		t.StepLocated(s, []Region{{ID: 1, Version: 1, Store: 1}})
	}
	for _, q := range t.Ready().Requests {
		src = Source{Stream: 1, Slot: q.Slot, Region: 1}
		t.Placed(q, 1)
	}
	t.StepRows(src, []Entry{{Type: Initialized}})
	prewrites, commits := make([]Entry, rows), make([]Entry, rows)
	value := make([]byte, 200)
	for i := range rows {
		key := binary.BigEndian.AppendUint64([]byte("t12345678_r"), uint64(i))
		prewrites[i] = Entry{Type: Prewrite, Op: OpPut, Key: key, Value: value}
		commits[i] = Entry{Type: Commit, Op: OpPut, Key: key}
	}
	b.ReportAllocs()
	ts := tso.TS(10)
	n := 0
	for b.Loop() {
		for i := range rows {
			prewrites[i].StartTS, commits[i].StartTS, commits[i].CommitTS = ts, ts, ts+1
		}
		t.StepRows(src, prewrites)
		t.StepRows(src, commits)
		t.StepResolved(1, src.Slot, []uint64{1}, ts+1)
		ts += 2
		r := t.Ready()
		if r.Err != nil || len(r.Rows) != rows || r.Resolved != ts-1 {
			b.Fatalf("%d rows, resolved-ts %d, %v", len(r.Rows), r.Resolved, r.Err)
		}
		n += rows
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(n), "ns/row")
}
