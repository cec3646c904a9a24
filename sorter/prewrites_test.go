package sorter_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

var _ upstream.Memory = (*sorter.Prewrites)(nil)

func nameOf(e event.Prewrite) string { return fmt.Sprintf("%d/%s", e.StartTS, e.Key) }

// keeper is an account beside a list that is too simple to be wrong.
type keeper struct {
	p     *sorter.Prewrites
	sets  map[uint64][][]event.Prewrite
	taken map[string]bool // found once: not put away or asked for again
	count int
}

func (k *keeper) putAway(t *rapid.T) error {
	of := rapid.Uint64Range(1, 3).Draw(t, "of")
	var all []event.Prewrite
	size := int64(0)
	seen := map[string]bool{}
	for range rapid.IntRange(0, 20).Draw(t, "prewrites") {
		k.count++
		e := event.Prewrite{
			StartTS: tso.TS(rapid.IntRange(1, 4).Draw(t, "start")), Key: fmt.Appendf(nil, "k%d", rapid.IntRange(0, 9).Draw(t, "key")),
			Generation: rapid.Uint64Range(0, 2).Draw(t, "generation"), Value: fmt.Appendf(nil, "v%d", k.count),
		}
		if rapid.Bool().Draw(t, "old") {
			e.Old = bytes.Repeat([]byte{'o'}, rapid.IntRange(1, 300).Draw(t, "length"))
		}
		if !seen[nameOf(e)] && !k.taken[fmt.Sprint(of, nameOf(e))] {
			seen[nameOf(e)] = true
			size += int64(len(e.Key) + len(e.Value) + len(e.Old))
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b event.Prewrite) int {
		return bytes.Compare(fmt.Appendf(nil, "%d/%s", a.StartTS, a.Key), fmt.Appendf(nil, "%d/%s", b.StartTS, b.Key))
	})
	if err := k.p.PutAway(of, size, slices.Values(all)); err != nil {
		return err
	}
	k.sets[of] = append(k.sets[of], all)
	return nil
}

// takeBack asks for some that are there and some that are not.
func (k *keeper) takeBack(t *rapid.T) error {
	of := rapid.Uint64Range(1, 3).Draw(t, "of")
	var wanted []event.Prewrite
	for start := tso.TS(1); start < 5; start++ {
		for key := range 10 {
			e := event.Prewrite{StartTS: start, Key: fmt.Appendf(nil, "k%d", key)}
			if rapid.IntRange(0, 3).Draw(t, "this") == 0 && !k.taken[fmt.Sprint(of, nameOf(e))] {
				wanted = append(wanted, e)
			}
		}
	}
	got := map[string][]string{}
	err := k.p.TakeBack(of, wanted, func(i int, e event.Prewrite) {
		if nameOf(e) != nameOf(wanted[i]) {
			t.Fatalf("%s was found for %s", nameOf(e), nameOf(wanted[i]))
		}
		got[nameOf(e)] = append(got[nameOf(e)], fmt.Sprintf("%d %s %s", e.Generation, e.Value, e.Old))
	})
	if err != nil {
		return err
	}
	want := map[string][]string{}
	for n, set := range k.sets[of] {
		k.sets[of][n] = slices.DeleteFunc(set, func(e event.Prewrite) bool {
			asked := slices.ContainsFunc(wanted, func(w event.Prewrite) bool { return nameOf(w) == nameOf(e) })
			if asked {
				k.taken[fmt.Sprint(of, nameOf(e))] = true
				want[nameOf(e)] = append(want[nameOf(e)], fmt.Sprintf("%d %s %s", e.Generation, e.Value, e.Old))
			}
			return asked
		})
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("found %v, want %v", got, want)
	}
	return nil
}

func (k *keeper) drop(t *rapid.T) {
	of := rapid.Uint64Range(1, 3).Draw(t, "of")
	k.p.Drop(of)
	delete(k.sets, of)
}

// left is how many are away.
func (k *keeper) left() (n int) {
	for _, sets := range k.sets {
		for _, s := range sets {
			n += len(s)
		}
	}
	return n
}

// keep runs random acts on an account; once one has failed it is closed.
func keep(t *rapid.T, s *sorter.Sorter, faulty bool) {
	k := &keeper{p: s.NewPrewrites(), sets: map[uint64][][]event.Prewrite{}, taken: map[string]bool{}}
	for range rapid.IntRange(1, 30).Draw(t, "acts") {
		var err error
		switch n := rapid.IntRange(0, 9).Draw(t, "act"); {
		case n < 4:
			err = k.putAway(t)
		case n < 9:
			err = k.takeBack(t)
		default:
			k.drop(t)
		}
		if err != nil {
			if !faulty || !cdcerr.SorterIO.Is(err) && !cdcerr.DiskFull.Is(err) {
				t.Fatal(err)
			}
			break
		}
		if used := s.Used().Disk; used < 0 || (used == 0) != (k.left() == 0) {
			t.Fatalf("%d bytes on disk, %d prewrites are away", used, k.left())
		}
	}
	k.p.Close()
	if s.Used() != (sorter.Used{}) {
		t.Fatalf("%+v is left", s.Used())
	}
}

func TestPrewritesAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := small(t, vfs.NewMem())
		keep(t, s, false)
	})
}

func TestPrewritesWithFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &faults{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), one: rapid.IntRange(1, 100).Draw(t, "one in")}
		s, _ := small(t, errorfs.Wrap(rotten{vfs.NewMem(), f}, f))
		keep(t, s, true)
	})
}

// Prewrites count against the rows' quota; who holds most puts his away first.
func TestPrewritesShareTheQuota(t *testing.T) {
	s := openAt(t, t.TempDir(), 1<<30) // 20,000 bytes
	large, little := s.NewPrewrites(), s.NewPrewrites()
	little.Hold(1_000)
	large.Hold(3_900)
	if large.Excess() != 0 || little.Excess() != 0 {
		t.Fatal("a quarter of the quota is theirs")
	}
	large.Hold(200)
	if large.Excess() != 4_100 || little.Excess() != 0 {
		t.Fatalf("%d and %d should be put away", large.Excess(), little.Excess())
	}
	if used := s.Used().Lent; used != 5_100 {
		t.Fatalf("%d bytes are counted", used)
	}
	large.Hold(-4_100)
	little.Hold(4_500)
	if little.Excess() != 5_500 {
		t.Fatalf("%d should be put away", little.Excess())
	}
	in := newInput(s, 1, 100)
	read(t, s, in)
	for i := range tso.TS(20) {
		must(t, in.Add(context.Background(), rows(101+i, 1), 0))
		if used := s.Used(); used.Memory+used.Lent > 20_000 {
			t.Fatalf("%+v of rows and prewrites in memory", used)
		}
	}
	if s.Used().Disk == 0 {
		t.Fatal("no rows went to disk for the prewrites' sake")
	}
	little.Close()
	large.Close()
	memory := sorter.NewMemory(10).NewPrewrites()
	memory.Hold(100)
	if memory.Excess() != 0 {
		t.Fatal("there is no place to put anything away")
	}
	memory.Close()
}

func TestPrewritesPastTheDiskQuota(t *testing.T) {
	s := openAt(t, t.TempDir(), 1_000)
	p := s.NewPrewrites()
	defer p.Close()
	err := p.PutAway(1, 2_000, slices.Values([]event.Prewrite{{StartTS: 1, Key: []byte("k"), Value: []byte(strings.Repeat("v", 2_000))}}))
	if !cdcerr.DiskFull.Is(err) {
		t.Fatal(err)
	}
}
