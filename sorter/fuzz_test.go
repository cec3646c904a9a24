package sorter

import (
	"bytes"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// FuzzStored reads what is on disk, whatever is there: a row or a prewrite that
// would be stored so, or none.
func FuzzStored(f *testing.F) {
	head := bytes.Repeat([]byte{1}, headLen)
	for _, r := range []event.RawKV{
		{Op: event.Put, Key: []byte("k"), Value: []byte("value"), Old: []byte("old")}, {Op: event.Delete, Key: []byte("k"), Old: []byte("old")},
		{Op: event.Put, Key: []byte("k"), Value: make([]byte, 300)},
	} {
		f.Add(append(bytes.Clone(head), r.Key...), appendRow(nil, &r))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		memory := make([]byte, 0, len(key)+len(value))
		before := &memory
		if r, ok := parseRow(before, key, value); ok {
			again, ok := parseRow(before, key, appendRow(nil, &r))
			if !ok || !bytes.Equal(again.Value, r.Value) || !bytes.Equal(again.Old, r.Old) || again.Op != r.Op {
				t.Fatalf("%X is %+v, which is %+v", value, r, again)
			}
			if len(r.Value)+len(r.Old) > len(value) {
				t.Fatalf("%d bytes became %d", len(value), len(r.Value)+len(r.Old))
			}
		}
		if p, ok := parsePrewrite(value); ok && len(p.Value)+len(p.Old) > len(value) {
			t.Fatalf("%d bytes became %d", len(value), len(p.Value)+len(p.Old))
		}
	})
}
