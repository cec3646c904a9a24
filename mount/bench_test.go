package mount_test

import (
	"fmt"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// wide is a table of n columns of mixed types with a row of about 20 bytes a
// column, updated.
func wide(t testing.TB, n int) (*event.Table, *event.RawKV) {
	t.Helper()
	table := &event.Table{
		ID: 7, Schema: "s", Name: "t", Columns: []event.Column{{ID: 1, Name: "id", Type: event.TypeLonglong}},
		Handle: event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Length: event.FullLength}}},
	}
	for i := 1; i < n; i++ {
		c := event.Column{ID: int64(i + 1), Name: fmt.Sprint("c", i), Charset: "utf8mb4", Flen: 64}
		c.Type = []event.Type{event.TypeLong, event.TypeVarchar, event.TypeDatetime, event.TypeNewDecimal, event.TypeDouble}[i%5]
		if c.Type == event.TypeNewDecimal {
			c.Flen, c.Decimal = 20, 4
		}
		table.Columns = append(table.Columns, c)
	}
	cells := make([]encode.Cell, n)
	for i := range cells[1:] {
		c := &table.Columns[i+1]
		text := map[event.Type]string{
			event.TypeLong: "123456", event.TypeVarchar: "some text of forty characters, or nearly", event.TypeDatetime: "2024-02-29 12:34:56",
			event.TypeNewDecimal: "1234567.8900", event.TypeDouble: "1.25",
		}[c.Type]
		v, err := encode.Parse(c, text)
		if err != nil {
			t.Fatal(err)
		}
		cells[i+1] = encode.Cell{Column: c, Value: v}
	}
	value, err := encode.Row2(cells[1:], encode.Checksum{})
	if err != nil {
		t.Fatal(err)
	}
	return table, &event.RawKV{Op: event.Put, StartTS: 1, CommitTS: 2, Key: encode.RecordKey(7, encode.IntHandle(9)), Value: value, Old: value}
}

// The budget of the hot path is two allocations a row, whatever its width.
func TestAllocationsPerRow(t *testing.T) {
	for _, n := range []int{1, 10, 100, 400, 1000} {
		table, raw := wide(t, n)
		m := mount.New()
		allocs := testing.AllocsPerRun(2000, func() {
			if _, err := m.Row(raw, table); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%d columns: %.2f allocations a row", n, allocs)
		if allocs > 2 {
			t.Errorf("%d columns: %.2f allocations a row", n, allocs)
		}
	}
}

func BenchmarkRow(b *testing.B) {
	for _, n := range []int{4, 20, 100} {
		b.Run(fmt.Sprintf("columns=%d", n), func(b *testing.B) {
			table, raw := wide(b, n)
			raw.Old = nil
			m := mount.New()
			b.SetBytes(int64(len(raw.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Row(raw, table); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkText prints a row, as a text writer does.
func BenchmarkText(b *testing.B) {
	table, raw := wide(b, 20)
	row, err := mount.Row(raw, table)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = buf[:0]
		for i, v := range row.After {
			buf = v.AppendText(buf, &table.Columns[i])
		}
	}
}
