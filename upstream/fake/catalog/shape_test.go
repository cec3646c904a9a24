package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// rowWrite is a recorded row.
type rowWrite struct {
	key, value    []byte
	start, commit uint64
	source        uint64
}

// rowsMax is how many rows of a recording are looked at: the large ones are
// many of a kind.
const rowsMax = 3000

// rowReader takes the rows of user tables from the lines of a stream.
type rowReader struct {
	t         *testing.T
	prewrites map[string]rowWrite
	seen      map[string]bool
	out       []rowWrite
}

func newRowReader(t *testing.T) *rowReader {
	return &rowReader{t: t, prewrites: map[string]rowWrite{}, seen: map[string]bool{}}
}

func (r *rowReader) line(text []byte) {
	if len(r.out) > rowsMax || !bytes.Contains(text[:min(len(text), 120)], []byte(`"key":"74`)) {
		return
	}
	var l struct {
		Type, Op, Key, Value string
		StartTS              uint64 `json:"start_ts"`
		CommitTS             uint64 `json:"commit_ts"`
		Source               uint64 `json:"txn_source"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		r.t.Fatal(err)
	}
	id := fmt.Sprint(l.Key, "@", l.StartTS)
	w := rowWrite{key: unhex(r.t, l.Key), value: unhex(r.t, l.Value), start: l.StartTS, commit: l.CommitTS, source: l.Source}
	switch {
	case l.Type == "PREWRITE" && l.Op == "PUT" && l.Value != "":
		r.prewrites[id] = w
	case l.Type == "COMMIT" && l.Op == "PUT":
		p, ok := r.prewrites[id]
		if !ok || r.seen[id] {
			return
		}
		p.commit = l.CommitTS
		r.seen[id] = true
		r.out = append(r.out, p)
	case l.Type == "COMMITTED" && l.Op == "PUT" && !r.seen[id]:
		r.seen[id] = true
		r.out = append(r.out, w)
	}
}

// writtenSo holds every recorded row to be one that a writer of a recent version
// of its table writes here too: in that place, under that key, with those cells.
func (total *rowTally) writtenSo(t *testing.T, r *recorded, sorted encode.Sorter) {
	rows := r.rows
	f := newFollower(t, r, nil)
	w := &rowChecker{t: t, f: f, sort: sorted, shapes: map[int64][]*Shape{}, tally: total}
	if f.c.OldCollations {
		w.sort = encode.Plain{}
	}
	w.learn()
	slices.SortStableFunc(rows, func(a, b rowWrite) int { return int(int64(a.commit - b.commit)) })
	next := 0
	for _, c := range r.commits {
		for next < len(rows) && rows[next].commit < c.commit {
			w.check(rows[next])
			next++
		}
		changed := false
		for key, value := range c.puts {
			if strings.HasPrefix(key, "DB") {
				f.apply(key, value, c.commit)
				changed = true
			}
		}
		if changed {
			w.learn()
		}
	}
	for ; next < len(rows); next++ {
		w.check(rows[next])
	}
}

func (total *rowTally) enough(t *testing.T) {
	t.Logf("rows: %+v", *total)
	if total.same < 15000 || total.older < 5 || total.partitioned < 500 || total.documents+total.moved > total.same/100 || total.unknown > 0 {
		t.Errorf("too little was compared: %+v", total)
	}
}

type rowTally struct {
	same, older, partitioned, documents, moved, unknown int
}

// rowChecker holds rows against the shapes of their tables.
type rowChecker struct {
	t      *testing.T
	f      *follower
	sort   encode.Sorter
	shapes map[int64][]*Shape // by physical id, newest last
	tally  *rowTally
	faults int
}

// learn takes the tables as they are now.
func (w *rowChecker) learn() {
	for _, db := range w.f.c.Databases() {
		if db.Name.L == "mysql" || db.Name.L == "sys" {
			continue
		}
		for _, info := range w.f.c.Tables(db.ID) {
			if info.View != nil || info.Sequence != nil {
				continue
			}
			s, err := NewShape(db, info, w.f.c.OldCollations)
			if err != nil {
				w.t.Fatalf("%s: %s.%s: %v", w.f.r.name, db.Name.O, info.Name.O, err)
			}
			ids := []int64{info.ID}
			if p := info.Partition; p != nil {
				ids = append(ids, idsOf(slices.Concat(p.Definitions, p.Adding, p.Dropping))...)
			}
			for _, id := range ids {
				list := w.shapes[id]
				if len(list) > 0 && list[len(list)-1].Info == info {
					continue
				}
				w.shapes[id] = append(list, s)
			}
		}
	}
}

// versionsBack is how old a version a row may have been written with: its
// transaction began some steps before it committed.
const versionsBack = 4

func (w *rowChecker) check(r rowWrite) {
	if len(r.key) < 19 || string(r.key[9:11]) != "_r" {
		return
	}
	id := int64(binary.BigEndian.Uint64(r.key[1:]) ^ 1<<63)
	if id > 1<<40 || r.value[0] != 0x80 {
		return // a system table, or a row in format 1
	}
	list := w.shapes[id]
	if list == nil {
		w.tally.unknown++
		return
	}
	var why error
	for back := 0; back < min(versionsBack, len(list)); back++ {
		s := list[len(list)-1-back]
		err := w.writes(s, r)
		if back == 0 {
			why = err
		}
		if err == nil {
			w.tally.same++
			if back > 0 {
				w.tally.older++
			}
			if s.Info.Partition != nil {
				w.tally.partitioned++
			}
			return
		}
	}
	if w.faults++; w.faults < 4 {
		w.t.Errorf("%s: %s, key %x at %d: %v", w.f.r.name, list[len(list)-1].Table.FullName(), r.key, r.commit, why)
	}
}

// writes tells why a writer of that shape does not write the row.
func (w *rowChecker) writes(s *Shape, r rowWrite) error {
	row, docs, err := w.decode(s, r)
	if err != nil {
		return err
	}
	sum := encode.NoChecksum
	if r.value[1]&2 != 0 {
		sum = encode.ChecksumKind(r.value[len(r.value)-5]&7) + encode.OverCells
	}
	kvs, err := s.Put(row, w.sort, sum)
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		switch {
		case string(kv.Key) != string(r.key):
		case string(kv.Value) == string(r.value):
			return nil
		case docs:
			w.tally.documents++
			return nil // a document as text does not say how a number in it was written
		case s.beside != nil && string(kv.Key) != string(kvs[0].Key):
			w.tally.moved++
			return nil // a row that a backfill moved is as old as it was
		default:
			return fmt.Errorf("value %x, want %x", kv.Value, r.value)
		}
	}
	return fmt.Errorf("keys %x and %d others", kvs[0].Key, len(kvs)-1)
}

// decode reads a recorded row by a shape.
func (w *rowChecker) decode(s *Shape, r rowWrite) (Row, bool, error) {
	table := *s.Table
	n := len(table.Columns)
	table.Columns = slices.Clone(table.Columns)
	for _, rule := range s.cells {
		if rule.value < 0 && rule.convert < 0 {
			table.Columns = append(table.Columns, *rule.column)
		}
	}
	decoded, err := mount.Row(&event.RawKV{Op: event.Put, Key: r.key, Value: r.value, CommitTS: 1}, &table)
	if err != nil {
		return Row{}, false, err
	}
	row := Row{Kept: map[int64]encode.Value{}}
	if table.Handle.Kind == event.RowIDHandle {
		row.RowID = int64(binary.BigEndian.Uint64(r.key[11:]) ^ 1<<63)
	}
	docs := false
	for i, v := range decoded.After {
		c := &table.Columns[i]
		value, err := valueOf(c, v)
		if err != nil {
			return Row{}, false, err
		}
		docs = docs || c.Type == event.TypeJSON && value != nil
		if i < n {
			row.Values = append(row.Values, value)
			continue
		}
		if value != nil {
			row.Kept[c.ID] = value
		}
	}
	return row, docs, nil
}

// valueOf is a decoded value as one to be encoded.
func valueOf(c *event.Column, v event.Value) (encode.Value, error) {
	switch v.Kind() {
	case event.Null, event.Missing:
		return nil, nil
	case event.Bytes:
		return v.Raw(), nil
	case event.Float:
		return v.Float(), nil
	case event.Bit, event.Enum, event.Set:
		return v.Uint(), nil
	case event.Vector:
		raw := v.Raw()
		out := make([]float32, binary.LittleEndian.Uint32(raw))
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4+4*i:]))
		}
		return out, nil
	case event.Duration:
		return time.Duration(v.Int()), nil
	}
	return encode.Parse(c, v.Text(c))
}
