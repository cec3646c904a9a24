package region

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Config says what to follow.
type Config struct {
	Span    span.Span
	StartTS tso.TS // exclusive: rows with commit-ts > StartTS are delivered
	Seed    uint64 // of the retries' jitter
	Now     tso.TS // PD's time, about; 0 where nobody knows
	// PartRows is how many rows of a region must have been scanned, when news of it
	// ends its registration again, for its keys to be divided; 0: never.
	PartRows int
	// SpanKey is where an entry's key stands in Span; nil: the keys are the same.
	SpanKey func(raw string) span.Key
	Patience
}

// Tracker follows all regions of one span. See the package's doc. Not safe for
// concurrent use.
type Tracker struct {
	cfg      Config
	rng      *rand.Rand
	now      time.Duration
	cover    *cover
	regions  map[uint64]*hold // locked holds by region id
	slots    map[uint64]uint8 // the slot that a region registers with next
	told     tso.TS           // resolved-ts last told
	rowsLast int              // rows of the last Ready that had any
	out      Ready
	counts   Counts
	held     Held
	matchers uint64                   // registrations so far
	sought   []sought                 // what the last StepRows needs of what was put away
	scanned  int                      // regions whose present registration was scanned to the end
	starved  map[uint64]time.Duration // streams, by when they were last held up
	pd       tso.TS                   // PD's time when the clock was last told
	fastest  tso.TS                   // the highest resolved-ts of any region so far
}

// Ready is what was decided since the last Ready. Act on it in this order:
// Ends, Requests (tell Placed), Reloads, then hand on Rows and after them
// Resolved. Once Err is set nothing more comes.
type Ready struct {
	Ends     []Source // registrations that are given up while TiKV still serves them
	Scanned  []Source // registrations whose scan is through
	Requests []Request
	Reloads  []span.Span   // keys whose regions PD must name: answer with StepLocated
	Rows     []event.RawKV // complete commits, in arrival order
	Resolved tso.TS        // resolved-ts of the span; 0 = did not move
	Moves    []tso.Move    // every timestamp that moved
	Gone     []uint64      // registrations whose prewrites are not to be put away any longer
	Stuck    []Stuck       // what to search for locks
	Lag      *Lag          // who lags; nil unless the clock was told
	Wake     time.Duration // when Tick has something to do; negative: never
	Err      error         // the subscription is over
}

// Counts says what was left out and how often, for logs and metrics.
type Counts struct {
	Stale     uint64 // events of registrations that are over
	Nameless  uint64 // rows of type UNKNOWN
	TooOld    uint64 // commits at or below the start-ts
	TooEarly  uint64 // resolved-ts before INITIALIZED
	Regressed uint64 // resolved-ts that did not rise, zero ones included
	Failures  uint64 // registrations that TiKV ended, broken streams included
	Renewals  uint64 // registrations given up because the region lagged
	Parts     uint64 // divisions of regions that change faster than they are scanned
}

// New starts a Tracker; its first Tick asks where the span's keys are.
func New(cfg Config) *Tracker {
	return &Tracker{
		cfg:     cfg,
		rng:     rand.New(rand.NewPCG(cfg.Seed, 0)),
		cover:   newCover(cfg.Span, cfg.StartTS),
		regions: map[uint64]*hold{},
		slots:   map[uint64]uint8{},
		starved: map[uint64]time.Duration{},
		told:    cfg.StartTS,
		pd:      cfg.Now,
		fastest: cfg.StartTS,
	}
}

// Ready takes what was decided since the last call.
func (t *Tracker) Ready() Ready {
	t.Tick(t.now) // what became due by the steps since the last Tick
	if t.out.Err == nil {
		t.out.Err = t.pending()
	}
	r := t.out
	if t.out.Err == nil {
		if ts := t.cover.min(); ts > t.told {
			slow := t.cover.slowest()
			r.Resolved = ts
			r.Moves = append(r.Moves, tso.Move{Stage: tso.StageSpan, TableID: t.cfg.Span.TableID,
				Region: slow.region.ID, From: t.told, To: ts, Cause: causeSlowest})
			t.told = ts
		}
	}
	r.Wake = never
	if h := t.cover.nextDue(); h != nil {
		r.Wake = h.due
	}
	if len(r.Rows) > 0 {
		t.rowsLast = len(r.Rows)
	}
	t.out = Ready{Err: r.Err}
	return r
}

