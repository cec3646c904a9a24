package upstream

import (
	"sync/atomic"

	"github.com/sluice-cdc/sluice/upstream/lock"
	"github.com/sluice-cdc/sluice/upstream/region"
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

	// Questions to PD for the regions of a range, and registrations of regions.
	Lookups       uint64
	Registrations uint64
	// Messages that came over the change streams.
	Messages uint64

	// Registrations that stores ended, by the protocol's name of the error.
	RegionErrors map[string]uint64
	// Registrations given up because the region lagged, and because nothing was
	// heard of them.
	Renewed    uint64
	Unanswered uint64
	// Divided is how often the keys of a region were divided that changed faster than
	// it could be scanned.
	Divided uint64
	// Streams that broke, and those of them that were open but silent.
	StreamsBroken uint64
	StreamsSilent uint64
	// What was received and left out: events of registrations that were over, rows
	// without a key, rows at or below the start-ts, resolved-ts before the end of
	// the scan, resolved-ts that did not rise.
	Stale, Nameless, TooOld, TooEarly, Regressed uint64
}

// counts are the running totals.
type counts struct {
	visits, visitsFailed, locks, deeds           atomic.Uint64
	verdicts                                     [lock.Outcomes]atomic.Uint64
	failures                                     [region.FailureKinds]atomic.Uint64
	lookups, registrations, messages             atomic.Uint64
	renewed, unanswered, divided                 atomic.Uint64
	streamsBroken, streamsSilent                 atomic.Uint64
	stale, nameless, tooOld, tooEarly, regressed atomic.Uint64
}

func (c *counts) verdict(o lock.Outcome) { c.verdicts[o].Add(1) }

func (c *counts) failure(k region.FailureKind) { c.failures[k].Add(1) }

// add counts what a subscription has counted since before.
func (c *counts) add(now, before region.Counts) {
	c.renewed.Add(now.Renewals - before.Renewals)
	c.divided.Add(now.Parts - before.Parts)
	c.stale.Add(now.Stale - before.Stale)
	c.nameless.Add(now.Nameless - before.Nameless)
	c.tooOld.Add(now.TooOld - before.TooOld)
	c.tooEarly.Add(now.TooEarly - before.TooEarly)
	c.regressed.Add(now.Regressed - before.Regressed)
}

// Counts are the totals so far.
func (c *Client) Counts() Counts {
	out := Counts{
		LockSearches:       c.counts.visits.Load(),
		LockSearchesFailed: c.counts.visitsFailed.Load(),
		LocksFound:         c.counts.locks.Load(),
		LocksEnded:         c.counts.deeds.Load(),
		Transactions:       map[string]uint64{},
		RegionErrors:       map[string]uint64{},
		Lookups:            c.counts.lookups.Load(),
		Registrations:      c.counts.registrations.Load(),
		Messages:           c.counts.messages.Load(),
		Renewed:            c.counts.renewed.Load(),
		Unanswered:         c.counts.unanswered.Load(),
		Divided:            c.counts.divided.Load(),
		StreamsBroken:      c.counts.streamsBroken.Load(),
		StreamsSilent:      c.counts.streamsSilent.Load(),
		Stale:              c.counts.stale.Load(),
		Nameless:           c.counts.nameless.Load(),
		TooOld:             c.counts.tooOld.Load(),
		TooEarly:           c.counts.tooEarly.Load(),
		Regressed:          c.counts.regressed.Load(),
	}
	for i := range c.counts.failures {
		out.RegionErrors[region.FailureKind(i).String()] = c.counts.failures[i].Load()
	}
	_, out.LockSearchesRefused = c.visits.state()
	for i := range c.counts.verdicts {
		if o := lock.Outcome(i); o != lock.Open {
			out.Transactions[o.String()] = c.counts.verdicts[i].Load()
		}
	}
	return out
}
