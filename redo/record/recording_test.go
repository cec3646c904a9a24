package record_test

import (
	"errors"
	"io"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/redo/redotest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func packer(t testing.TB, c record.Codec) *record.Packer {
	t.Helper()
	p, err := record.NewPacker(c)
	must(t, err)
	return p
}

func unpacker(t testing.TB) *record.Unpacker {
	t.Helper()
	u, err := record.NewUnpacker()
	must(t, err)
	return u
}

// entries reads a file to its end.
func entries(t testing.TB, name string, data []byte) (*record.File, []record.Entry) {
	t.Helper()
	f, err := record.Open(name, data, unpacker(t))
	must(t, err)
	var out []record.Entry
	for {
		e, err := f.Next()
		if errors.Is(err, io.EOF) {
			return f, out
		}
		must(t, err)
		out = append(out, e)
	}
}

// Every recording comes back from the log as the rows, transactions and DDLs that
// went in: with all that a sink can ask of them.
func TestRecordingsComeBack(t *testing.T) {
	rows, ddls := 0, 0
	for i, path := range golden.Recordings(t) {
		t.Run(golden.Name(t, path), func(t *testing.T) {
			rec := redotest.Load(t, path)
			codec := record.Codec(i % 3)
			r, d := comesBack(t, rec, codec)
			rows, ddls = rows+r, ddls+d
		})
	}
	t.Logf("%d rows, %d DDLs", rows, ddls)
	if rows < 20_000 || ddls < 500 {
		t.Errorf("%d rows and %d DDLs: the recordings have more", rows, ddls)
	}
}

func comesBack(t *testing.T, rec *redotest.Recording, codec record.Codec) (rows, ddls int) {
	t.Helper()
	b, d := record.NewBuilder(record.Rows), record.NewBuilder(record.DDLs)
	for _, c := range rec.Changes {
		b.Change(c.Raw, c.Table)
	}
	for _, ddl := range rec.DDLs {
		d.DDL(ddl)
	}
	head := record.Head{Cluster: 7, Namespace: "default", Changefeed: "f", Incarnation: "i", Writer: "w1", Run: 1, Number: 3, BeforeMax: 6, Program: "test"}
	if !b.Empty() {
		name, data, err := b.Encode(head, packer(t, codec))
		must(t, err)
		f, got := entries(t, name.String(), data)
		head.Kind = record.Rows
		if f.Head != head || len(got) != len(rec.Changes) || f.End.Max != name.Max || f.End.Min != name.Min {
			t.Fatalf("head %+v, %d of %d changes, end %+v", f.Head, len(got), len(rec.Changes), f.End)
		}
		for i, e := range got {
			want := rec.Changes[i]
			if !same(e.Raw, want.Raw) || !redotest.Equal(e.Table, want.Table) {
				t.Fatalf("change %d of %s came back as another", i, want.Table.FullName())
			}
			sameRow(t, e, want)
		}
	}
	if !d.Empty() {
		name, data, err := d.Encode(head, packer(t, codec))
		must(t, err)
		_, got := entries(t, name.String(), data)
		for i, e := range got {
			if !redotest.Equal(e.DDL, rec.DDLs[i]) {
				t.Fatalf("DDL %d\n got %+v\nwant %+v", i, e.DDL, rec.DDLs[i])
			}
		}
		ddls = len(got)
	}
	return len(rec.Changes), ddls
}

// same is equality of changes: no bytes and none are the same.
func same(a, b *event.RawKV) bool {
	return a.Op == b.Op && a.StartTS == b.StartTS && a.CommitTS == b.CommitTS &&
		string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value) && string(a.Old) == string(b.Old)
}

// sameRow mounts both and holds them to each other.
func sameRow(t *testing.T, got record.Entry, want redotest.Change) {
	t.Helper()
	a, err := mount.Row(got.Raw, got.Table)
	must(t, err)
	b, err := mount.Row(want.Raw, want.Table)
	must(t, err)
	if (a == nil) != (b == nil) {
		t.Fatalf("one of both is no row")
	}
	if a == nil {
		return
	}
	a.Table, a.Raw, b.Table, b.Raw = nil, nil, nil, nil // held to each other above
	if !redotest.Equal(a, b) {
		t.Fatalf("\n got %+v\nwant %+v", a, b)
	}
}