// Tick tells the time and gives out what was waiting for it.
func (t *Tracker) Tick(now time.Duration) {
	t.now = max(t.now, now)
	for {
		h := t.cover.nextDue()
		if h == nil || h.due > t.now || t.out.Err != nil {
			return
		}
		if h.phase == waiting {
			t.request(h)
			continue
		}
		t.reload(h)
	}
}

// reload asks for the regions of h and of all vacant holds next to it: what
// became vacant together, or waited for an older region to go, is looked up
// together.
func (t *Tracker) reload(h *hold) {
	run := t.cover.run(h)
	for _, v := range run {
		t.cover.schedule(v, asked, never)
	}
	s := span.Span{TableID: t.cfg.Span.TableID, Start: run[0].start, End: run[len(run)-1].end}
	t.out.Reloads = append(t.out.Reloads, s)
}

// request registers h's region from the resolved-ts that its keys have reached.
func (t *Tracker) request(h *hold) {
	h.from, h.match, h.stream = h.ts, t.newMatcher(), 0
	h.slot = t.slots[h.region.ID]
	t.slots[h.region.ID] = (h.slot + 1) % Slots
	t.forgetSlots()
	t.cover.schedule(h, subscribed, never)
	t.out.Requests = append(t.out.Requests, Request{
		Region: h.region, Span: h.span(t.cfg.Span.TableID), StartTS: h.from, Slot: h.slot,
		Urgent: h.scanned || (t.pd != 0 && t.pd.Sub(h.from) < urgentLag),
	})
	t.out.Moves = append(t.out.Moves, tso.Move{Stage: tso.StageRegion, TableID: t.cfg.Span.TableID,
		Region: h.region.ID, To: h.from, Cause: h.why})
}

// urgentLag is up to how far behind PD's time a first scan is urgent.
const urgentLag = 10 * time.Minute

// forgetSlots keeps the memory of slots in proportion to the regions that live:
// ids that splits and merges left behind are dropped. A thousand are spared so
// that small subscriptions never sweep.
func (t *Tracker) forgetSlots() {
	if len(t.slots) <= 2*len(t.regions)+1024 {
		return
	}
	for id := range t.slots { // the order does not matter: each id is judged alone
		if t.regions[id] == nil {
			delete(t.slots, id)
		}
	}
}

// StepLocated is the answer to a Reload: regions in key order as PD listed them,
// possibly with holes, possibly only the first of many; none when PD could not
// be asked. Only the leading ones without a hole are used, the rest is asked for
// again.
func (t *Tracker) StepLocated(sought span.Span, found []Region) {
	at, done := sought.Start, false
	for _, r := range found {
		if done || r.Span.Start > at {
			break
		}
		if r.Span.End != "" && r.Span.End <= at {
			continue
		}
		if r.Store != 0 {
			t.lock(r)
		}
		at = r.Span.End
		done = at == "" || (sought.End != "" && at >= sought.End)
	}
	progress := done || at > sought.Start
	for _, h := range t.cover.overlapping(sought) {
		if h.phase != asked {
			continue
		}
		if progress && !done && h.start >= at {
			t.cover.schedule(h, vacant, t.now)
			continue
		}
		t.vacate(h, true, h.why)
	}
}

// lock lets a region report the keys that it shares with the span.
func (t *Tracker) lock(r Region) {
	if t.regions[r.ID] != nil {
		return // its own end is still to come
	}
	h := t.cover.lock(r)
	if h == nil {
		return
	}
	t.regions[r.ID] = h
	t.request(h)
}

