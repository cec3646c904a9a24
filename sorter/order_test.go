package sorter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Whatever the runs are, the order is that of the library's sort.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries, spare []entry
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			ts := rapid.IntRange(1, 20).Draw(t, "from")
			for range rapid.IntRange(1, 30).Draw(t, "length") {
				ts += rapid.IntRange(0, 2).Draw(t, "by")
				entries = append(entries, entryOf(&event.RawKV{CommitTS: tso.TS(ts), StartTS: 1, Key: fmt.Appendf(nil, "%d", rapid.IntRange(0, 3).Draw(t, "key"))}))
			}
		}
		want := slices.Clone(entries)
		slices.SortStableFunc(want, entry.compare)
		given := slices.Clone(entries)
		sorted, rest, _ := order(given, spare, nil)
		if !slices.EqualFunc(sorted, want, func(a, b entry) bool { return a.compare(b) == 0 }) {
			t.Fatalf("%d entries are not in order", len(entries))
		}
		if len(sorted) > 0 && cap(rest) > 0 && &sorted[0] == &rest[:1][0] {
			t.Fatal("the result is handed out as spare memory")
		}
	})
}

// BenchmarkOrder sorts what eight regions send: messages of two thousand rows each,
// a hundred to a transaction.
func BenchmarkOrder(b *testing.B) {
	var rows []event.RawKV
	for message := range 32 {
		for i := range 2000 {
			rows = append(rows, event.RawKV{CommitTS: tso.TS(message/8*20*8 + i/100*8 + message%8), StartTS: 1, Key: fmt.Appendf(nil, "t12345678_r%08d", i)})
		}
	}
	entries, work, spare := make([]entry, len(rows)), make([]entry, len(rows)), []entry(nil)
	for i := range rows {
		entries[i] = entryOf(&rows[i])
	}
	var starts []int
	for name, sort := range map[string]func(){
		"runs":    func() { work, spare, starts = order(work, spare, starts) },
		"library": func() { slices.SortFunc(work, entry.compare) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				copy(work, entries)
				sort()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
		})
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	b.Run("shuffled", func(b *testing.B) {
		for b.Loop() {
			copy(work, entries)
			work, spare, starts = order(work, spare, starts)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
	})
}
