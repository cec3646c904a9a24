package region

import (
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// StepFailure takes TiKV's end of one registration. What the matcher held is
// forgotten; the keys keep the resolved-ts that they had reached, and whoever
// registers for them next starts from there.
//
//	not_leader          the named leader at once; else PD
//	region_not_found    PD
//	epoch_not_match     what the region has become at once, where TiKV says it; else PD, soon,
//	                    unless PD gave that version before
//	unanswered          PD, after a pause
//	server_is_busy      the same region, after the time that TiKV asks for
//	congested, others   the same region, after a pause
//	duplicate_request, compatibility, cluster_id_mismatch: the subscription ends
func (t *Tracker) StepFailure(src Source, f Failure) {
	h := t.of(src)
	if h == nil || t.out.Err != nil {
		return
	}
	t.counts.Failures++
	switch f.Kind {
	case NotLeader:
		if f.Leader != 0 && f.Leader != h.region.Store && h.fails < hintsMax {
			h.region.Store = f.Leader
			t.again(h, 0, causes[f.Kind])
			return
		}
		t.vacate(h, f.Leader == h.region.Store, causes[f.Kind])
	case EpochNotMatch:
		if h.region.Version > h.refused {
			// No store fails here, there is news of the region. One that splits all the
			// time, as the last one does while tables are created, comes on only if it
			// is registered again before the next split.
			h.fails, h.refused = min(h.fails, 1), h.region.Version
		}
		t.divide(h)
		old := h.region
		t.vacate(h, false, causes[f.Kind])
		t.succeed(old, f.Regions)
	case NotFound:
		t.vacate(h, false, causes[f.Kind])
	case Unanswered:
		t.end(h)
		t.vacate(h, true, causes[f.Kind])
	case ServerIsBusy:
		t.again(h, min(time.Duration(min(f.BackoffMS, uint64(busyMax/time.Millisecond)))*time.Millisecond, busyMax), causes[f.Kind])
	case Congested, Unexplained:
		t.again(h, backoffMin, causes[f.Kind])
	case DuplicateRequest:
		t.out.Err = cdcerr.Bug("TiKV holds a registration that we believed over: %s", t.describe(h))
	case Compatibility:
		t.out.Err = cdcerr.VersionIncompatible.New("%s; %s", f.Detail, t.describe(h))
	case ClusterIDMismatch:
		t.out.Err = cdcerr.ClusterIDMismatch.New("%s; %s", f.Detail, t.describe(h))
	}
}

// succeed registers what a region has become without asking PD, which may not know
// it yet. After a split its parts are led where the whole was, mostly; else that
// store says who leads.
func (t *Tracker) succeed(old Region, become []Region) {
	for _, r := range become {
		if r.Version > old.Version {
			r.Store = old.Store
			t.lock(r)
		}
	}
}

// StepStreamGone takes the end of a whole stream: every region on it is
// unlocked, and looked up again after a pause of its own, so that a store that
// comes back is not met by all of them at once.
func (t *Tracker) StepStreamGone(stream uint64) {
	if t.out.Err != nil {
		return
	}
	var lost []*hold
	t.cover.holds.Ascend(func(h *hold) bool {
		if h.phase == subscribed && h.stream == stream {
			lost = append(lost, h)
		}
		return true
	})
	delete(t.starved, stream)
	for _, h := range lost {
		t.counts.Failures++
		t.vacate(h, true, causeStreamGone)
	}
}

// vacate unlocks h's keys, to be looked up at once where the failure was only
// news (a first one), else after a pause that grows with each failure in a row.
func (t *Tracker) vacate(h *hold, pause bool, why string) {
	due := t.now
	if pause || h.fails > 0 {
		due += jitter(t.rng, h.fails)
	}
	h.fails++
	if h.locked() {
		delete(t.regions, h.region.ID)
		h.why = why
	}
	t.forget(h)
	t.cover.unlock(h, due)
}

// forget drops what waits for commits.
func (t *Tracker) forget(h *hold) {
	if h.match != nil {
		if h.match.initialized {
			t.scanned--
		}
		h.match.forget()
		if h.match.everAway {
			t.out.Gone = append(t.out.Gone, h.match.number)
		}
		h.match = nil
	}
}

// end gives a registration up that TiKV still serves.
func (t *Tracker) end(h *hold) {
	if h.stream != 0 {
		t.out.Ends = append(t.out.Ends, Source{Stream: h.stream, Slot: h.slot, Region: h.region.ID})
	}
}

// again keeps the lock and registers the same region once more: at once where
// nothing asks for a pause, else no earlier than atLeast.
func (t *Tracker) again(h *hold, atLeast time.Duration, why string) {
	due := t.now
	if atLeast > 0 || h.fails > 0 {
		due += max(atLeast, jitter(t.rng, h.fails))
	}
	h.fails++
	t.forget(h)
	h.stream, h.why = 0, why
	t.cover.schedule(h, waiting, due)
	if due == t.now {
		t.request(h)
	}
}

// describe is the history that an error carries: who, since when, how far.
func (t *Tracker) describe(h *hold) string {
	scan := "its scan is not through"
	if h.match != nil && h.match.initialized {
		scan = "its scan is through"
	}
	return fmt.Sprintf("%s of %v, registered from checkpoint-ts %d on stream %d slot %d, resolved-ts %d, %s, %d failures since it last moved; the span has resolved-ts %d of start-ts %d",
		h.region, h.span(t.cfg.Span.TableID), h.from, h.stream, h.slot, h.ts, scan, h.fails, t.told, t.cfg.StartTS)
}
