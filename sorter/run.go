package sorter

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// run is a sorted part of one input in a segment. A row's key there is the run's
// number, commit-ts and start-ts in big-endian order, and its own key; its value
// is an op, the length of the new value, the new value and the old one.
type run struct {
	segment     *segment
	number      uint32
	least, most tso.TS // of commit-ts
}

// headLen is what stands before a row's own key.
const headLen = 4 + 8 + 8

func (r *run) drop() { r.segment.drop() }

// add writes one run.
func (w *segmentWriter) add(sorted []entry) (*run, error) {
	r := &run{segment: w.segment, number: w.next, least: sorted[0].commit, most: last(sorted).commit}
	w.next++
	for _, e := range sorted {
		w.key = append(r.head(w.key[:0], e.commit, e.start), e.row.Key...)
		w.value = appendRow(w.value[:0], e.row)
		if err := w.table.Set(w.key, w.value); err != nil {
			return nil, w.segment.disk.fail(err, "writing "+w.segment.path)
		}
	}
	return r, nil
}

func (r *run) head(dst []byte, commit, start tso.TS) []byte {
	dst = binary.BigEndian.AppendUint32(dst, r.number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(commit))
	return binary.BigEndian.AppendUint64(dst, uint64(start))
}

// ends tells whether a key lies behind the rows up to a commit-ts.
func (r *run) ends(key []byte, upto tso.TS) bool {
	return len(key) < headLen || binary.BigEndian.Uint32(key) != r.number || tso.TS(binary.BigEndian.Uint64(key[4:])) > upto
}

// onDisk tells whether the very row is in one of the runs. The caller is a user
// of their segments.
func onDisk(runs []*run, row *event.RawKV) (bool, error) {
	var v views
	for _, r := range runs {
		if row.CommitTS < r.least || row.CommitTS > r.most {
			continue
		}
		it, err := v.of(r.segment)
		if err != nil {
			return false, err
		}
		want := append(r.head(nil, row.CommitTS, row.StartTS), row.Key...)
		kv := it.SeekGE(want, 0)
		found := kv != nil && bytes.Equal(kv.K.UserKey, want)
		if err := it.Error(); err != nil {
			return false, errors.Join(r.segment.fail(err), v.close())
		}
		if found {
			return true, v.close()
		}
	}
	return false, v.close()
}

// runCursor reads the rows of one run, a few at a time.
type runCursor struct {
	run   *run
	views *views
	from  []byte // the key to go on from
	upto  tso.TS
	room  int // bytes to read at a time
	done  bool
}

// between is a cursor over the rows in (lower, upper]. The segment is in use
// until it is closed; nothing is read before the rows' turn comes.
func (r *run) between(lower, upper tso.TS) cursor {
	first := max(r.least, lower.Next())
	return cursor{
		unopened: true,
		entries:  []entry{{commit: first, row: new(event.RawKV)}},
		disk:     r.open(first, upper),
	}
}

func (r *run) open(first, upper tso.TS) *runCursor {
	r.segment.use()
	return &runCursor{run: r, from: r.head(nil, first, 0), upto: upper}
}

// fill reads the next rows, none at the end. They are copies: each fill has its
// own memory, which lives as long as one of its rows.
func (c *runCursor) fill() ([]entry, error) {
	if c.done {
		return nil, nil
	}
	rows, err := c.read()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, len(rows))
	for i := range rows {
		entries[i] = entryOf(&rows[i])
	}
	return entries, nil
}

func (c *runCursor) read() ([]event.RawKV, error) {
	it, err := c.views.of(c.run.segment)
	if err != nil {
		return nil, err
	}
	var rows []event.RawKV
	var memory []byte
	size := 0
	kv := it.SeekGE(c.from, 0) // where it stands already, if there is but one run
	for ; kv != nil && size < c.room && !c.run.ends(kv.K.UserKey, c.upto); kv = it.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return nil, c.run.segment.fail(err)
		}
		n := len(kv.K.UserKey) + len(value)
		if n > cap(memory)-len(memory) {
			memory = make([]byte, 0, max(n, c.room-size))
		}
		row, ok := parseRow(&memory, kv.K.UserKey, value)
		if !ok {
			return nil, cdcerr.SorterIO.New("%s holds what nobody wrote under key %X", c.run.segment.path, kv.K.UserKey)
		}
		rows = append(rows, row)
		size += n
	}
	if err := it.Error(); err != nil {
		return nil, c.run.segment.fail(err)
	}
	if kv == nil || c.run.ends(kv.K.UserKey, c.upto) {
		c.done = true
	} else {
		c.from = append(c.from[:0], kv.K.UserKey...)
	}
	return rows, nil
}

func appendRow(dst []byte, r *event.RawKV) []byte {
	dst = append(dst, byte(r.Op))
	dst = binary.AppendUvarint(dst, uint64(len(r.Value)))
	dst = append(dst, r.Value...)
	return append(dst, r.Old...)
}

// parseRow copies a row into memory, which has room for it.
func parseRow(memory *[]byte, key, value []byte) (r event.RawKV, ok bool) {
	if len(key) < headLen || len(value) < 2 {
		return r, false
	}
	n, width := binary.Uvarint(value[1:])
	if width <= 0 || n > uint64(len(value)-1-width) {
		return r, false
	}
	take := func(b []byte) []byte {
		at := len(*memory)
		*memory = append(*memory, b...)
		return (*memory)[at:len(*memory):len(*memory)]
	}
	rest := value[1+width:]
	return event.RawKV{
		Op:       event.Op(value[0]),
		CommitTS: tso.TS(binary.BigEndian.Uint64(key[4:])),
		StartTS:  tso.TS(binary.BigEndian.Uint64(key[12:])),
		Key:      take(key[headLen:]),
		Value:    take(rest[:n]),
		Old:      take(rest[n:]),
	}, true
}
