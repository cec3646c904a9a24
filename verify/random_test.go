package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/verify"
)

// world is a table whose contents are known by simpler means: a map.
type world struct {
	rng     *rand.Rand
	table   *event.Table
	rows    map[int64]string
	ts      tso.TS
	history strings.Builder
	txns    []*event.Txn
}

// step is one transaction of a few changes.
func (w *world) step() {
	w.ts += 10
	t := &event.Txn{StartTS: w.ts - 1, CommitTS: w.ts}
	for _, id := range w.rng.Perm(8)[:1+w.rng.IntN(3)] {
		id := int64(id)
		old, there := w.rows[id]
		before := image(id, old)
		if !there {
			before = nil
		}
		switch {
		case there && w.rng.IntN(3) == 0:
			t.Rows = append(t.Rows, put(w.table, w.part(id), id, w.ts, before, nil))
			delete(w.rows, id)
		default:
			v := strconv.Itoa(w.rng.IntN(100))
			t.Rows = append(t.Rows, put(w.table, w.part(id), id, w.ts, before, image(id, v)))
			w.rows[id] = v
		}
	}
	w.txns = append(w.txns, t)
	var told []int64
	for _, r := range t.Rows {
		if slices.Contains(told, r.PhysicalID) {
			continue
		}
		fmt.Fprintf(&w.history, `{"kind":"snapshot","commit_ts":%d,"physical_id":%d,"known":true,"db":"db","table":"t","table_id":7}`+"\n", w.ts, r.PhysicalID)
		if told = append(told, r.PhysicalID); len(told) == 1 {
			w.print(&w.history)
		}
	}
}

func (w *world) part(id int64) int64 {
	ids := w.table.PhysicalIDs()
	return ids[int(id)%len(ids)]
}

func (w *world) print(b *strings.Builder) {
	for id := range int64(8) {
		if v, ok := w.rows[id]; ok {
			fmt.Fprintf(b, `{"kind":"row","db":"db","table":"t","row":{"id":"%d","v":"%s"}}`+"\n", id, v)
		}
	}
}

// judge delivers everything and returns both verdicts.
func (w *world) judge(t *testing.T) (rows, end *verify.Verdict) {
	t.Helper()
	var contents strings.Builder
	parts := ""
	for _, p := range w.table.Partitions {
		parts += fmt.Sprintf(`,"%s":%d`, p.Name, p.ID)
	}
	fmt.Fprintf(&contents, `{"kind":"table","db":"db","table":"t","table_id":7,"type":"BASE TABLE","partitions":{%s}}`+"\n", strings.TrimPrefix(parts, ","))
	w.print(&contents)
	j := verify.NewJudge(verify.Config{StartTS: 1, Tables: []*event.Table{w.table}, Expected: expected(t, contents.String()), History: history(t, w.history.String())})
	for _, txn := range w.txns {
		j.Txn(txn)
		j.Checkpoint(txn.CommitTS)
	}
	return j.Rows(), j.End()
}

// Whatever happened is judged equal, and one spoiled cell of it is found: by the
// rows always, by the end if nothing overwrote it.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 7)), table: tableOf(7, "t"), rows: map[int64]string{}, ts: 100}
		if seed%2 == 1 {
			w.table = tableOf(7, "t", 71, 72, 73)
		}
		for range 1 + w.rng.IntN(20) {
			w.step()
		}
		rows, end := w.judge(t)
		if rows.Word() != "equal" || end.Word() != "equal" {
			t.Fatalf("seed %d: rows=%s end=%s %v %v", seed, rows.Word(), end.Word(), rows.First, end.First)
		}
		at := w.rng.IntN(len(w.txns))
		spoiled := *w.txns[at].Rows[0]
		id, last := spoiled.Key, true
		for _, later := range w.txns[at+1:] {
			for _, r := range later.Rows {
				last = last && string(r.Key) != string(id)
			}
		}
		if spoiled.After != nil {
			spoiled.After = event.Image{spoiled.After[0], event.BytesValue([]byte("spoiled"))}
		} else {
			spoiled.After = spoiled.Before // the delete did not happen
		}
		w.txns[at].Rows[0] = &spoiled
		rows, end = w.judge(t)
		if rows.Equal() || end.Equal() == last {
			t.Fatalf("seed %d: spoiled %+v: rows=%s end=%s", seed, spoiled, rows.Word(), end.Word())
		}
	}
}

// Whatever stands in a file, reading ends in contents or in an error with a line.
func FuzzRead(f *testing.F) {
	f.Add(tableT + "\n" + rowOne)
	f.Add(`{"kind":"header","end_ts":9}` + "\n" + tableT + "\n" + rowOne + "\n" + rowTwo)
	f.Add(strings.Join(twoRows, "\n"))
	f.Add(snapshotAt15 + "\n" + `{"kind":"snapshot","ts":1,"columns":["a"],"rows":[[{"hex":"00"}]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := verify.ReadExpected("f", strings.NewReader(text))
		if (e == nil) == (err == nil) {
			t.Fatal(e, err)
		}
		h, err := verify.ReadHistory("f", strings.NewReader(text))
		if (h == nil) == (err == nil) {
			t.Fatal(h, err)
		}
		if e != nil {
			v := verify.NewModel(nil, []*event.Table{tableOf(7, "t")}).End(e, verify.DefaultLimits())
			_ = v.Word()
		}
	})
}
