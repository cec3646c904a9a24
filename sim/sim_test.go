package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/sim"
)

// Flags of `make sim`: which seeds. A single one is told in full.
func flags() (runs, seed *uint64) {
	return flag.Uint64("runs", 3000, "how many seeds"), flag.Uint64("seed", 1, "the first seed")
}

var runs, seed = flags()

// causes are what has to happen in a run of many seeds, or it shows nothing.
var causes = []string{
	"nobody has it", "an operator moves it", "its capture is drained", "its capture does not hear all of the upstream, and another does", "spans are evened out", "its table is cut anew",
	"its parts are ready", "its table stays as it is", "its table is gone", "reported to a new owner", "the secondary stopped", "the primary stopped",
}

// rare are those that many more seeds must have seen.
var rare = []string{"the secondary is gone, the primary writes on", "its capture is gone"}

const rareRuns = 50_000

// total is what the seeds of a run have seen together.
type total struct {
	mu     sync.Mutex
	sum    sim.Outcome // guarded by mu
	failed []sim.Outcome
}

func (a *total) add(o sim.Outcome) (goOn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum.Steps += o.Steps
	a.sum.Owners += o.Owners
	a.sum.Rows += o.Rows
	a.sum.DDLs += o.DDLs
	a.sum.Syncs += o.Syncs
	for c, n := range o.Causes {
		a.sum.Causes[c] += n
	}
	if o.Err != nil {
		a.failed = append(a.failed, o)
	}
	return len(a.failed) == 0
}

// TestSchedules plays seeds one after the other, as many at a time as there are cores.
func TestSchedules(t *testing.T) {
	all := &total{sum: sim.Outcome{Causes: map[string]int{}}}
	var next atomic.Uint64
	var wg sync.WaitGroup
	begun := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < *runs && all.add(sim.Run(*seed+n)); n = next.Add(1) - 1 {
			}
		})
	}
	wg.Wait()
	if len(all.failed) > 0 {
		tell(t, all.failed[0])
	}
	s := all.sum
	line := fmt.Sprintf("%d schedules, %d steps, %d owners, %d rows, %d DDLs, %d sync points, %.0f schedules/s",
		*runs, s.Steps, s.Owners, s.Rows, s.DDLs, s.Syncs, float64(*runs)/time.Since(begun).Seconds())
	t.Log(line)
	for _, c := range slices.Sorted(maps.Keys(s.Causes)) {
		t.Logf("%9d × %s", s.Causes[c], c)
	}
	if *runs < 1000 {
		return
	}
	for _, c := range slices.Concat(causes, rare) {
		if s.Causes[c] == 0 && (*runs >= rareRuns || !slices.Contains(rare, c)) {
			t.Errorf("seed %d and all others: nothing happened because %q, so that nothing is shown about it", *seed, c)
		}
	}
}

// tell prints the shortest schedule that fails like this one.
func tell(t *testing.T, o sim.Outcome) {
	if *brief {
		t.Fatalf("seed %d: %v", o.Seed, o.Err)
	}
	text, err := sim.Shrink(o.Seed, 3000)
	t.Fatalf("seed %d: %v\n\nthe shortest schedule found that fails alike:\n%s%v\n\nagain: make sim SEED=%d", o.Seed, o.Err, text, err, o.Seed)
}
