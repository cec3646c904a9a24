package span_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

func TestEncodeKeyKeepsOrderAndComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "b")
		back, err := span.DecodeKey(span.EncodeKey(a))
		if err != nil || !bytes.Equal(back, a) {
			t.Fatalf("%x came back as %x, %v", a, back, err)
		}
		if (bytes.Compare(a, b) < 0) != (span.EncodeKey(a) < span.EncodeKey(b)) {
			t.Fatalf("order of %x and %x lost", a, b)
		}
	})
}

func TestEncodeKeyOfWholeGroupEndsWithAPaddedOne(t *testing.T) {
	want := "12345678\xff\x00\x00\x00\x00\x00\x00\x00\x00\xf7"
	if got := span.EncodeKey([]byte("12345678")); string(got) != want {
		t.Fatalf("%X", got)
	}
}

func TestDecodeKeyRefusesForeignBytes(t *testing.T) {
	for _, bad := range []string{"", "short", "12345678\x10", "1234567x\xfe", string(span.EncodeKey([]byte("a"))) + "z"} {
		if _, err := span.DecodeKey(span.Key(bad)); err == nil {
			t.Errorf("%x accepted", bad)
		}
	}
}

func TestTableSpanHoldsRowsOnly(t *testing.T) {
	s := span.OfTable(45)
	row := append(span.RecordPrefix(45), 0x80, 0, 0, 0, 0, 0, 0, 1)
	index := append(span.AppendInt([]byte{'t'}, 45), "_i1"...)
	next := span.RecordPrefix(46)
	if !s.Contains(span.EncodeKey(row)) || s.Contains(span.EncodeKey(index)) || s.Contains(span.EncodeKey(next)) {
		t.Fatal(s)
	}
}

// drawSpan draws over a small alphabet so that borders meet often.
func drawSpan(t *rapid.T) span.Span {
	a := rapid.IntRange(0, 9).Draw(t, "start")
	b := rapid.IntRange(a+1, 10).Draw(t, "end")
	s := span.Span{Start: key(a), End: key(b)}
	if b == 10 {
		s.End = ""
	}
	return s
}

func key(i int) span.Key { return span.Key(rune('a' + i)) }

func TestSetAgainstPlainKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set span.Set
		var plain [10]bool
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s, add := drawSpan(t), rapid.Bool().Draw(t, "add")
			if add {
				set.Add(s)
			} else {
				set.Remove(s)
			}
			for i := range plain {
				if s.Contains(key(i)) {
					plain[i] = add
				}
			}
		}
		spans := set.Spans()
		for i := range plain {
			in := slices.ContainsFunc(spans, func(s span.Span) bool { return s.Contains(key(i)) })
			if in != plain[i] {
				t.Fatalf("key %d: in set %v, want %v: %v", i, in, plain[i], spans)
			}
		}
		whole := span.Span{Start: key(0)}
		for _, m := range set.Missing(whole) {
			for i := range plain {
				if m.Contains(key(i)) && plain[i] {
					t.Fatalf("key %d reported missing", i)
				}
			}
		}
	})
}

func TestFrontierAgainstPlainKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := span.Span{TableID: 1, Start: key(0)}
		f := span.NewFrontier(whole, 5)
		plain := [10]tso.TS{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			s := drawSpan(t)
			ts := tso.TS(rapid.IntRange(1, 40).Draw(t, "ts"))
			before := slices.Min(plain[:])
			for i := range plain {
				if s.Contains(key(i)) {
					plain[i] = max(plain[i], ts)
				}
			}
			if rose := f.Forward(s, ts); rose != (slices.Min(plain[:]) > before) {
				t.Fatalf("rose = %v", rose)
			}
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
			if f.Min() != slices.Min(plain[:]) {
				t.Fatalf("min %d, want %d", f.Min(), slices.Min(plain[:]))
			}
			q := drawSpan(t)
			want := tso.Max
			for i := range plain {
				if q.Contains(key(i)) {
					want = min(want, plain[i])
				}
			}
			if got := f.MinOf(q); got != want {
				t.Fatalf("MinOf(%v) = %d, want %d", q, got, want)
			}
		}
	})
}
