package pipeline_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/tso"
)

// tiny cuts transactions of more than a few rows into pieces of two.
func tiny(c *pipeline.Config) { c.TxnBytes, c.BatchRows = 2000, 2 }

// many is n rows of one transaction.
func many(table int64, commit tso.TS, n int) (rows []event.RawKV) {
	for i := range n {
		rows = append(rows, put(table, commit, int64(i), byte(i)))
	}
	return rows
}

func TestLargeTransactionComesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, tiny, table(1, "a"), table(2, "b"))
		w.sc.resolve(200)
		w.up.send(1, 110, many(1, 105, 12)...)
		before, after := put(2, 105, 1, 1), put(2, 105, 2, 2)
		before.StartTS--
		after.StartTS++
		w.up.send(2, 110, before, put(2, 105, 3, 3), after, put(2, 107, 4, 4))
		w.want("105 b:insert:1=1", "checkpoint 104",
			"105 piece 1 of more a:insert:0=0 a:insert:1=1", "105 piece 2 of more a:insert:2=2 a:insert:3=3",
			"105 piece 3 of more a:insert:4=4 a:insert:5=5", "105 piece 4 of more a:insert:6=6 a:insert:7=7",
			"105 piece 5 of more a:insert:8=8 a:insert:9=9", "105 piece 6 of more a:insert:10=10 a:insert:11=11",
			"105 piece 7 b:insert:3=3",
			"105 b:insert:2=2", "107 b:insert:4=4", "checkpoint 110")
		if got := w.p.Progress(); got.Txns != 4 || got.Rows != 16 {
			t.Fatalf("%+v", got)
		}
		if !strings.Contains(w.logs.String(), "rows=13") {
			t.Error(w.logs)
		}
	})
}

// The last transaction before the bound, and one after the other.
func TestLargeTransactionsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) { c.TxnBytes, c.BatchRows = 2000, 100 }, table(1, "a"))
		w.sc.resolve(200)
		w.up.send(1, 106, append(many(1, 105, 10), many(1, 106, 10)...)...)
		w.settle()
		var got []string
		for _, l := range w.down.take() {
			got = append(got, l[:strings.Index(l+":", ":")])
		}
		if want := []string{"105 piece 1 a", "106 piece 1 a", "checkpoint 106"}; !slices.Equal(got, want) {
			t.Fatalf("%q", got)
		}
	})
}

func TestLargeTransactionIsRefusedByAWholeSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, tiny, table(1, "a"))
		w.down.set(func(d *downstream) { d.whole = true })
		w.sc.resolve(200)
		w.up.send(1, 110, append(many(1, 105, 12), put(1, 104, 1, 1), put(1, 106, 1, 1))...)
		err := w.ended()
		if !cdcerr.TxnTooLarge.Is(err) || cdcerr.Fate(err) != cdcerr.Terminal {
			t.Fatal(err)
		}
		for _, want := range []string{"start-ts 100", "commit-ts 105", "12 rows", "at most 2000"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
		if !strings.Contains(cdcerr.TxnTooLarge.Remedy, "transaction-atomicity=none") {
			t.Error("the remedy does not name the key")
		}
		w.want("104 a:insert:1=1", "checkpoint 104")
		if w.p.Checkpoint() >= 105 {
			t.Fatal(w.p.Checkpoint())
		}
	})
}

// A row that cannot be decoded ends the changefeed, wherever it stands.
func TestLargeTransactionWithABadRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, tiny, table(1, "a"))
		w.sc.resolve(200)
		rows := many(1, 105, 12)
		rows[11].Value = []byte{128}
		w.up.send(1, 110, rows...)
		if err := w.ended(); !cdcerr.CorruptRow.Is(err) {
			t.Fatal(err)
		}
		if w.p.Checkpoint() >= 105 {
			t.Fatal(w.p.Checkpoint())
		}
	})
}

// Rows that nobody wants are counted once, also among those of a large transaction.
func TestLargeTransactionCountsWhatItLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *pipeline.Config) {
			tiny(c)
			rules(t, "test.*")(c)
		}, table(1, "a"), table(2, "b"))
		w.sc.mu.Lock()
		w.sc.versions[1].to = 104 // b is gone, and its rows are nobody's
		w.sc.mu.Unlock()
		w.sc.resolve(200)
		never := put(1, 105, 99, 0)
		never.Op, never.Value = event.Delete, nil
		w.up.send(1, 110, append(many(1, 105, 12), never)...)
		w.up.send(2, 110, many(2, 105, 7)...)
		w.settle()
		if got := w.p.Progress(); got.Unknown != 7 || got.Rows != 12 || got.Txns != 1 {
			t.Fatalf("%+v", got)
		}
	})
}