// Placed tells on which stream a request was put. Events are taken only from there.
func (t *Tracker) Placed(q Request, stream uint64) {
	if h := t.regions[q.Region.ID]; h != nil && h.phase == subscribed && h.slot == q.Slot {
		h.stream = stream
	}
}

// Registrations are those that are placed on a stream, and those given up of
// which Ready has not told yet.
func (t *Tracker) Registrations() []Source {
	out := slices.Clone(t.out.Ends)
	t.cover.holds.Ascend(func(h *hold) bool {
		if h.phase == subscribed && h.stream != 0 {
			out = append(out, Source{Stream: h.stream, Slot: h.slot, Region: h.region.ID})
		}
		return true
	})
	return out
}

// of is the hold that an event of src is for; nil when src is over.
func (t *Tracker) of(src Source) *hold {
	h := t.regions[src.Region]
	if h == nil || h.phase != subscribed || h.stream != src.Stream || h.slot != src.Slot {
		t.counts.Stale++
		return nil
	}
	return h
}

// StepRows takes rows of one region in the order in which TiKV sent them.
// The entries may be used again afterwards, their bytes not.
func (t *Tracker) StepRows(src Source, rows []Entry) {
	h := t.of(src)
	if h == nil || t.out.Err != nil {
		return
	}
	for i := range rows {
		if err := t.row(h, &rows[i]); err != nil {
			t.out.Err = err
			return
		}
	}
}

func (t *Tracker) row(h *hold, e *Entry) error {
	if !h.match.initialized && (e.Type == Prewrite || e.Type == Committed) {
		h.match.note(e)
	}
	switch e.Type {
	case Prewrite:
		h.match.prewrite(e)
	case Commit:
		switch p, v := h.match.commit(e); v {
		case matched:
			return t.matched(h, e, p)
		case missing:
			return t.unmatched(h, e)
		case distant:
			t.seek(sought{h: h, e: *e})
		case waits:
		}
	case Rollback:
		if h.match.rollback(e) {
			t.seek(sought{h: h, e: *e, ended: true})
		}
	case Committed:
		return t.emit(h, e, e.Value, e.Old)
	case Initialized:
		if !h.match.initialized {
			t.scanned++
			h.scanned, h.moved = true, t.now
			t.out.Scanned = append(t.out.Scanned, Source{Stream: h.stream, Slot: h.slot, Region: h.region.ID})
			return t.initialize(h)
		}
	default:
		t.counts.Nameless++ // what a lock-only key leaves behind: no key, no meaning
	}
	return nil
}

// initialize works off what has waited for the end of the scan.
func (t *Tracker) initialize(h *hold) error {
	commits, closed := h.match.initialize()
	for i := range commits {
		e := &commits[i]
		switch p, v := h.match.commit(e); v {
		case matched:
			if err := t.matched(h, e, p); err != nil {
				return err
			}
		case distant:
			t.seek(sought{h: h, e: *e, scanned: true})
		case missing, waits: // the scan has delivered it
		}
	}
	for _, k := range closed {
		if h.match.end(k) {
			t.seek(sought{h: h, e: Entry{StartTS: k.start, Key: []byte(k.key)}, ended: true})
		}
	}
	return nil
}

// unmatched is the error for a commit without prewrite.
func (t *Tracker) unmatched(h *hold, e *Entry) error {
	return cdcerr.PrewriteNotMatch.New("commit without a prewrite that tells its value: key %X, start-ts %d, commit-ts %d; %s",
		e.Key, e.StartTS, e.CommitTS, t.describe(h))
}

// matched hands on a commit with the value of its prewrite. A short value stands
// in the commit too: that one is taken, since the commit's message is kept alive
// by the key anyway.
func (t *Tracker) matched(h *hold, e *Entry, p prewrite) error {
	value := e.Value
	if len(value) == 0 {
		value = p.value
	}
	return t.emit(h, e, value, p.old)
}

