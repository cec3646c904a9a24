package verify

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// The parts of a record key: an optional keyspace ('x' and three bytes), the
// letter t, the physical id, "_r", the handle.
const (
	keyspacePrefix = 4
	tablePrefix    = 1 + 8 + 2
)

// handleOf is what a record key has after its table's prefix.
func handleOf(key []byte) []byte {
	key = withoutKeyspace(key)
	if len(key) < tablePrefix {
		return nil
	}
	return key[tablePrefix:]
}

func withoutKeyspace(key []byte) []byte {
	if len(key) > keyspacePrefix && key[0] == 'x' {
		return key[keyspacePrefix:]
	}
	return key
}

// rowID prints the hidden row id of a key.
func rowID(key []byte) Cell {
	h := handleOf(key)
	if len(h) != 8 {
		return Text("bad handle " + strconv.Quote(string(h)))
	}
	return Text(strconv.FormatInt(int64(binary.BigEndian.Uint64(h)^(1<<63)), 10))
}

// keyColumns are those columns of a row set that tell the table's rows apart:
// the hidden row id where it is printed, else the handle, else the table's key.
// Empty where one of them is missing, or computed by the reader.
func keyColumns(t *event.Table, columns []string) []int {
	if t.Handle.Kind == event.RowIDHandle {
		if i := slices.Index(columns, RowIDColumn); i >= 0 {
			return []int{i}
		}
		return columnsAt(t, t.Key, columns)
	}
	var at []int
	for _, p := range t.Handle.Parts {
		at = append(at, p.Column)
	}
	return columnsAt(t, at, columns)
}

func columnsAt(t *event.Table, of []int, columns []string) []int {
	var out []int
	for _, i := range of {
		if i < 0 || i >= len(t.Columns) || t.Columns[i].Generated == event.Virtual {
			return nil
		}
		at := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, t.Columns[i].Name) })
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}

// describeKey names a row for a message.
func describeKey(row *event.Row, image event.Image) string {
	t := row.Table
	var at []int
	for _, p := range t.Handle.Parts {
		if p.Column >= 0 && p.Column < len(image) {
			at = append(at, p.Column)
		}
	}
	if t.Handle.Kind == event.RowIDHandle {
		return RowIDColumn + "=" + rowID(row.Key).Text
	}
	names, cells := make([]string, len(at)), make([]Cell, len(at))
	for i, c := range at {
		names[i], cells[i] = t.Columns[c].Name, CellOf(image[c], &t.Columns[c])
	}
	return describe(names, cells)
}
