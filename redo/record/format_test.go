package record_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/redo/redotest"
	"github.com/sluice-cdc/sluice/tso"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/v1 anew")

// filled sets every field of a struct to something that is not zero: a field that
// was added to it and is not in the format does not come back.
func filled(v reflect.Value, seed *int) {
	*seed++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*seed%7 + 1))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*seed%2 + 1))
	case reflect.String:
		v.SetString("s\xff" + string(rune('a'+*seed%26)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), seed)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 9, 9))
		for i := range v.Len() {
			filled(v.Index(i), seed)
		}
	case reflect.Struct:
		if value, ok := v.Addr().Interface().(*event.Value); ok {
			*value = [...]event.Value{
				event.NullValue(), event.IntValue(-1), event.UintValue(1 << 63), event.FloatValue(-0.5), event.BytesValue([]byte("a\x00")),
				event.TimeValue(1 << 40), event.DurationValue(-5), event.EnumValue(2), event.SetValue(3), event.BitValue(9),
				event.VectorOf([]float32{1}), event.JSONValue([]byte{4, 1}),
			}[*seed%12]
			return
		}
		for i := range v.NumField() {
			filled(v.Field(i), seed)
		}
	}
}

func fullTable(seed int) *event.Table {
	t := &event.Table{}
	filled(reflect.ValueOf(t).Elem(), &seed)
	return t
}

func fullDDL() *event.DDL {
	d, seed := &event.DDL{}, 5
	filled(reflect.ValueOf(d).Elem(), &seed)
	return d
}

// Whatever a table or a DDL can say is in the log.
func TestEveryFieldComesBack(t *testing.T) {
	table, ddl := fullTable(0), fullDDL()
	b := record.NewBuilder(record.Rows)
	raw := &event.RawKV{Op: event.Delete, StartTS: 4, CommitTS: 5, Key: []byte("k"), Old: []byte("o")}
	b.Change(raw, table)
	b.DDL(ddl)
	name, data, err := b.Encode(record.Head{Writer: "w", Number: 1}, packer(t, record.Plain))
	must(t, err)
	f, got := entries(t, name.String(), data)
	if len(got) != 2 || !redotest.Equal(got[0].Table, table) || !redotest.Equal(got[1].DDL, ddl) {
		t.Fatalf("%+v", got)
	}
	if !same(got[0].Raw, raw) {
		t.Errorf("%+v", got[0].Raw)
	}
	if _, err := f.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if f.End.Rows != 1 || f.End.DDLs != 1 || got[1].TS() != ddl.SwitchTS {
		t.Errorf("%+v", f.End)
	}
}

// sample is a file as the document shows it.
func sample(t testing.TB, codec record.Codec) (record.Name, []byte) {
	t.Helper()
	def := "7"
	table := &event.Table{
		ID: 5, SchemaID: 2, Schema: "d", Name: "t", Charset: "utf8mb4", Collation: "utf8mb4_bin", Version: 9,
		Columns: []event.Column{
			{ID: 1, Name: "a", Type: event.TypeLong, Flag: event.FlagNotNull | event.FlagPriKey, Flen: 11, Charset: "binary", Collation: "binary", Absent: event.IntValue(0)},
			{ID: 2, Name: "b", Type: event.TypeLong, Flen: 11, Charset: "binary", Collation: "binary", Default: &def, Absent: event.NullValue()},
		},
		Indexes: []event.Index{{Name: "PRIMARY", Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}, Unique: true, Primary: true}},
		Handle:  event.Handle{Kind: event.IntHandle, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		Key:     []int{0},
	}
	b := record.NewBuilder(record.Rows)
	for i := range 3 {
		raw := &event.RawKV{Op: event.Put, StartTS: 100, CommitTS: 101, Key: []byte{'k', byte(i)}, Value: []byte("valuevaluevaluevaluevalue"), Old: []byte{byte(i)}}
		if i == 2 {
			raw.Op, raw.CommitTS, raw.Value = event.Delete, 102, nil
		}
		b.Change(raw, table)
	}
	h := record.Head{Cluster: 42, Namespace: "default", Changefeed: "orders", Incarnation: "1-a", Writer: "w1", Run: 1, Number: 2, BeforeMax: 99, Program: "sluice"}
	name, data, err := b.Encode(h, packer(t, codec))
	must(t, err)
	return name, data
}

