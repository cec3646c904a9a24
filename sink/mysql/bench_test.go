package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// BenchmarkStatements is what a row of 200 bytes costs on its way to SQL text:
// merged, planned and printed, without a server.
func BenchmarkStatements(b *testing.B) {
	tab := tableOf(b, "test", "create table t (id bigint primary key, k int, c varchar(120), pad varchar(60), d decimal(10,2), ts timestamp(3) null)")
	const rowsPerTxn, txns = 50, 40
	group := make([]*unit, txns)
	for i := range group {
		group[i] = new(unit)
		for j := range rowsPerTxn {
			n := i*rowsPerTxn + j
			group[i].txn.Rows = append(group[i].txn.Rows, &event.Row{Table: tab, Key: fmt.Appendf(nil, "t_r%08d", n), After: image(b, tab,
				fmt.Sprint(n), "7", strings.Repeat("c", 120), strings.Repeat("p", 60), "12345.67", "2024-01-01 00:00:00.123")})
		}
	}
	d := Dialect{Kind: MariaDB, Major: 10, Minor: 11}
	var texts tableTexts
	size := 0
	w := writer{dialect: d, target: 1 << 20, rows: batchRows, max: 16 << 20, run: func(text []byte) error { size += len(text); return nil }}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := w.plan(makePlan(merge(group), &texts, d, false)); err != nil {
			b.Fatal(err)
		}
		n += rowsPerTxn * txns
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
	b.ReportMetric(float64(size)/float64(n), "bytes/row")
}

// BenchmarkIntoMariaDB is what a real server takes: transactions of 50 inserted
// rows of 200 bytes, by one worker and by the usual number.
func BenchmarkIntoMariaDB(b *testing.B) {
	const rowsPerTxn, txnsPerWrite = 50, 40
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			db := openDB(b)
			mustExec(b, db, "CREATE OR REPLACE DATABASE bench")
			mustExec(b, db, "CREATE TABLE bench.t (id bigint primary key, k int, c varchar(120), pad varchar(60))")
			tab := tableOf(b, "bench", "create table t (id bigint primary key, k int, c varchar(120), pad varchar(60))")
			s := openURI(b, fmt.Sprintf("%s?worker-count=%d", server.URI(), workers))
			row := image(b, tab, "0", "7", strings.Repeat("c", 120), strings.Repeat("p", 60))
			n := 0
			for b.Loop() {
				txns := make([]event.Txn, txnsPerWrite)
				for i := range txns {
					for range rowsPerTxn {
						after := slices.Clone(row)
						after[0] = event.IntValue(int64(n))
						txns[i].Rows = append(txns[i].Rows, &event.Row{Table: tab, Key: fmt.Appendf(nil, "t_r%08d", n), After: after})
						n++
					}
				}
				if err := s.Write(b.Context(), sink.Endless, txns); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
			mustExec(b, db, "DROP DATABASE bench")
		})
	}
}
