package fake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Storm is faults that befall a cluster at random.
type Storm struct {
	Seed   uint64
	Faults []string      // by name; default: all that keep TiKV's promises
	Every  time.Duration // about the time from one to the next; default 50 ms
	For    time.Duration // the longest that one lasts; default 1 s
	AtOnce int           // how many may last at the same time; default 2
	// Told, where set, hears of each when it is over; it is called by one
	// goroutine at a time.
	Told func(name, what string)
}

func (s Storm) withDefaults() Storm {
	if s.Every == 0 {
		s.Every = 50 * time.Millisecond
	}
	if s.For == 0 {
		s.For = time.Second
	}
	if s.AtOnce == 0 {
		s.AtOnce = 2
	}
	return s
}

// pick finds the faults by their names.
func (s *Storm) pick() ([]Fault, error) {
	all := Faults()
	if len(s.Faults) == 0 {
		return slices.DeleteFunc(all, func(f Fault) bool { return f.Breaks }), nil
	}
	var out []Fault
	for _, name := range s.Faults {
		i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, cdcerr.InvalidArgument.New("fault %q: there is none of this name", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// Storm lets faults strike until ctx ends, and returns when the last of them is
// over: every server is up then, the network whole, and no merge under way. The
// seed decides which faults strike in which order with which parameters; how
// they fall together with everything else, the machine.
func (c *Cluster) Storm(ctx context.Context, s Storm) error {
	s = s.withDefaults()
	faults, err := s.pick()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(s.Seed, 4))
	var struck errgroup.Group
	struck.SetLimit(s.AtOnce + 1)
	told := make(chan [2]string)
	struck.Go(func() error { return s.listen(told) })
	var under errgroup.Group
	under.SetLimit(s.AtOnce)
	for ctx.Err() == nil {
		f := faults[rng.IntN(len(faults))]
		b := &blow{
			cluster: c, rng: rand.New(rand.NewPCG(rng.Uint64(), 5)),
			lasts: time.Duration(rng.Int64N(int64(s.For))),
		}
		under.Go(func() error {
			what, err := f.strike(ctx, b)
			if err != nil {
				return fmt.Errorf("fault %s: %w", f.Name, err)
			}
			told <- [2]string{f.Name, what}
			return nil
		})
		if pause(ctx, time.Duration(rng.Int64N(2*int64(s.Every)))) != nil {
			break
		}
	}
	err = under.Wait()
	close(told)
	return errors.Join(err, struck.Wait())
}

// listen hands on what has struck.
func (s *Storm) listen(told <-chan [2]string) error {
	for t := range told {
		if s.Told != nil {
			s.Told(t[0], t[1])
		}
	}
	return nil
}

// pause waits for some time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// blow is one strike of a fault.
type blow struct {
	cluster *Cluster
	rng     *rand.Rand
	lasts   time.Duration
}

// last lets the fault last, or a part of it.
func (b *blow) last(ctx context.Context, part float64) {
	_ = pause(ctx, time.Duration(float64(b.lasts)*part)) // a storm that is over ends it early
}

func (b *blow) coin() bool { return b.rng.IntN(2) == 0 }

// store is any store.
func (b *blow) store() uint64 { return 1 + b.rng.Uint64N(uint64(len(b.cluster.stores))) }

// evict moves the leaders of a store to others, as they are elected when it no
// longer answers.
func (b *blow) evict(store uint64) int {
	n := 0
	for _, r := range b.cluster.Regions() {
		if r.Leader.Store == store && len(r.Peers) > 1 {
			to := b.store()
			for to == store {
				to = b.store()
			}
			if b.cluster.Lead(r.ID, to) == nil { // else it is gone by now
				n++
			}
		}
	}
	return n
}

// region is any region; the same at times, so that one is hot.
func (b *blow) region() uint64 {
	all := b.cluster.Regions()
	return all[b.rng.IntN(len(all))].ID
}
