package upstream

import (
	"sync/atomic"

	"github.com/sluice-cdc/sluice/upstream/lock"
)

// Counts is what a Client has done since it was opened, for metrics: each only
// ever grows.
type Counts struct {
	// Searches for locks that hold a resolved-ts back: made, given up, turned away
	// because too many waited.
	LockSearches        uint64
	LockSearchesFailed  uint64
	LockSearchesRefused uint64
	// Locks that were found, and calls that ended some.
	LocksFound uint64
	LocksEnded uint64
	// Transactions by what became of them, in the words of package lock.
	Transactions map[string]uint64
}

// counts are the running totals.
type counts struct {
	visits, visitsFailed, locks, deeds atomic.Uint64
	verdicts                           [lock.Outcomes]atomic.Uint64
}

func (c *counts) verdict(o lock.Outcome) { c.verdicts[o].Add(1) }

// Counts are the totals so far.
func (c *Client) Counts() Counts {
	out := Counts{
		LockSearches:       c.counts.visits.Load(),
		LockSearchesFailed: c.counts.visitsFailed.Load(),
		LocksFound:         c.counts.locks.Load(),
		LocksEnded:         c.counts.deeds.Load(),
		Transactions:       map[string]uint64{},
	}
	_, out.LockSearchesRefused = c.visits.state()
	for i := range c.counts.verdicts {
		if o := lock.Outcome(i); o != lock.Open {
			out.Transactions[o.String()] = c.counts.verdicts[i].Load()
		}
	}
	return out
}
