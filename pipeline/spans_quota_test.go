package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
)

// A quota that holds a few dozen rows, and a span that is held for ever with ten times
// as many: they go to disk, and the rows of the others go on, with a gate and prepared
// spans beside them.
func TestAHeldSpanKeepsNobodyFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota, n = 16 << 10, 2000
		dir := t.TempDir()
		rows, err := sorter.Open(sorter.Config{MemoryQuota: quota, Dir: dir, DiskQuota: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // after the part has ended
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		})
		p := partOf(t, rows, func(c *pipeline.SpansConfig) { c.BatchRows = 7 },
			table(1, "held"), table(2, "prepared"), table(3, "a"), table(4, "b"))
		p.resolve(1 << 40)
		p.hold(1, 110)
		p.s.Write(tableSpan(1), 100)
		p.s.Prepare(tableSpan(2), 100)
		p.s.Write(tableSpan(3), 100)
		p.s.Write(tableSpan(4), 100)
		synctest.Wait()
		for i := range tso.TS(n) {
			ts := 101 + i
			for id := range int64(4) {
				p.up.send(id+1, ts, put(id+1, ts, int64(i), byte(i%100)))
			}
			if i%100 == 99 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		count := func(lines []string, name string) (n int) {
			for _, l := range lines {
				if strings.Contains(l, " "+name+":insert") {
					n++
				}
			}
			return n
		}
		lines := p.down.take()
		if a, b, held := count(lines, "a"), count(lines, "b"), count(lines, "held"); a != n || b != n || held != 10 {
			t.Fatalf("%d, %d and %d rows", a, b, held)
		}
		if used := rows.Used(); used.Memory > 2*quota || used.Disk == 0 {
			t.Fatalf("%+v", used)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) == 0 {
			entries, _ := os.ReadDir(dir)
			t.Fatal(entries, err)
		}
		p.hold(1, tso.Max)
		p.s.Look()
		p.s.Write(tableSpan(2), 1100)
		synctest.Wait()
		lines = p.down.take()
		if held, prepared := count(lines, "held"), count(lines, "prepared"); held != n-10 || prepared != n-1000 {
			t.Fatalf("%d and %d rows", held, prepared)
		}
		if used := rows.Used(); used.Memory != 0 || used.Disk != 0 {
			t.Fatalf("%+v", used)
		}
	})
}

// A sink that is slow holds the upstream back at the quota, instead of filling the disk.
func TestSpansHoldTheUpstreamBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 16 << 10
		rows, err := sorter.Open(sorter.Config{MemoryQuota: quota, Dir: t.TempDir(), DiskQuota: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		})
		p := partOf(t, rows, func(c *pipeline.SpansConfig) { c.BatchRows = 2 }, table(1, "a"), table(2, "idle"))
		p.resolve(1 << 40)
		p.down.free = make(chan struct{})
		p.down.blockOn = "a:insert"
		p.s.Write(tableSpan(1), 100)
		p.s.Write(tableSpan(2), 100)
		synctest.Wait()
		for i := range tso.TS(500) {
			p.up.send(1, 101+i, put(1, 101+i, int64(i), 1))
		}
		synctest.Wait()
		if used := rows.Used(); used.Disk != 0 || used.Memory > quota+1000 || used.Memory < quota/2 {
			t.Fatalf("%+v", used)
		}
		close(p.down.free)
		synctest.Wait()
		if got := p.s.Progress(); got.Rows != 500 || rows.Used().Memory != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// Large transactions go out in pieces, and rows of other spans go on in between; one
// that is stopped in its midst ends below it.
func TestLargeTransactionsOfSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.TxnBytes, c.BatchRows = 2000, 2 },
			table(1, "a"), table(2, "b"))
		p.resolve(1000)
		p.down.free = make(chan struct{})
		p.down.blockOn = "piece 1 of"
		p.s.Write(tableSpan(1), 100)
		p.s.Write(tableSpan(2), 100)
		synctest.Wait()
		p.up.send(1, 200, append(many(1, 105, 200), put(1, 104, 1, 1), put(1, 106, 9, 9))...)
		synctest.Wait()
		p.up.send(2, 200, put(2, 105, 1, 1))
		synctest.Wait()
		close(p.down.free)
		synctest.Wait()
		lines := p.down.take()
		b := slices.Index(lines, "105 b:insert:1=1")
		if b < 3 || b > 60 || len(lines) != 103 || !strings.HasPrefix(lines[1], "105 piece 1 of more") ||
			!strings.HasPrefix(lines[101], "105 piece 100 a:") || lines[102] != "106 a:insert:9=9" {
			t.Fatalf("%d lines, b is at %d: %.300q", len(lines), b, lines)
		}
		if got := p.news(); got[len(got)-1] != "1 at 200 of 200" {
			t.Fatal(got)
		}

		p.down.set(func(d *downstream) { d.free, d.blockOn = make(chan struct{}), "piece 30 of" })
		p.up.send(1, 300, append(many(1, 205, 200), put(1, 204, 1, 1))...)
		synctest.Wait()
		p.s.Stop(tableSpan(1))
		synctest.Wait()
		close(p.down.free)
		synctest.Wait()
		lines = p.down.take()
		if len(lines) < 30 || len(lines) > 60 {
			t.Fatalf("%d lines", len(lines))
		}
		if got := p.news(); got[len(got)-1] != "1 ended at 204" {
			t.Fatal(got)
		}
		if got := rows(p.rows); got != 0 {
			t.Fatal(got)
		}
	})
}

