package fake_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

func bulkRows(rows, size int) *fake.Bulk {
	return &fake.Bulk{
		Snapshot: []fake.KV{{Key: []byte("m1"), Value: []byte("schema")}},
		Rows:     rows,
		Row: func(i int) ([]byte, []byte) {
			value := make([]byte, size)
			binary.BigEndian.PutUint64(value, uint64(i))
			return span.AppendInt(span.RecordPrefix(100), int64(i)), value
		},
	}
}

func TestBulkRowsArriveOnce(t *testing.T) {
	for _, size := range []int{200, 300} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			const rows = 5003
			c := run(t, fake.Config{Bulk: bulkRows(rows, size), Calm: true, StartTS: 1000 << 18, ResolvedInterval: 5 * time.Millisecond})
			cl := newClient(t, c)
			before, err := cl.scan(within(t, guard), 1000<<18)
			must(t, err)
			if len(before) != 1 || before["m1"] != "schema" {
				t.Errorf("before: %q", before)
			}
			w := newWatcher(cl, 1000<<18, 1100<<18)
			must(t, w.watch(within(t, guard)))
			if len(w.rows) != rows || w.seen["PREWRITE"] != rows || w.seen["COMMIT"] != rows {
				t.Errorf("%d rows, %v", len(w.rows), w.seen)
			}
			ids := map[uint64]bool{}
			for k, r := range w.rows {
				id := binary.BigEndian.Uint64([]byte(r.value))
				ids[id] = true
				if k.key != string(span.AppendInt(span.RecordPrefix(100), int64(id))) || len(r.value) != size {
					t.Fatalf("row %d has key %x and %d bytes", id, k.key, len(r.value))
				}
			}
			if len(ids) != rows {
				t.Errorf("%d different rows", len(ids))
			}
		})
	}
}

// A subscription to a part of the regions gets the rows of its part.
func TestBulkRowsOfARange(t *testing.T) {
	c := run(t, fake.Config{
		Bulk: &fake.Bulk{Rows: 1000, Regions: 1, Row: bulkRows(1000, 50).Row}, Calm: true, StartTS: 1000 << 18,
		HoldForSubscriber: true, ResolvedInterval: 5 * time.Millisecond,
	})
	cl := newClient(t, c)
	from, to := bulkKey(100), bulkKey(300)
	r := cl.regionOf(t, string(from))
	f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
	req := cl.request(r, 1, 1000<<18)
	req.StartKey, req.EndKey = []byte(span.EncodeKey(from)), []byte(span.EncodeKey(to))
	f.send(req)
	<-c.Replayed()
	f.resolved(1000<<18 + 1<<18)
	if len(f.queue) != 1+2*200 {
		t.Errorf("%d lines", len(f.queue))
	}
}

// Who comes while the rows flow, in the midst of their transaction, has from the scan what
// went out before: prewrites whose commits come live. Who comes later has it all from there.
func TestBulkRowsForWhoComesLater(t *testing.T) {
	const rows, begin = 64, tso.TS(1000 << 18)
	// More than a stream that is not read holds: the first reader stops the flow.
	c := run(t, fake.Config{
		Bulk: &fake.Bulk{Rows: rows, Regions: 1, OneTxn: true, Row: bulkRows(rows, 256<<10).Row}, Calm: true, StartTS: begin,
		ResolvedInterval: 5 * time.Millisecond,
	})
	follow := func(after tso.TS) *feed {
		cl := newClient(t, c)
		r := cl.regionOf(t, string(bulkKey(0)))
		f := openFeed(t, cl, r.Leader.StoreId, multiplexed)
		f.send(cl.request(r, 1, after))
		return f
	}
	until := func(f *feed, word string) {
		for !slices.ContainsFunc(f.queue, func(line string) bool { return strings.Contains(line, word) }) {
			f.pull()
		}
	}
	count := func(f *feed, word string) (n int) {
		for _, line := range f.queue {
			if strings.Contains(line, word) {
				n++
			}
		}
		return n
	}
	first := follow(begin)
	until(first, "PREWRITE")
	second := follow(begin)
	until(second, "INITIALIZED")
	if n := count(second, "PREWRITE"); n == 0 || n == rows {
		t.Errorf("%d prewrites in the scan: this test is about some of them", n)
	}
	go func() {
		for _, err := first.stream.Recv(); err == nil; _, err = first.stream.Recv() {
		}
	}()
	<-c.Replayed()
	end := c.TS()
	second.resolved(end)
	if p, q := count(second, "PREWRITE"), count(second, "COMMIT "); p != rows || q != rows {
		t.Errorf("in the midst: %d prewrites, %d commits, want %d", p, q, rows)
	}
	for after, want := range map[tso.TS]int{begin: rows, end: 0} {
		third := follow(after)
		until(third, "INITIALIZED")
		if n := count(third, "COMMITTED"); n != want || len(third.queue) != want+1 {
			t.Errorf("after all, from %d: %d committed of %d lines, want %d", after, n, len(third.queue), want)
		}
	}
}

func bulkKey(i int64) []byte { return span.AppendInt(span.RecordPrefix(100), i) }

func TestBulkThatCannotBe(t *testing.T) {
	for name, b := range map[string]*fake.Bulk{
		"no rows": {Row: bulkRows(1, 8).Row},
		"no func": {Rows: 1},
		"falling keys": {Rows: 2, Row: func(i int) ([]byte, []byte) {
			return bulkKey(int64(-i)), nil
		}},
	} {
		if _, err := fake.Start(fake.Config{Bulk: b}); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bare stream: what a client that throws rows away can get.
func BenchmarkBulk(b *testing.B) {
	c := startBulk(b, b.N)
	cl := newClient(b, c)
	regions, err := cl.regions(b.Context(), "", "")
	if err != nil {
		b.Fatal(err)
	}
	rows := make(chan int, len(cl.conns))
	b.ResetTimer()
	for store := range cl.conns {
		f := openFeed(b, cl, store, multiplexed)
		for i, r := range regions {
			if r.Leader.StoreId == store {
				f.send(cl.request(r, uint64(i+1), c.TS()))
			}
		}
		go func() {
			for {
				ev, err := f.stream.Recv()
				if err != nil {
					return
				}
				rows <- count(ev)
			}
		}()
	}
	for n := 0; n < b.N; n += <-rows {
	}
}

func count(ev *cdcpb.ChangeDataEvent) int {
	n := 0
	for _, e := range ev.Events {
		for _, row := range e.GetEntries().GetEntries() {
			if row.Type == cdcpb.Event_COMMIT {
				n++
			}
		}
	}
	return n
}

func startBulk(b *testing.B, rows int) *fake.Cluster {
	return run(b, fake.Config{Bulk: bulkRows(max(rows, 8), 200), Calm: true})
}
