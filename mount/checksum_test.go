package mount_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
)

// sample is a table of two integers and a string, and a row of it.
func sample() (*event.Table, *event.RawKV) {
	table := &event.Table{
		ID: 77, Schema: "shop", Name: "orders",
		Columns: []event.Column{
			{ID: 3, Name: "note", Type: event.TypeVarchar, Flen: 20, Charset: "utf8mb4", Absent: event.NullValue()},
			{ID: 1, Name: "id", Type: event.TypeLonglong, Flag: event.FlagNotNull | event.FlagPriKey},
			{ID: 2, Name: "n", Type: event.TypeLong, Absent: event.NullValue()},
		},
		Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 1, Length: event.FullLength}}},
	}
	key := append([]byte("t\x80\x00\x00\x00\x00\x00\x00\x4d_r"), "\x80\x00\x00\x00\x00\x00\x00\x05"...)
	value := []byte("\x80\x00\x02\x00\x00\x00\x02\x03\x01\x00\x03\x00\x09hi")
	return table, &event.RawKV{Op: event.Put, StartTS: 1, CommitTS: 2, Key: key, Value: value}
}

// withChecksum is value with the trailer of bytes that a version computes.
func withChecksum(value []byte, header byte, sums ...uint32) []byte {
	out := append(bytes.Clone(value), header)
	out[1] |= 0x02
	for _, s := range sums {
		out = binary.LittleEndian.AppendUint32(out, s)
	}
	return out
}

func TestChecksumVersions(t *testing.T) {
	table, raw := sample()
	plain := raw.Value
	head := withChecksum(plain, 1)
	overKey := crc32.ChecksumIEEE(append(head, raw.Key...))
	head = withChecksum(plain, 2)
	overHandle := crc32.ChecksumIEEE(append(head, raw.Key[11:]...))
	// id 5, n 9, note 'hi', by column id and not by place
	overColumns := crc32.ChecksumIEEE([]byte("\x05\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00hi"))
	for name, tt := range map[string]struct {
		header byte
		sums   []uint32
		want   *cdcerr.Code
	}{
		"over the columns":                 {0, []uint32{overColumns}, nil},
		"the extra one matches":            {8, []uint32{1, overColumns}, nil},
		"the first of two matches":         {8, []uint32{overColumns, 1}, nil},
		"none matches the columns":         {8, []uint32{1, 2}, cdcerr.ChecksumMismatch},
		"not over the columns":             {0, []uint32{overColumns + 1}, cdcerr.ChecksumMismatch},
		"over the key":                     {1, []uint32{overKey}, nil},
		"not over the key":                 {1, []uint32{overHandle}, cdcerr.ChecksumMismatch},
		"over the handle":                  {2, []uint32{overHandle}, nil},
		"not over the handle":              {2, []uint32{overKey}, cdcerr.ChecksumMismatch},
		"a version of the future":          {3, []uint32{overHandle}, cdcerr.CorruptRow},
		"no checksum after its header":     {2, nil, cdcerr.CorruptRow},
		"one checksum instead of two":      {8, []uint32{overColumns}, cdcerr.CorruptRow},
		"two checksums instead of one":     {0, []uint32{overColumns, 1}, cdcerr.CorruptRow},
		"a header with bits of no meaning": {0x40, []uint32{overColumns}, cdcerr.CorruptRow},
	} {
		raw.Value = withChecksum(plain, tt.header, tt.sums...)
		_, err := mount.Row(raw, table)
		if (err != nil) != (tt.want != nil) || (err != nil && !tt.want.Is(err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A column's absence adds nothing to a checksum over columns, whatever default
// the schema has for it; columns of which only the value knows make it unproven.
func TestChecksumOverColumnsAcrossSchemas(t *testing.T) {
	table, raw := sample()
	plain := raw.Value
	over := crc32.ChecksumIEEE([]byte("\x05\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00hi"))
	table.Columns = append(table.Columns, event.Column{ID: 9, Name: "later", Type: event.TypeLong, Absent: event.IntValue(42), HasOrigin: true})
	raw.Value = withChecksum(plain, 0, over)
	row, err := mount.Row(raw, table)
	if err != nil || row.After[3].Int() != 42 {
		t.Fatal(row, err)
	}
	table.Columns = append([]event.Column(nil), table.Columns[1:]...) // note is being dropped
	table.Handle.Parts = []event.IndexPart{{Column: 0, Length: event.FullLength}}
	if _, err := mount.Row(raw, table); err != nil {
		t.Errorf("a row with a column that the table does not show: %v", err)
	}
	// As a value before a change it may be from the time of other types.
	table, raw = sample()
	raw.Op, raw.Value, raw.Old = event.Delete, nil, withChecksum(plain, 0, over+1)
	if row, err := mount.Row(raw, table); err != nil || row.Kind() != event.DeleteRow {
		t.Errorf("%v %v", row, err)
	}
}

// Every recorded row that carries a checksum matches it, and no other value of
// any of its bytes, nor of any byte of its handle, does.
func TestEveryDamagedByteOfARecordedChecksummedRowShows(t *testing.T) {
	rows, flips := 0, 0
	for _, name := range golden.Recordings(t) {
		if !strings.HasSuffix(name, "08_txn") { // the only ones with checksums on
			continue
		}
		eachRow(t, name, func(raw *event.RawKV, table *event.Table) {
			if table == nil || len(raw.Value) < 2 || raw.Value[0] != 0x80 || raw.Value[1]&0x02 == 0 {
				return
			}
			rows++
			one := event.RawKV{Op: event.Put, Key: bytes.Clone(raw.Key), Value: bytes.Clone(raw.Value)}
			if _, err := mount.Row(&one, table); err != nil {
				t.Fatal(err)
			}
			for _, b := range [][]byte{one.Value, one.Key[11:]} {
				for i, was := range b {
					for x := 1; x < 256; x++ {
						b[i] = was ^ byte(x)
						flips++
						_, err := mount.Row(&one, table)
						if err == nil {
							t.Errorf("%s: byte %d of %X from %02X to %02X goes unseen", name, i, b, was, b[i])
						} else if cdcerr.Of(err) == nil {
							t.Errorf("no code: %v", err)
						}
					}
					b[i] = was
				}
			}
		})
	}
	t.Logf("%d rows, %d damages", rows, flips)
	if rows == 0 {
		t.Fatal("no recorded row carries a checksum")
	}
}