func sampleMeta() *record.Meta {
	return &record.Meta{
		Version: 1, Cluster: 42, Namespace: "default", Changefeed: "orders", Incarnation: "1-a", Number: 7, Owner: 33, Life: 1,
		Checkpoint: 100, Resolved: 102, Writers: []record.Extent{{Writer: "d1", Kind: record.DDLs, Files: 1, Max: 101}, {Writer: "w1", Kind: record.Rows, Files: 2, Max: 102}},
	}
}

// What version 1 wrote is in testdata and can be read for ever; it is also what is
// written today, but where a compressor has changed its mind.
func TestGolden(t *testing.T) {
	for _, codec := range []record.Codec{record.Plain, record.LZ4, record.Zstd} {
		name, data := sample(t, codec)
		path := filepath.Join("testdata", "v1", codec.String()+".redo")
		keep(t, path, data)
		kept, err := os.ReadFile(path)
		must(t, err)
		if codec == record.Plain && string(kept) != string(data) {
			t.Errorf("%s: what is written now differs: a change of the format needs a version", path)
		}
		f, got := entries(t, path, kept)
		if len(got) != 3 || got[2].Raw.Op != event.Delete || got[0].Table.Columns[1].Name != "b" || f.Head.Changefeed != "orders" {
			t.Errorf("%s: %+v", path, got)
		}
		if name.String() != "rows/00000000000000000102-00000000000000000101-w1-000001-0000000002.redo" {
			t.Error(name)
		}
	}
	data, err := sampleMeta().Encode()
	must(t, err)
	path := filepath.Join("testdata", "v1", "meta.json")
	keep(t, path, data)
	kept, err := os.ReadFile(path)
	must(t, err)
	m, err := record.ParseMeta(path, kept)
	must(t, err)
	if string(kept) != string(data) || !redotest.Equal(m, sampleMeta()) {
		t.Errorf("%+v\n%s\n%s", m, kept, data)
	}
}

func keep(t *testing.T, path string, data []byte) {
	t.Helper()
	if *rewrite {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, data, 0o644))
	}
}

// The document shows the bytes that are written.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "redo.md"))
	must(t, err)
	_, data := sample(t, record.Plain)
	if !strings.Contains(string(doc), hex.Dump(data)) {
		t.Errorf("docs/format/redo.md does not show\n%s", hex.Dump(data))
	}
	meta, err := sampleMeta().Encode()
	must(t, err)
	if !strings.Contains(string(doc), string(meta)) {
		t.Errorf("docs/format/redo.md does not show\n%s", meta)
	}
}

// A file that ends too soon is one that says so, wherever it ends.
func TestTorn(t *testing.T) {
	for _, codec := range []record.Codec{record.Plain, record.LZ4, record.Zstd} {
		_, data := sample(t, codec)
		for n := range len(data) {
			if err := readAll(data[:n]); !cdcerr.RedoTorn.Is(err) {
				t.Fatalf("%v, the first %d of %d bytes: %v", codec, n, len(data), err)
			}
		}
	}
	meta, err := sampleMeta().Encode()
	must(t, err)
	for n := range len(meta) {
		if _, err := record.ParseMeta("m", meta[:n]); !cdcerr.RedoTorn.Is(err) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(meta), err)
		}
	}
}