// emit hands on one complete commit, if it is above the start-ts. Below the
// region's resolved-ts it would break P4.
func (t *Tracker) emit(h *hold, e *Entry, value, old []byte) error {
	if e.CommitTS <= t.cfg.StartTS {
		t.counts.TooOld++
		return nil
	}
	if e.CommitTS <= h.ts {
		return cdcerr.ResolvedTsRegressed.New("key %X, start-ts %d, commit-ts %d is not above resolved-ts %d; %s",
			e.Key, e.StartTS, e.CommitTS, h.ts, t.describe(h))
	}
	row := event.RawKV{StartTS: e.StartTS, CommitTS: e.CommitTS, Key: e.Key, Old: old}
	switch {
	case e.Op == OpDelete:
		row.Op = event.Delete
	case e.Op == OpPut && len(value) > 0:
		row.Op, row.Value = event.Put, value
	default:
		return cdcerr.PrewriteNotMatch.New("commit of op %d with a value of %d bytes: key %X, start-ts %d, commit-ts %d; %s",
			e.Op, len(value), e.Key, e.StartTS, e.CommitTS, t.describe(h))
	}
	if t.out.Rows == nil {
		// Batches of one stream are much alike; a little room saves the doubling.
		t.out.Rows = make([]event.RawKV, 0, t.rowsLast+t.rowsLast/4+8)
	}
	t.out.Rows = append(t.out.Rows, row)
	return nil
}

// StepResolved takes one resolved-ts for many regions of one request id.
func (t *Tracker) StepResolved(stream uint64, slot uint8, ids []uint64, ts tso.TS) {
	if t.out.Err != nil {
		return
	}
	for _, id := range ids {
		h := t.of(Source{Stream: stream, Slot: slot, Region: id})
		switch {
		case h == nil:
		case !h.match.initialized:
			t.counts.TooEarly++
		case ts <= h.ts:
			t.counts.Regressed++
		default:
			if t.out.Moves == nil {
				t.out.Moves = make([]tso.Move, 0, len(ids)+1) // and the span's own
			}
			t.out.Moves = append(t.out.Moves, tso.Move{Stage: tso.StageRegion, TableID: t.cfg.Span.TableID,
				Region: id, From: h.ts, To: ts, Cause: causeResolved})
			t.cover.forward(h, ts)
			h.fails, h.renewals, h.moved = 0, 0, t.now
			t.fastest = max(t.fastest, ts)
			t.turn(h)
		}
	}
}

// Span is what the tracker follows.
func (t *Tracker) Span() span.Span { return t.cfg.Span }

// Counts says what was left out so far.
func (t *Tracker) Counts() Counts { return t.counts }

// Resolved is the resolved-ts that was last told.
func (t *Tracker) Resolved() tso.TS { return t.told }

// Regions is how many regions are registered, and how many of these scanned.
func (t *Tracker) Regions() (registered, scanned int) { return len(t.regions), t.scanned }

// Held is what waits for its commit, over all regions.
func (t *Tracker) Held() Held { return t.held }

// Fastest is the highest resolved-ts of any region so far.
func (t *Tracker) Fastest() tso.TS { return t.fastest }

// Check verifies that every key is in exactly one hold (P2), and that what waits
// for commits is counted right.
func (t *Tracker) Check() error {
	var sum Held
	scanned := 0
	for _, h := range t.regions { // sums: the order does not matter
		if h.match != nil {
			sum.Entries += h.match.entries()
			sum.Bytes += h.match.bytes
		}
		if h.match != nil && h.match.initialized {
			scanned++
		}
	}
	if scanned != t.scanned {
		return fmt.Errorf("%d regions are scanned, counted are %d", scanned, t.scanned)
	}
	if len(t.sought) > 0 {
		return fmt.Errorf("%d commits were not looked for", len(t.sought))
	}
	if sum != t.held {
		return fmt.Errorf("%+v wait for commits, counted are %+v", sum, t.held)
	}
	return t.cover.check()
}
