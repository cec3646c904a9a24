package encode_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// tally counts what was compared, so that a test that compared nothing fails.
type tally struct {
	keys, sorted, row1, row2, large, sums, jobs, docs, sameDocs int
}

func (n *tally) add(o tally) {
	n.keys += o.keys
	n.sorted += o.sorted
	n.row1 += o.row1
	n.row2 += o.row2
	n.large += o.large
	n.sums += o.sums
	n.jobs += o.jobs
	n.docs += o.docs
	n.sameDocs += o.sameDocs
}

// Every key and every row that a TiDB wrote, decoded by mount and encoded again
// here, is the same to the byte, checksums included. A JSON cell is the same
// after decoding: a document as text has lost what kind of string a date was.
func TestRecordingsComeBackToTheByte(t *testing.T) {
	var all tally
	for _, path := range golden.Recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tw := &twin{
				shapes: shapes{databases: map[int64]*schema.DBInfo{}, versions: map[int64][]version{}},
				tables: map[*schema.TableInfo]*event.Table{},
				sort:   order(t),
			}
			if strings.HasPrefix(filepath.Base(path), "oldcoll_") {
				tw.sort = encode.Plain{}
			}
			var rows []change
			replay(t, path, func(c change) error {
				if _, _, ok := mount.ParseRecordKey(c.key); ok {
					rows = append(rows, c)
				}
				return tw.learn(c)
			})
			for _, c := range rows {
				if err := tw.check(c); err != nil {
					t.Errorf("key %x at %d: %v", c.key, c.commitTS, err)
				}
			}
			all.add(tw.tally)
		})
	}
	t.Logf("%+v", all)
	if all.keys < 200000 || all.sorted < 50 || all.row1 < 5000 || all.row2 < 200000 || all.large < 50 || all.sums < 5 || all.jobs < 3000 || all.docs < 50 {
		t.Errorf("too little was compared: %+v", all)
	}
}

// twin compares one recording's rows.
type twin struct {
	shapes
	tally
	tables map[*schema.TableInfo]*event.Table
	sort   encode.Sorter
}

func (tw *twin) check(c change) error {
	physicalID, handle, _ := mount.ParseRecordKey(c.key)
	v, ok := tw.at(physicalID, c.commitTS)
	if !ok {
		return fmt.Errorf("no table has the physical id %d", physicalID)
	}
	table := tw.tables[v.info]
	if table == nil {
		db := tw.databases[v.db]
		if db == nil {
			return fmt.Errorf("no database has the id %d", v.db)
		}
		var err error
		if table, err = v.info.Table(db, nil); err != nil {
			return err
		}
		tw.tables[v.info] = table
	}
	compared := false
	for _, value := range [][]byte{c.value, c.old} {
		if len(value) == 0 {
			continue
		}
		row, err := mount.Row(&event.RawKV{Op: event.Put, Key: c.key, Value: value, CommitTS: c.commitTS}, table)
		if err != nil {
			return err
		}
		values, err := typed(table, row.After)
		if err != nil {
			return err
		}
		if err := tw.checkKey(table, physicalID, handle, values); err != nil {
			return err
		}
		compared = true
		if err := tw.checkRow(c.key, handle, value, row, values); err != nil {
			return fmt.Errorf("%s: %w", table.FullName(), err)
		}
		if physicalID == mount.JobTableID || physicalID == mount.HistoryTableID {
			tw.jobs++
		}
	}
	if !compared {
		return tw.checkBareKey(table, physicalID, handle)
	}
	return nil
}

func (tw *twin) checkKey(table *event.Table, physicalID int64, handle []byte, values []encode.Value) error {
	got := encode.IntHandle(int64(binary.BigEndian.Uint64(handle) ^ 1<<63))
	var err error
	if table.Handle.Kind != event.RowIDHandle {
		got, err = encode.Handle(table, values, tw.sort)
	}
	if err != nil || string(got) != string(handle) {
		return fmt.Errorf("table %s: handle %x, %w; want %x", table.FullName(), got, err, handle)
	}
	if key := encode.RecordKey(physicalID, got); !strings.HasSuffix(string(key), string(handle)) {
		return fmt.Errorf("key %x of handle %x", key, handle)
	}
	tw.keys++
	for _, p := range table.Handle.Parts {
		if strings.HasSuffix(table.Columns[p.Column].Collation, "_ci") {
			tw.sorted++
		}
	}
	return nil
}

// checkBareKey compares a key whose row nothing is known of: strings in it may
// be sort keys, so they are taken as they are.
func (tw *twin) checkBareKey(table *event.Table, physicalID int64, handle []byte) error {
	parts, err := mount.ParseHandle(handle, table)
	if err != nil {
		return err
	}
	got := encode.IntHandle(parts[0].Int())
	if table.Handle.Kind == event.CommonHandle {
		cells := make([]encode.Part, len(parts))
		for i, p := range table.Handle.Parts {
			c := &table.Columns[p.Column]
			cells[i] = encode.Part{Column: c, Length: event.FullLength}
			if cells[i].Value, err = typedValue(c, parts[i]); err != nil {
				return err
			}
		}
		if got, err = encode.CommonHandle(cells, encode.Plain{}); err != nil {
			return err
		}
	}
	if want := encode.RecordKey(physicalID, handle); string(encode.RecordKey(physicalID, got)) != string(want) {
		return fmt.Errorf("table %s: handle %x, want %x", table.FullName(), got, handle)
	}
	tw.keys++
	return nil
}

