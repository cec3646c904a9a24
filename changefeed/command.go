package changefeed

import (
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Pause ends the run until Resume. Pausing twice is no error.
func (l *Life) Pause() error {
	switch l.status.State {
	case Stopped:
		return nil
	case Normal, Warning, Pending:
		l.info.Trouble = nil
		l.kept.info = false
		l.stop()
		l.enter(Stopped, "paused")
		return nil
	}
	return l.refused("paused")
}

func (l *Life) refused(what string) error {
	return cdcerr.UpdateRefused.New("changefeed %s is %s and cannot be %s", l.info.ID(), l.status.State, what)
}

// Resumption says from where to go on.
type Resumption struct {
	Overwrite tso.TS // 0: from the checkpoint
	Present   tso.TS // PD's
	Safepoint tso.TS // below what GC may collect; 0 is not known
}

// Resume lets a changefeed go on that stands, or that waits to be tried again: an
// operator who has mended what was wrong need not wait as well. Its errors are
// over. A checkpoint that an operator gives begins a new epoch (P3), and may lie on
// either side.
func (l *Life) Resume(now time.Time, r Resumption) error {
	switch l.status.State {
	case Failed, Stopped, Finished, Pending:
	default:
		return l.refused("resumed")
	}
	if l.info.Loss != nil {
		return l.resumeApply(r)
	}
	from := l.status.CheckpointTS
	if r.Overwrite != 0 {
		from = r.Overwrite
	}
	switch {
	case r.Overwrite > r.Present:
		return cdcerr.CheckpointInvalid.New("overwrite-checkpoint-ts %d (%s) is in the future: the upstream's present is %d (%s)", r.Overwrite, r.Overwrite.Time(), r.Present, r.Present.Time())
	case l.info.TargetTS != 0 && from >= l.info.TargetTS:
		return cdcerr.TargetTSInvalid.New("changefeed %s: the checkpoint %d to go on from has reached the target-ts %d; update it with a later target-ts, or 0 for none, and resume it then", l.info.ID(), from, l.info.TargetTS)
	case from.Prev() < r.Safepoint && r.Overwrite != 0:
		return cdcerr.StartTSBeforeGC.New("overwrite-checkpoint-ts %d (%s), GC safepoint %d (%s)", from, from.Time(), r.Safepoint, r.Safepoint.Time())
	case from.Prev() < r.Safepoint:
		return cdcerr.SnapshotLostByGC.New("checkpoint-ts %d (%s), GC safepoint %d (%s)", from, from.Time(), r.Safepoint, r.Safepoint.Time())
	}
	if r.Overwrite != 0 {
		l.status.Epoch++
		l.kept.status = false
		l.move(tso.StageCheckpoint, &l.status.CheckpointTS, from, "set by an operator")
		l.move(tso.StageGlobal, &l.status.ResolvedTS, from, "set by an operator")
	}
	l.info.Error, l.info.Warning, l.info.Trouble = nil, nil, nil
	l.kept.info, l.movedAt = false, now
	l.next() // what the last run still has to say does not count in the new epoch
	l.enter(Normal, "resumed")
	return nil
}

// Change is what to change; nil leaves it.
type Change struct {
	TargetTS *tso.TS
	SinkURI  *URI
	Config   *Config
	Limits   Limits
}

// Update changes a changefeed that stands; one that is finished so that it can be
// given a later target-ts and resumed. The notes are for whoever asked. A sink
// URI that comes back masked is the old one.
func (l *Life) Update(c Change) (notes []string, err error) {
	next, notes, err := l.Updated(c)
	if err != nil {
		return nil, err
	}
	l.info = next
	l.kept.info = false
	return notes, nil
}

// Updated is what Update would make of the changefeed, which stays as it is.
func (l *Life) Updated(c Change) (next Info, notes []string, err error) {
	fail := func(err error) (Info, []string, error) { return Info{}, nil, err }
	switch l.status.State {
	case Stopped, Failed, Finished:
	default:
		return fail(l.refused("updated"))
	}
	if loss := l.info.Loss; loss != nil {
		switch {
		case loss.AppliedTS != 0:
			return fail(l.over("updated"))
		case c.TargetTS != nil || c.Config != nil:
			return fail(cdcerr.UpdateRefused.New("changefeed %s ends with its redo log, since the upstream is lost: only its sink URI can be changed, before it is resumed", l.info.ID()))
		}
	}
	next = l.info
	if c.TargetTS != nil {
		next.TargetTS = *c.TargetTS
	}
	if c.SinkURI != nil && c.SinkURI.Reveal() != l.info.SinkURI.String() {
		next.SinkURI = *c.SinkURI
	}
	if c.Config != nil {
		next.Config = *c.Config
		if was, is := &l.info.Config.Consistent, &next.Config.Consistent; was.On() != is.On() || was.Storage != is.Storage {
			next.RedoTurns++
		}
	}
	if next.TargetTS != 0 && next.TargetTS <= max(next.StartTS, l.status.CheckpointTS) {
		return fail(cdcerr.TargetTSInvalid.New("target-ts %d, start-ts %d, checkpoint-ts %d", next.TargetTS, next.StartTS, l.status.CheckpointTS))
	}
	if err := next.Config.Validate(c.Limits); err != nil {
		return fail(err)
	}
	if notes, err = next.Config.Check(next.SinkURI); err != nil {
		return fail(err)
	}
	return next, notes, nil
}

// Fail ends the changefeed until an operator acts, for a reason that no run has
// reported. One that has failed, or is removed, stays so.
func (l *Life) Fail(f *Fault) {
	if l.status.State != Failed && l.status.State != Removed {
		l.fail(f)
	}
}

// Remove ends the changefeed for good.
func (l *Life) Remove() {
	l.stop()
	l.enter(Removed, "removed")
}