// Not one bit of a file can be another one and be read.
func TestDamaged(t *testing.T) {
	damaged := func(data []byte, read func([]byte) error) {
		t.Helper()
		for bit := range len(data) * 8 {
			data[bit/8] ^= 1 << (bit % 8)
			err := read(data)
			if code := cdcerr.Of(err); code != cdcerr.RedoCorrupted && code != cdcerr.RedoTorn && code != cdcerr.RedoVersion {
				t.Fatalf("bit %d of %d bytes: %v", bit, len(data), err)
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
	}
	for _, codec := range []record.Codec{record.Plain, record.LZ4, record.Zstd} {
		_, data := sample(t, codec)
		damaged(data, readAll)
		if err := readAll(append(data, 0)); !cdcerr.RedoTorn.Is(err) && !cdcerr.RedoCorrupted.Is(err) {
			t.Errorf("a byte more: %v", err)
		}
	}
	meta, err := sampleMeta().Encode()
	must(t, err)
	damaged(meta, func(data []byte) error { _, err := record.ParseMeta("m", data); return err })
}

func readAll(data []byte) error {
	u, err := record.NewUnpacker()
	if err != nil {
		return err
	}
	f, err := record.Open("f", data, u)
	for err == nil {
		_, err = f.Next()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestNewerVersions(t *testing.T) {
	_, data := sample(t, record.Plain)
	data[7] = record.Version + 1
	if err := readAll(data); !cdcerr.RedoVersion.Is(err) {
		t.Error(err)
	}
	m := sampleMeta()
	m.Version++
	text, err := m.Encode()
	must(t, err)
	if _, err := record.ParseMeta("m", text); !cdcerr.RedoVersion.Is(err) {
		t.Error(err)
	}
}

// Names sort by the timestamp up to which the file goes, and come back.
func TestNames(t *testing.T) {
	n := record.Name{Kind: record.DDLs, Min: 5, Max: 1 << 63, Writer: "abc09", Run: 1, Number: 12}
	back, err := record.ParseName(n.String())
	if err != nil || back != n {
		t.Errorf("%+v %v", back, err)
	}
	good := n.String()
	for _, bad := range []string{
		"", "rows", "rows/", good[4:], "x" + good, good + "x", strings.Replace(good, "abc09", "ABC", 1), strings.Replace(good, "-000001-", "-1-", 1),
		strings.Replace(good, "0000000012", "0000000000", 1), strings.Replace(good, "ddls", "meta", 1), strings.Replace(good, "-abc09", "--1", 1),
	} {
		if n, err := record.ParseName(bad); !cdcerr.RedoCorrupted.Is(err) {
			t.Errorf("%q: %+v %v", bad, n, err)
		}
	}
	if number, err := record.ParseMetaName(record.MetaName(77)); err != nil || number != 77 {
		t.Error(number, err)
	}
	for _, bad := range []string{"meta/7.json", "meta/000000000007.jso", "meta/x", ""} {
		if _, err := record.ParseMetaName(bad); !cdcerr.RedoCorrupted.Is(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Large content is cut into blocks, and comes back from all codecs.
func TestBlocks(t *testing.T) {
	for _, codec := range []record.Codec{record.Plain, record.LZ4, record.Zstd} {
		b := record.NewBuilder(record.Rows)
		for i := range 300 {
			b.Change(&event.RawKV{Op: event.Put, CommitTS: tso.TS(i + 2), StartTS: 1, Key: []byte("k"), Value: []byte(strings.Repeat("v", 9000))}, &event.Table{ID: 1})
		}
		if b.Bytes() < 2_700_000 {
			t.Error(b.Bytes())
		}
		name, data, err := b.Encode(record.Head{Writer: "w", Number: 1}, packer(t, codec))
		must(t, err)
		f, got := entries(t, name.String(), data)
		if len(got) != 300 || f.End.Blocks < 5 || codec != record.Plain && len(data) > 100_000 {
			t.Errorf("%v: %d entries, %+v, %d bytes", codec, len(got), f.End, len(data))
		}
	}
	if _, err := record.ParseCodec("snappy"); !cdcerr.RedoConfigInvalid.Is(err) {
		t.Error(err)
	}
}

func FuzzFile(f *testing.F) {
	for _, codec := range []record.Codec{record.Plain, record.LZ4, record.Zstd} {
		_, data := sample(f, codec)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = record.Resealed(data)
		err := readAll(data)
		if code := cdcerr.Of(err); err != nil && code != cdcerr.RedoCorrupted && code != cdcerr.RedoTorn && code != cdcerr.RedoVersion {
			t.Fatal(err)
		}
	})
}

func FuzzMeta(f *testing.F) {
	data, err := sampleMeta().Encode()
	must(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := record.ParseMeta("m", data)
		if err != nil {
			if code := cdcerr.Of(err); code != cdcerr.RedoCorrupted && code != cdcerr.RedoTorn && code != cdcerr.RedoVersion {
				t.Fatal(err)
			}
			return
		}
		again, err := m.Encode()
		must(t, err)
		if back, err := record.ParseMeta("m", again); err != nil || !redotest.Equal(m, back) {
			t.Fatalf("%v: %+v, then %+v", err, m, back)
		}
	})
}
