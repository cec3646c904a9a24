package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// TestTallyIsASortedList holds the tally against a list that is sorted each time.
func TestTallyIsASortedList(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	clever := newTally()
	var dumb []tso.TS
	for n := range 20_000 {
		ts := tso.TS(n/10 + rng.IntN(40))
		if len(dumb) > 0 && rng.IntN(100) < 49 {
			i := rng.IntN(len(dumb))
			clever.remove(dumb[i])
			dumb = slices.Delete(dumb, i, i+1)
		} else {
			clever.add(ts)
			dumb = append(dumb, ts)
		}
		want := tso.Max
		if len(dumb) > 0 {
			want = slices.Min(dumb)
		}
		if n%7 == 0 && clever.min() != want {
			t.Fatalf("after %d changes: %d, want %d", n, clever.min(), want)
		}
		if most := 2*len(clever.count) + slack + 1; len(clever.least) > most {
			t.Fatalf("after %d changes: %d values in the heap, at most %d", n, len(clever.least), most)
		}
	}
}

// TestListsMeet holds meet against looking at every pair.
func TestListsMeet(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	list := func() []int64 {
		out := make([]int64, rng.IntN(5))
		for i := range out {
			out[i] = rng.Int64N(12)
		}
		slices.Sort(out)
		return out
	}
	for range 5000 {
		a, b := list(), list()
		if want := slices.ContainsFunc(a, func(x int64) bool { return slices.Contains(b, x) }); meet(a, b) != want {
			t.Fatalf("%v and %v: want %v", a, b, want)
		}
	}
}