func (tw *twin) checkRow(key, handle, value []byte, row *event.Row, values []encode.Value) error {
	ids, sum, err := anatomy(value)
	if err != nil {
		return err
	}
	document := false
	cells := make([]encode.Cell, len(ids))
	for i, id := range ids {
		at := slices.IndexFunc(row.Table.Columns, func(c event.Column) bool { return c.ID == id })
		if at < 0 {
			return fmt.Errorf("no column has the id %d", id)
		}
		cells[i] = encode.Cell{Column: &row.Table.Columns[at], Value: values[at]}
		document = document || row.Table.Columns[at].Type == event.TypeJSON && values[at] != nil
	}
	var got []byte
	if value[0] != 0x80 {
		tw.row1++
		got, err = encode.Row1(cells)
	} else {
		tw.row2++
		switch sum {
		case encode.OverKey:
			got, err = encode.Row2(cells, encode.Checksum{Kind: sum, Tail: key})
		default:
			got, err = encode.Row2(cells, encode.Checksum{Kind: sum, Tail: handle})
		}
		tw.large += int(value[1] & 1)
		tw.sums += int(value[1] >> 1 & 1)
	}
	switch {
	case err != nil:
		return err
	case string(got) == string(value):
		if document {
			tw.docs, tw.sameDocs = tw.docs+1, tw.sameDocs+1
		}
		return nil
	case !document:
		return fmt.Errorf("encoded %x, want %x", got, value)
	}
	tw.docs++
	return sameDecoded(row, key, got)
}

// sameDecoded compares rows with JSON cells: those by their text, all others
// by their bytes.
func sameDecoded(row *event.Row, key, encoded []byte) error {
	back, err := mount.Row(&event.RawKV{Op: event.Put, Key: key, Value: encoded}, row.Table)
	if err != nil {
		return err
	}
	for i := range row.After {
		c := &row.Table.Columns[i]
		same := back.After[i].Equal(row.After[i])
		if c.Type == event.TypeJSON {
			same = back.After[i].IsText(c) == row.After[i].IsText(c) && back.After[i].Text(c) == row.After[i].Text(c)
		}
		if !same {
			return fmt.Errorf("column %s came back as %s, was %s", c.Name, back.After[i].Text(c), row.After[i].Text(c))
		}
	}
	return nil
}

// anatomy reads which column ids a row holds, in its own order, and which kind
// of checksum it ends with.
func anatomy(value []byte) (ids []int64, sum encode.ChecksumKind, err error) {
	if value[0] != 0x80 {
		for rest := value; len(rest) > 0 && rest[0] == 0x08; {
			id, n := binary.Varint(rest[1:])
			ids = append(ids, id)
			if rest, err = skipRow1(rest[1+n:]); err != nil {
				return nil, 0, err
			}
		}
		return ids, encode.NoChecksum, nil
	}
	count := int(binary.LittleEndian.Uint16(value[2:])) + int(binary.LittleEndian.Uint16(value[4:]))
	for i := range count {
		if value[1]&1 != 0 {
			ids = append(ids, int64(binary.LittleEndian.Uint32(value[6+4*i:])))
		} else {
			ids = append(ids, int64(value[6+i]))
		}
	}
	if value[1]&2 != 0 {
		sum = encode.ChecksumKind(value[len(value)-5]&7) + encode.OverCells
	}
	return ids, sum, nil
}

// skipRow1 skips one value of row format 1.
func skipRow1(b []byte) ([]byte, error) {
	flag, b := b[0], b[1:]
	size := 0
	var err error
	switch flag {
	case 0x00:
	case 0x02:
		n, used := binary.Varint(b)
		size = used + int(n)
	case 0x05:
		size = 8
	case 0x08, 0x09:
		_, size = binary.Uvarint(b)
	case 0x06:
		var rest []byte
		_, rest, err = event.CutDecimal(b)
		size = len(b) - len(rest)
	case 0x0a:
		var rest []byte
		_, rest, err = event.CutJSON(b)
		size = len(b) - len(rest)
	case 0x14:
		size = 4 + 4*int(binary.LittleEndian.Uint32(b))
	default:
		err = fmt.Errorf("flag %#x in a row of format 1", flag)
	}
	if err != nil {
		return nil, err
	}
	return b[size:], nil
}

// typed turns a row as decoded into what is to be encoded, by way of text
// wherever text says all.
func typed(table *event.Table, image event.Image) ([]encode.Value, error) {
	out := make([]encode.Value, len(image))
	for i, v := range image {
		var err error
		if out[i], err = typedValue(&table.Columns[i], v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func typedValue(c *event.Column, v event.Value) (encode.Value, error) {
	switch v.Kind() {
	case event.Null, event.Missing:
		return nil, nil
	case event.Bytes:
		return v.Raw(), nil
	case event.Float: // FLOAT's text has six digits where it has an exponent
		return v.Float(), nil
	case event.Bit: // its text is bytes
		return v.Uint(), nil
	case event.Enum, event.Set: // a member may be called like another one's number, or be empty
		return v.Uint(), nil
	case event.Vector:
		raw := v.Raw()
		out := make([]float32, binary.LittleEndian.Uint32(raw))
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4+4*i:]))
		}
		return out, nil
	case event.Duration:
		if c.Decimal < 6 { // text with fewer digits still says all: TiDB rounds when it writes
			return encode.Parse(c, v.Text(c))
		}
		return time.Duration(v.Int()), nil
	}
	return encode.Parse(c, v.Text(c))
}
