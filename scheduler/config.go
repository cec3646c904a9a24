package scheduler

import (
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is the owner's half of one changefeed.
type Config struct {
	Owner Revision
	Epoch uint64
	// Fenced tells that the downstream refuses a writer below its floor, so that a
	// capture that does not answer need not be waited for until its lease is over.
	Fenced bool
	// Gated tells that there is a redo log: nothing becomes downstream above what its
	// meta on the storage says (P5).
	Gated bool
	// SyncEvery is how many milliseconds of the upstream's clock are between sync
	// points; 0 for none. Target is where the changefeed ends; 0 for never.
	SyncEvery int64
	Target    tso.TS

	// In ticks. An order that is not answered is given again after ResendTicks; a
	// capture that says nothing for SilentTicks, or for BrokenTicks after its stream
	// broke, is fenced off; who has nothing to be told is told so every HeartbeatTicks.
	ResendTicks    uint64
	SilentTicks    uint64
	BrokenTicks    uint64
	HeartbeatTicks uint64
	BalanceTicks   uint64
	// A capture that does not hear all of the upstream has no spans for DeafTicks after
	// it said so last, if another hears it.
	DeafTicks uint64

	// Local tells whether an error that a capture told may be of that capture alone: then
	// its spans go elsewhere, if somebody else is there, and it is given none for RestTicks,
	// twice as long each time up to RestMaxTicks. So it is where a fenced downstream is no
	// further for StuckTicks, and the capture warns of such an error. Nil: none is.
	Local        func(text string) bool
	RestTicks    uint64
	RestMaxTicks uint64
	StuckTicks   uint64

	// BatchMax bounds what one tick does of each kind of work; OrdersMax one message;
	// MovesMax how many spans are on the move because a policy wants it.
	BatchMax  int
	OrdersMax int
	MovesMax  int

	Split SplitConfig
}

// SplitConfig says when one table is replicated in several spans. Zero turns a
// criterion off.
type SplitConfig struct {
	Regions uint32 // of a span; more are split
	Each    uint32 // regions of a part, as it is cut; 0: Regions
	Traffic uint64 // bytes a second of a span; more are split
	PartMax int    // parts of one table
	// RestTicks is how long a table that was cut is not merged again: what it weighs
	// comes and goes.
	RestTicks uint64
}

// on tells whether tables are split at all.
func (c *SplitConfig) on() bool { return c.Regions > 0 || c.Traffic > 0 }

// each is how many regions a part has as it is cut.
func (c *SplitConfig) each() uint32 {
	if c.Each > 0 {
		return c.Each
	}
	return c.Regions
}

// Default is a Config for ticks of 50 ms.
func Default() Config {
	return Config{
		ResendTicks:    20, // a second: an answer takes milliseconds, a stream that reconnects some hundred
		SilentTicks:    30, // a second and a half; a capture reports every tick that it moves, and 5 times a second else
		BrokenTicks:    6,  // 300 ms to come back on another connection
		HeartbeatTicks: 4,
		BalanceTicks:   100,    // a new capture gets its share within five seconds
		DeafTicks:      200,    // ten seconds: a way that is broken now and then would let spans come and go
		RestTicks:      200,    // the same
		RestMaxTicks:   12_000, // ten minutes
		StuckTicks:     60,     // three seconds: a database that is started again is back, or others warn too
		BatchMax:       5_000,  // 20 ms of the owner's time; a capture with 100,000 spans is taken over within a second
		OrdersMax:      4096,   // half a megabyte on the wire
		MovesMax:       100,    // each stalls one table for a few round trips
		// A part more is one in the owner's hands for good; a split or merge reads on anew, on other captures.
		Split: SplitConfig{PartMax: 100, RestTicks: 1200},
	}
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Owner <= 0:
		return cdcerr.InvalidArgument.New("Owner %d: an owner has a revision above 0", c.Owner)
	case c.ResendTicks == 0 || c.SilentTicks == 0 || c.BrokenTicks == 0 || c.HeartbeatTicks == 0 || c.BalanceTicks == 0 || c.DeafTicks == 0:
		return cdcerr.InvalidArgument.New("ResendTicks, SilentTicks, BrokenTicks, HeartbeatTicks, BalanceTicks, DeafTicks: must be above 0, since 0 would be always")
	case c.Local != nil && (c.RestTicks == 0 || c.RestMaxTicks < c.RestTicks || c.StuckTicks == 0):
		return cdcerr.InvalidArgument.New("RestTicks %d, RestMaxTicks %d, StuckTicks %d: must be above 0, and the second no less than the first", c.RestTicks, c.RestMaxTicks, c.StuckTicks)
	case c.BatchMax <= 0 || c.OrdersMax <= 0 || c.MovesMax <= 0:
		return cdcerr.InvalidArgument.New("BatchMax %d, OrdersMax %d, MovesMax %d: must be above 0, or nothing goes on", c.BatchMax, c.OrdersMax, c.MovesMax)
	case c.SyncEvery < 0:
		return cdcerr.InvalidArgument.New("SyncEvery %d: must not be below 0", c.SyncEvery)
	case c.Split.Each > c.Split.Regions:
		return cdcerr.InvalidArgument.New("Split.Each %d: a part has at most Split.Regions, which is %d", c.Split.Each, c.Split.Regions)
	case c.Split.on() && c.Split.PartMax < 2:
		return cdcerr.InvalidArgument.New("Split.PartMax %d: a table that is split has at least 2 parts", c.Split.PartMax)
	}
	return nil
}

// syncAbove is the first sync point above ts, tso.Max where there are none: multiples
// of the interval, so that every owner and every changefeed finds the same.
func (c *Config) syncAbove(ts tso.TS) tso.TS {
	if c.SyncEvery == 0 {
		return tso.Max
	}
	return tso.New((ts.Physical()/c.SyncEvery+1)*c.SyncEvery, 0)
}
