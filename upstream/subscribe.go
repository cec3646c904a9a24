package upstream

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
	"github.com/sluice-cdc/sluice/upstream/region"
)

// Subscription says what to follow.
type Subscription struct {
	Span    span.Span
	StartTS tso.TS // exclusive: rows with commit-ts > StartTS
	// FilterLoop leaves out what another change-data-capture wrote.
	FilterLoop bool
	// Memory is told what the subscription holds; nil where nobody counts.
	Memory Memory
}

// Memory is the account of what a subscription keeps beyond the streams' budgets:
// prewrites whose commits have not come, and commits whose prewrites have not.
// Whoever keeps rows in memory counts this against the same quota.
type Memory interface {
	// Hold adds to what is held; negative bytes give back. It must not wait: the
	// commits that free a transaction stand behind its prewrites in the stream.
	Hold(bytes int64)
	// Tight tells that no more history should be asked for: scans that are not
	// urgent wait until it is false.
	Tight() bool
	// Excess is how many bytes of prewrites should be put away now, mostly 0.
	Excess() int64
	// PutAway takes prewrites of one registration, which make up so many bytes, in
	// the order of start-ts and key.
	PutAway(registration uint64, bytes int64, sorted iter.Seq[event.Prewrite]) error
	// TakeBack looks for start-ts and keys, in that order, among what was put away
	// for a registration, and tells found of each prewrite with the index of what it
	// was wanted for, those that were put away first in front. What was found
	// will not be asked for again.
	TakeBack(registration uint64, wanted []event.Prewrite, found func(i int, p event.Prewrite)) error
	// Drop ends a registration: nothing of it will be asked for.
	Drop(registration uint64)
}

// Batch is what one call hands on: rows first, then Resolved, which covers them
// and everything before (P4). Rows may come twice, after a region was scanned
// again; (key, start-ts, commit-ts) tells.
type Batch struct {
	Rows     []event.RawKV
	Resolved tso.TS     // 0 = did not move
	Moves    []tso.Move // every timestamp that moved
}

// batchBytes ends a batch: large enough that a call a batch costs nothing, small
// enough that the consumer works on one while the next is being received.
const batchBytes = 1 << 20

// partRows is the least scan that is worth dividing: it is over sooner than a
// region can split again.
const partRows = 64

// feed is one subscription at work. Only its loop touches it, except the inbox,
// and number and filterLoop, which never change.
type feed struct {
	client     *Client
	number     uint64
	filterLoop bool
	inbox      *inbox
	out        func(Batch) error

	tracker *region.Tracker
	start   time.Time
	streams map[uint64]*stream // that it has registrations on, by stream id
	seek    []span.Span        // to be looked up; bounded by the holds of the tracker
	entries []region.Entry     // rows of one event, used again
	items   []delivery         // taken from the inbox; those not worked on yet hold their share
	lent    []*share           // to be given back once out has returned
	bytes   int64              // of the events since the last batch
	looked  time.Time          // when the time was last told
	memory  Memory             // may be nil
	charged int64              // what memory was told
	counted region.Counts      // what the client's counts have of the tracker's

	// Read by others.
	tight   atomic.Bool
	fastest atomic.Uint64
	state   atomic.Pointer[SubscriptionStatus]
}

// answer is what PD said about a range.
type answer struct {
	sought  span.Span
	regions []region.Region
}

// Request ids number the registrations of a feed: its number and a slot.
func (f *feed) requestID(slot uint8) uint64 { return f.number*region.Slots + uint64(slot) }

func feedNumber(request uint64) uint64 { return request / region.Slots }

func slotOf(request uint64) uint8 { return uint8(request % region.Slots) }

// Subscribe follows every committed change of s and calls out with them, until
// ctx ends, out returns an error, or the upstream breaks a promise. Broken
// streams, moved regions and absent stores are ridden out.
//
// out is called by one goroutine at a time and must return when ctx ends. While
// it blocks, everything that comes over the same stores' streams is held back.
func (c *Client) Subscribe(ctx context.Context, s Subscription, out func(Batch) error) error {
	if s.Span.Empty() {
		return cdcerr.InvalidArgument.New("subscription to an empty span: %v", s.Span)
	}
	f := &feed{
		client: c, number: c.feeds.Add(1), filterLoop: s.FilterLoop, inbox: newInbox(), out: out,
		start: time.Now(), looked: time.Now(), streams: map[uint64]*stream{}, memory: s.Memory,
	}
	on, err := c.keyspace.span(s.Span)
	if err != nil {
		return err
	}
	f.tracker = region.New(region.Config{Span: on, StartTS: s.StartTS, Seed: f.number, Now: c.lastTS(),
		PartRows: partRows, SpanKey: c.keyspace.spanKey, Patience: c.cfg.patience()})
	f.publish(nil)
	c.follow(f)
	defer f.leave()
	g, ctx := errgroup.WithContext(ctx)
	asks, answers := make(chan span.Span), make(chan answer) // one lookup at a time
	g.Go(func() error { return c.lookUp(ctx, asks, answers) })
	g.Go(func() error { return f.run(ctx, asks, answers) })
	return g.Wait()
}

