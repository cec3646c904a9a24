package region_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// FuzzLocated takes PD's answers, whatever regions they list: with holes,
// overlaps, borders the wrong way round. Every key stays in one place (P2).
func FuzzLocated(f *testing.F) {
	for _, s := range []string{"am1mz2", "aa1am2mz3zz4", "am1lz2", "ma1", "a\x001\x00z2", "bb1", "mz1am2", "am1am1", "\x00\x001"} {
		f.Add([]byte(s), []byte("am1mz2"))
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		whole := span.Span{TableID: 1, Start: "b", End: "x"}
		tr := region.New(region.Config{Span: whole, StartTS: 1})
		for _, answer := range [][]byte{first, second} {
			tr.Tick(1 << 40)
			for _, sought := range tr.Ready().Reloads {
				tr.StepLocated(sought, listed(answer))
			}
			if err := tr.Check(); err != nil {
				t.Fatalf("%q, %q: %v", first, second, err)
			}
			for _, q := range tr.Ready().Requests {
				if q.Span.Start < whole.Start || q.Span.End == "" || q.Span.End > whole.End {
					t.Fatalf("%v is asked for, outside of %v", q.Span, whole)
				}
			}
			tr.StepFailure(region.Source{Region: 1}, region.Failure{Kind: region.NotFound})
		}
	})
}

// listed are regions of three bytes each: start, end, id; 0 for the ends of all
// keys, and for no leader.
func listed(b []byte) (out []region.Region) {
	key := func(c byte) span.Key {
		if c == 0 {
			return ""
		}
		return span.Key(rune(c))
	}
	for ; len(b) >= 3; b = b[3:] {
		out = append(out, region.Region{ID: uint64(b[2]), Version: uint64(b[2] % 8), Store: uint64(b[2] % 4),
			Span: span.Span{Start: key(b[0]), End: key(b[1])}})
	}
	return out
}