func rows(s *sorter.Sorter) int64 { return s.Used().Memory }

// More spans with large transactions than may be under way at once: all of them come.
func TestManySpansWithLargeTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []*event.Table
		for id := range int64(12) {
			at = append(at, table(id+1, fmt.Sprintf("t%d", id+1)))
		}
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.TxnBytes, c.BatchRows = 2000, 2 }, at...)
		p.resolve(1000)
		for _, x := range at {
			p.s.Write(tableSpan(x.ID), 100)
		}
		synctest.Wait()
		p.down.free = make(chan struct{})
		p.down.blockOn = "103 "
		for _, x := range at {
			p.up.send(x.ID, 200, slices.Concat(many(x.ID, 103, 1), many(x.ID, 105, 50), many(x.ID, 107, 50))...)
		}
		synctest.Wait()
		close(p.down.free)
		synctest.Wait()
		if got := p.s.Progress(); got.Rows != 12*101 || got.Txns != 12*3 || got.Checkpoint != 200 {
			t.Fatalf("%+v", got)
		}
		if rows(p.rows) != 0 {
			t.Fatal(p.rows.Used())
		}
	})
}

func TestALargeTransactionOfASpanIsRefusedByAWholeSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.TxnBytes, c.BatchRows = 2000, 2 }, table(1, "a"))
		p.down.whole = true
		p.resolve(1000)
		p.s.Write(tableSpan(1), 100)
		synctest.Wait()
		p.up.send(1, 200, append(many(1, 105, 12), put(1, 104, 1, 1))...)
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "table 1: ") || !strings.Contains(err.Error(), "12 rows") {
			t.Fatal(err)
		}
		p.want("104 a:insert:1=1")
	})
}

// The sink is opened once, beside everything else: spans are prepared and stopped
// meanwhile.
func TestOpeningTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, opened := make(chan struct{}), 0
		var p *part
		p = partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) {
			c.Open = func(context.Context) (sink.Sink, error) {
				opened++
				<-free
				return p.down, nil
			}
		}, table(1, "a"), table(2, "b"))
		p.resolve(1000)
		p.s.Write(tableSpan(1), 103)
		p.s.Write(tableSpan(2), 100)
		synctest.Wait()
		p.up.send(1, 110, put(1, 104, 1, 1))
		p.up.send(2, 110, put(2, 104, 1, 1))
		p.wantNews()
		p.s.Stop(tableSpan(1))
		p.s.Prepare(tableSpan(1), 105)
		p.wantNews("1 ended at 103")
		p.up.send(1, 111)
		p.wantNews("1 arrived 111")
		close(free)
		p.want("104 b:insert:1=1")
		p.wantNews("2 at 110 of 110")
		if opened != 1 {
			t.Fatal(opened)
		}
	})
}

// What is resolved while a span is in the midst of its turn is read after it.
func TestResolvedWhileASpanIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.BatchRows = 1 }, table(1, "a"))
		p.resolve(1000)
		p.down.free = make(chan struct{})
		p.down.blockOn = "a:insert"
		p.s.Write(tableSpan(1), 100)
		synctest.Wait()
		var rows []event.RawKV
		for i := range tso.TS(12) { // more than the queue and the sink hold, in more than two slices
			rows = append(rows, put(1, 101+i, int64(i), 1))
		}
		p.up.send(1, 300, rows...)
		synctest.Wait()
		p.up.send(1, 400)
		synctest.Wait()
		close(p.down.free)
		if got := p.news(); len(got) == 0 || got[len(got)-1] != "1 at 400 of 400" {
			t.Fatal(got)
		}
	})
}