// lookUp answers a feed's questions for regions, one after the other.
func (c *Client) lookUp(ctx context.Context, asks <-chan span.Span, answers chan<- answer) error {
	for {
		select {
		case s := <-asks:
			c.counts.lookups.Add(1)
			found, err := c.locate(ctx, s)
			switch {
			case err == nil || ctx.Err() != nil:
			case cdcerr.Fate(err) >= cdcerr.Terminal:
				return err
			default:
				c.log.Info("regions cannot be looked up; asking again", "span", s, "error", err)
			}
			a := answer{sought: s, regions: make([]region.Region, len(found))}
			for i := range found {
				a.regions[i] = found[i].Region
			}
			select {
			case answers <- a:
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *feed) run(ctx context.Context, asks chan<- span.Span, answers <-chan answer) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var ask chan<- span.Span
		var next span.Span
		if len(f.seek) > 0 {
			ask, next = asks, f.seek[0]
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ask <- next:
			f.seek = f.seek[1:]
			continue
		case a := <-answers:
			f.tracker.StepLocated(a.sought, a.regions)
		case <-f.inbox.ready:
			var now *clock
			f.items, now = f.inbox.take(f.items)
			f.tracker.Tick(time.Since(f.start)) // what came, came until now
			if err := f.work(ctx); err != nil {
				return err
			}
			clear(f.items)
			if now != nil {
				f.look(*now)
			}
		case <-timer.C:
		}
		if err := f.flush(ctx, timer); err != nil {
			return err
		}
	}
}

// work steps through deliveries and flushes whenever a batch is full.
func (f *feed) work(ctx context.Context) error {
	for i := range f.items {
		d := &f.items[i]
		if d.gone {
			delete(f.streams, d.stream)
			if cdcerr.Fate(d.err) >= cdcerr.Terminal {
				return d.err
			}
			f.tracker.StepStreamGone(d.stream)
			continue
		}
		for _, k := range d.overdue {
			f.tracker.StepFailure(sourceOf(d.stream, k), region.Failure{Kind: region.Unanswered})
		}
		f.lent = append(f.lent, d.share)
		d.share = nil
		if err := f.step(d); err != nil {
			return err
		}
		if f.bytes >= batchBytes {
			if err := f.flush(ctx, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *feed) step(d *delivery) error {
	for i := range d.events {
		e := &d.events[i]
		src := region.Source{Stream: d.stream, Slot: slotOf(e.request), Region: e.region}
		switch {
		case e.isError:
			failure, err := readFailure(e.failure)
			if err != nil {
				return err
			}
			f.client.log.Debug("region error", "region", e.region, "kind", failure.Kind, "detail", failure.Detail)
			f.client.counts.failure(failure.Kind)
			f.tracker.StepFailure(src, failure)
		case e.entries != nil:
			var err error
			if f.entries, err = readRows(f.entries[:0], e.entries); err != nil {
				return err
			}
			if err := f.cutKeys(); err != nil {
				return err
			}
			f.tracker.StepRows(src, f.entries)
			if err := f.takeBack(); err != nil {
				return err
			}
			f.bytes += int64(len(e.entries))
		case e.ts != 0:
			f.tracker.StepResolved(d.stream, src.Slot, []uint64{e.region}, e.ts)
		}
	}
	if r := d.resolved; r != nil {
		f.tracker.StepResolved(d.stream, slotOf(r.request), r.regions, r.ts)
	}
	return nil
}

// flush does what the tracker decided, hands its rows on and gives the budget
// back. A nil timer is left as it is.
func (f *feed) flush(ctx context.Context, timer *time.Timer) error {
	f.tracker.Tick(time.Since(f.start))
	r := f.tracker.Ready()
	if r.Err != nil {
		return r.Err
	}
	for _, src := range r.Ends {
		if s := f.streams[src.Stream]; s != nil {
			s.end(f.ticket(src))
		}
	}
	for _, src := range r.Scanned {
		if s := f.streams[src.Stream]; s != nil {
			s.scanned(f.ticket(src))
		}
	}
	for _, q := range r.Requests {
		s, err := f.client.request(ctx, f, q)
		if err != nil {
			return err
		}
		f.client.counts.registrations.Add(1)
		f.streams[s.id] = s
		f.tracker.Placed(q, s.id)
	}
	f.seek = append(f.seek, r.Reloads...)
	for _, s := range r.Stuck {
		f.client.visits.want(lock.Visit{Region: s.Region.ID, Span: s.Span, Target: s.Target})
	}
	if err := f.charge(r.Gone); err != nil {
		return err
	}
	if r.Lag != nil {
		f.publish(r.Lag)
	}
	f.fastest.Store(uint64(f.tracker.Fastest()))
	if timer != nil && r.Wake >= 0 {
		timer.Reset(max(0, r.Wake-time.Since(f.start)))
	}
	if len(r.Rows) > 0 || r.Resolved != 0 || len(r.Moves) > 0 {
		if err := f.out(Batch{Rows: r.Rows, Resolved: r.Resolved, Moves: r.Moves}); err != nil {
			return fmt.Errorf("rows of %v: %w", f.tracker.Span(), err)
		}
	}
	f.bytes = 0
	for i, s := range f.lent {
		s.release()
		f.lent[i] = nil
	}
	f.lent = f.lent[:0]
	return nil
}

// cutKeys takes the keyspace's prefix off what came.
func (f *feed) cutKeys() (err error) {
	k := &f.client.keyspace
	if k.prefix == nil {
		return nil
	}
	for i := range f.entries {
		e := &f.entries[i]
		if e.Type == region.Unknown || e.Type == region.Initialized {
			continue // without a key
		}
		if e.Key, err = k.cut(e.Key); err != nil {
			return err
		}
	}
	return nil
}

// takeBack finds what the last rows need of what was put away.
func (f *feed) takeBack() error {
	of, wanted := f.tracker.Sought()
	if len(wanted) == 0 {
		return nil
	}
	if err := f.memory.TakeBack(of, wanted, f.tracker.StepFound); err != nil {
		return fmt.Errorf("prewrites of %v: %w", f.tracker.Span(), err)
	}
	f.tracker.StepMatched()
	return nil
}

// charge tells the memory's account what has changed, and puts away what it has
// no room for.
func (f *feed) charge(gone []uint64) error {
	if f.memory == nil {
		return nil
	}
	for _, of := range gone {
		f.memory.Drop(of)
	}
	f.count()
	if excess := f.memory.Excess(); excess > 0 {
		for _, l := range f.tracker.Evict(excess) {
			if err := f.memory.PutAway(l.Of, l.Bytes, l.All()); err != nil {
				return fmt.Errorf("prewrites of %v: %w", f.tracker.Span(), err)
			}
		}
		f.count()
	}
	return nil
}

func (f *feed) count() {
	if held := f.tracker.Held().Bytes; held != f.charged {
		f.memory.Hold(held - f.charged)
		f.charged = held
	}
	f.tight.Store(f.memory.Tight())
}

// look takes the time, after all that had come by then.
func (f *feed) look(c clock) {
	for id, s := range f.streams {
		if s.pulse.starvedSince(f.looked) {
			f.tracker.StepStarved(id)
		}
	}
	f.looked = time.Now()
	f.tracker.StepClock(c.pd, c.fastest)
}

func (f *feed) ticket(src region.Source) region.Ticket {
	return region.Ticket{Request: f.requestID(src.Slot), Region: src.Region}
}

func sourceOf(stream uint64, k region.Ticket) region.Source {
	return region.Source{Stream: stream, Slot: slotOf(k.Request), Region: k.Region}
}

// leave ends all registrations and gives back what was received and not taken.
func (f *feed) leave() {
	f.client.unfollow(f)
	all := map[uint64][]region.Ticket{}
	for _, src := range f.tracker.Registrations() {
		all[src.Stream] = append(all[src.Stream], f.ticket(src))
	}
	for id, s := range f.streams {
		s.leave(f, all[id])
	}
	for _, s := range f.lent {
		s.release()
	}
	for _, d := range f.items {
		d.share.release()
	}
	f.inbox.close()
	if f.memory != nil {
		f.memory.Hold(-f.charged)
	}
}