// hidden is a table whose rows lie under a hidden id, with its key in column 1.
func hidden() *event.Table {
	t := table(1, "h")
	t.Handle = event.Handle{Kind: event.RowIDHandle}
	return t
}

// cell is a row of it: format v2 with columns 1 = key and 2 = v.
func cell(key, v byte) []byte {
	b := []byte{128, 0}
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = append(b, 1, 2)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 2)
	return append(b, key, v)
}

type stored struct{ key, v byte }

// rewrite makes a random transaction that leaves every key with at most one row.
func rewrite(t *rapid.T, rows map[int64]stored, commit tso.TS) (next map[int64]stored, changes []event.RawKV) {
	next = maps.Clone(rows)
	var free []byte // keys that nobody has
	for k := range byte(8) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(rows)), func(s stored) bool { return s.key == k }) {
			free = append(free, k)
		}
	}
	var touched []int64
	for id := range int64(8) {
		if !rapid.Bool().Draw(t, "touch") {
			continue
		}
		touched = append(touched, id)
		if s, there := next[id]; there {
			free = append(free, s.key)
			delete(next, id)
		}
	}
	for _, id := range touched {
		c := event.RawKV{Op: event.Delete, StartTS: commit - 1, CommitTS: commit, Key: rowKey(1, id)}
		if s, there := rows[id]; there {
			c.Old = cell(s.key, s.v)
		}
		if rapid.IntRange(0, 3).Draw(t, "stays") > 0 {
			i := rapid.IntRange(0, len(free)-1).Draw(t, "key")
			next[id] = stored{free[i], byte(rapid.IntRange(0, 99).Draw(t, "v"))}
			free = slices.Delete(free, i, i+1)
			c.Op, c.Value = event.Put, cell(next[id].key, next[id].v)
		}
		if c.Op == event.Put || c.Old != nil {
			changes = append(changes, c)
		}
	}
	return next, changes
}

// apply does to a table by keys what a database does: in each Write the rows that
// go, then those that come, each in the place of any other with its key.
func apply(down map[int64]int64, txns []string) error {
	var puts [][2]int64
	for _, line := range txns {
		for _, word := range strings.Fields(line) {
			name, rest, ok := strings.Cut(word, ":")
			if !ok || name != "h" {
				continue
			}
			kind, pair, _ := strings.Cut(rest, ":")
			var key, v int64
			if _, err := fmt.Sscanf(pair, "%d=%d", &key, &v); err != nil {
				return err
			}
			switch kind {
			case "delete":
				delete(down, key)
			case "update", "insert":
				puts = append(puts, [2]int64{key, v})
			}
		}
	}
	for _, p := range puts {
		down[p[0]] = p[1]
	}
	return nil
}

// Keys that move between rows of a transaction end where upstream has them, also
// when each piece is written by itself.
func TestKeysThatMoveBetweenPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(rt, "batch")
		type step struct {
			rows    map[int64]stored
			changes []event.RawKV
		}
		var steps []step
		rows := map[int64]stored{}
		for i := range rapid.IntRange(1, 5).Draw(rt, "transactions") {
			var changes []event.RawKV
			rows, changes = rewrite(rt, rows, tso.TS(110+10*i))
			steps = append(steps, step{rows, changes})
		}
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			w := start(t, func(c *pipeline.Config) { c.TxnBytes, c.BatchRows = 1, size }, hidden())
			w.sc.resolve(1000)
			down := map[int64]int64{}
			for i, s := range steps {
				w.up.send(1, tso.TS(110+10*i), s.changes...)
				w.settle()
				for _, line := range w.down.take() {
					if wrong = apply(down, []string{line}); wrong != nil {
						return
					}
				}
				want := map[int64]int64{}
				for _, r := range s.rows {
					want[int64(r.key)] = int64(r.v)
				}
				if !maps.Equal(down, want) {
					wrong = fmt.Errorf("transaction %d: downstream %v, upstream %v", i, down, want)
					return
				}
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}
