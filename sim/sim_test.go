package sim_test

import (
	"flag"
	"fmt"
	"runtime"
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

// TestSchedules plays seeds one after the other, as many at a time as there are cores.
func TestSchedules(t *testing.T) {
	var next, steps, owners, rows, ddls atomic.Int64
	var failed atomic.Int64
	failed.Store(-1)
	var wg sync.WaitGroup
	begun := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for failed.Load() < 0 {
				n := uint64(next.Add(1) - 1)
				if n >= *runs {
					return
				}
				out := sim.Run(*seed + n)
				steps.Add(int64(out.Steps))
				owners.Add(int64(out.Owners))
				rows.Add(int64(out.Rows))
				ddls.Add(int64(out.DDLs))
				if out.Err != nil {
					failed.CompareAndSwap(-1, int64(out.Seed))
				}
			}
		})
	}
	wg.Wait()
	if s := failed.Load(); s >= 0 {
		text, err := sim.Shrink(uint64(s), 3000)
		t.Fatalf("seed %d: %v\n\nthe shortest schedule found that fails alike:\n%s%v\n\nagain: make sim SEED=%d RUNS=1", s, sim.Run(uint64(s)).Err, text, err, s)
	}
	took := time.Since(begun)
	line := fmt.Sprintf("%d schedules, %d steps, %d owners, %d rows, %d DDLs, %.0f schedules/s", *runs, steps.Load(), owners.Load(), rows.Load(), ddls.Load(), float64(*runs)/took.Seconds())
	t.Log(line)
	if rows.Load() == 0 || ddls.Load() == 0 || owners.Load() < int64(*runs) {
		t.Fatal("nothing happened: ", line)
	}
}
