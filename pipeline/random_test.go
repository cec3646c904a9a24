package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/tso"
)

// history is a random upstream: transactions over tables that are created,
// truncated and dropped, and how they reach the pipeline in pieces.
type history struct {
	tables map[string]*event.Table // by name, those that exist
	nextID int64
	now    tso.TS
	rows   map[int64][]event.RawKV // by physical id, in commit order
	ddls   []*event.DDL
	lines  []string // what the downstream must get, without checkpoints
}

// draw makes a history of tables a and b, and perhaps c.
func draw(t *rapid.T) (h *history, first []*event.Table) {
	first = []*event.Table{table(1, "a"), table(2, "b")}
	h = &history{tables: map[string]*event.Table{"a": first[0], "b": first[1]}, nextID: 10, now: 101, rows: map[int64][]event.RawKV{}}
	for i, op := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(t, "ops") {
		h.step(op, i)
	}
	return h, first
}

// Whatever the order of arrival, the downstream gets every row once, in commit
// order, DDLs in their place (P6), and checkpoints that rise and never pass what
// is still to come (P3).
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, first := draw(rt)
		size := rapid.IntRange(1, 5).Draw(rt, "batch")
		deliver := rapid.SliceOfN(rapid.IntRange(0, 100), 10, 10).Draw(rt, "deliver")
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			w := startWith(t, 2000, func(c *pipeline.Config) { c.BatchRows = size }, first...)
			for _, d := range h.ddls {
				w.sc.ddl(d)
			}
			if wrong = h.deliver(w, deliver); wrong == nil {
				wrong = h.judge(w.down.take())
			}
			if m := w.memory(); wrong == nil && m != 0 {
				wrong = fmt.Errorf("%d bytes held with nothing left", m)
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// step is one transaction or one DDL.
func (h *history) step(op, i int) {
	h.now += tso.TS(i%3 + 1)
	name := string(rune('a' + op%3))
	t := h.tables[name]
	d := &event.DDL{JobID: int64(i), SwitchTS: h.now, Query: fmt.Sprintf("%d on %s", op, name)}
	switch {
	case op < 7:
		line := fmt.Sprint(h.now)
		var touched []*event.Table
		for _, n := range []string{"a", "b", "c"}[:op%3+1] {
			if t := h.tables[n]; t != nil {
				touched = append(touched, t)
			}
		}
		slices.SortFunc(touched, func(a, b *event.Table) int { return int(a.ID - b.ID) }) // as their keys
		for _, t := range touched {
			h.rows[t.ID] = append(h.rows[t.ID], put(t.ID, h.now, int64(op), byte(i)))
			line += fmt.Sprintf(" %s:insert:%d=%d", t.Name, op, i)
		}
		if strings.Contains(line, " ") {
			h.lines = append(h.lines, line)
		}
		return
	case t == nil:
		h.nextID++
		h.tables[name] = table(h.nextID, name)
		d.Tables = []event.TableChange{change(nil, h.tables[name])}
	case op == 7:
		h.nextID++
		h.tables[name] = table(h.nextID, name)
		d.Tables = []event.TableChange{change(t, h.tables[name])}
	case op == 8:
		delete(h.tables, name)
		d.Tables = []event.TableChange{change(t, nil)}
	default:
		after := *t
		after.Columns = slices.Clone(t.Columns)
		after.Columns[1].Name = fmt.Sprint("v", i)
		h.tables[name] = &after
		d.Tables = []event.TableChange{change(t, &after)}
	}
	h.lines = append(h.lines, fmt.Sprintf("%d DDL %s", h.now, d.Query))
	h.ddls = append(h.ddls, d)
}

// deliver sends the rows span by span in pieces, each piece backwards, the last
// row of a piece twice, and resolves spans and schema at different times.
func (h *history) deliver(w *world, steps []int) error {
	sent := map[int64]int{}
	for round := 0; ; round++ {
		w.settle()
		ids := w.up.ids()
		if round >= 60 && !slices.ContainsFunc(ids, func(id int64) bool { return sent[id] < len(h.rows[id]) }) && w.p.Checkpoint() == h.now+10 {
			return nil
		}
		if round > 500 {
			return fmt.Errorf("stuck at %d of %d, followed %v", w.p.Checkpoint(), h.now, ids)
		}
		x := steps[round%len(steps)]
		if x%4 == 0 || round >= 50 {
			w.sc.resolve(min(h.now+10, max(w.sc.Resolved(), 101+tso.TS(round*x/10))))
		}
		if round >= 60 {
			w.sc.resolve(h.now + 10)
		}
		for _, id := range ids {
			rows := h.rows[id][sent[id]:]
			n := min(len(rows), x%3+1)
			piece := slices.Clone(rows[:n])
			slices.Reverse(piece)
			if n > 0 {
				piece = append(piece, piece[0])
			}
			sent[id] += n
			var resolved tso.TS
			switch {
			case n < len(rows):
				resolved = rows[n].CommitTS - 1
			default:
				resolved = h.now + 10
			}
			w.up.send(id, resolved, piece...)
		}
	}
}

func (h *history) judge(got []string) error {
	var lines []string
	checkpoint, seen, ddl := 0, 0, 0
	for _, l := range got {
		var ts int
		if n, _ := fmt.Sscanf(l, "checkpoint %d", &ts); n == 1 {
			if ts <= checkpoint || seen > ts {
				return fmt.Errorf("checkpoint %d after checkpoint %d and a row of %d", ts, checkpoint, seen)
			}
			checkpoint = ts
			continue
		}
		if _, err := fmt.Sscan(l, &ts); err != nil || ts <= checkpoint {
			return fmt.Errorf("%q after checkpoint %d", l, checkpoint)
		}
		if strings.Contains(l, "DDL") {
			if checkpoint != ts-1 && ddl != ts {
				return fmt.Errorf("%q with the checkpoint at %d", l, checkpoint)
			}
			ddl = ts
		}
		seen = ts
		lines = append(lines, l)
	}
	if !slices.Equal(lines, h.lines) {
		return fmt.Errorf("downstream got\n\t%s\nwant\n\t%s", strings.Join(lines, "\n\t"), strings.Join(h.lines, "\n\t"))
	}
	return nil
}
