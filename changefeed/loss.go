package changefeed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Loss is that an owner has decided that the upstream is lost. It stands, whatever
// becomes of the owner or the upstream: the changefeed ends with what its redo log holds.
type Loss struct {
	At   time.Time `json:"at"`
	Addr string    `json:"addr"` // of the capture that led
	// AppliedTS is what the downstream is the upstream's snapshot at; 0: the log is not
	// applied yet.
	AppliedTS tso.TS `json:"applied-ts,omitempty"`
	// Inexact is where the downstream is not that snapshot, or is not known to be, and why.
	Inexact []string `json:"inexact,omitempty"`
}

// Addresses are where the upstream is, host:port.
type Addresses struct {
	PD     []string `json:"pd"`
	Stores []string `json:"stores"`
}

func (a *Addresses) equal(b *Addresses) bool {
	return a != nil && b != nil && slices.Equal(a.PD, b.PD) && slices.Equal(a.Stores, b.Stores)
}

// Ends tells whether the changefeed ends with its redo log, and has not yet.
func (i *Info) Ends() bool { return i.Loss != nil && i.Loss.AppliedTS == 0 }

// Guarded tells whether the owner has to see to it that the upstream is there: it goes on,
// or would, and ends with its redo log if not.
func (l *Life) Guarded() bool {
	s := l.status.State
	return l.info.Config.Consistent.Applies() && l.info.Loss == nil && (s.Running() || s == Pending)
}

// Found keeps where the upstream is.
func (l *Life) Found(a Addresses) {
	if !l.info.Upstream.equal(&a) {
		l.info.Upstream, l.kept.info = &a, false
	}
}

// Away shows that nothing of the upstream is reached. Until Reached that is no reason to
// give up.
func (l *Life) Away(now time.Time, f *Fault) {
	if l.info.Trouble == nil {
		l.trouble(now).From = l.status.CheckpointTS
	}
	if !l.info.Trouble.Away {
		l.trouble(now).Away = true
	}
	l.show(f)
	if l.status.State == Normal {
		l.enter(Warning, f.Code)
	}
}

// Reached ends that. Whatever else is in the way has its time from now on.
func (l *Life) Reached(now time.Time) {
	if l.info.Trouble == nil || !l.info.Trouble.Away {
		return
	}
	t := l.trouble(now)
	t.Since, t.Away = now, false
	if t.RetryAt.After(now) {
		t.RetryAt = now
	}
}

// Lose decides that the upstream is lost. The run ends, and there is no other one.
func (l *Life) Lose(now time.Time, addr string) {
	if !l.Guarded() {
		return
	}
	l.info.Loss = &Loss{At: now, Addr: addr}
	l.clear()
	l.info.Warning = NewFault(cdcerr.UpstreamLost.New("PD and all stores have been out of reach for %v: the redo log is being applied", l.info.Config.Consistent.Grace()), addr, now)
	l.stop()
	l.enter(Pending, "the upstream is lost")
}

func (l *Life) clear() {
	l.info.Error, l.info.Warning, l.info.Trouble = nil, nil, nil
	l.kept.info = false
}

// apply has the redo log applied.
func (l *Life) apply() {
	if l.info.Ends() && l.status.State == Pending && !l.applying {
		l.applying, l.out.Apply = true, true
	}
}

// ApplyWarns shows how applying gets on, and what it rides out.
func (l *Life) ApplyWarns(f *Fault) {
	if l.applying {
		l.show(f)
	}
}

// ApplyFails ends it until an operator resumes it.
func (l *Life) ApplyFails(f *Fault) {
	if l.applying {
		l.fail(f)
	}
}

// Applied ends the changefeed: the downstream is the upstream's snapshot at ts, but for what
// is inexact.
func (l *Life) Applied(now time.Time, addr string, ts tso.TS, inexact ...string) {
	if !l.applying {
		return
	}
	if ts < l.status.CheckpointTS {
		l.fail(NewFault(cdcerr.Bug("P5: the redo log ends at %d, below the checkpoint-ts %d", ts, l.status.CheckpointTS), addr, now))
		return
	}
	l.applying = false
	loss := *l.info.Loss
	loss.AppliedTS, loss.Inexact = ts, inexact
	l.clear()
	l.info.Loss = &loss
	l.info.Warning = NewFault(cdcerr.UpstreamLost.New("%s", loss.reason()), addr, now)
	l.move(tso.StageGlobal, &l.status.ResolvedTS, max(ts, l.status.ResolvedTS), "applied")
	l.move(tso.StageCheckpoint, &l.status.CheckpointTS, ts, "applied")
	l.enter(Finished, loss.reason())
}

// inexactMax is how many of a loss's words a message has.
const inexactMax = 10

func (l *Loss) reason() string {
	text := fmt.Sprintf("upstream lost, applied to %d (%s UTC)", l.AppliedTS, l.AppliedTS.Time().UTC().Format("2006-01-02 15:04:05.000"))
	if n := len(l.Inexact); n > 0 {
		more := ""
		if n > inexactMax {
			more = fmt.Sprintf("; and %d more, which are in the owner's log", n-inexactMax)
		}
		text += "; not exact: " + strings.Join(l.Inexact[:min(n, inexactMax)], "; ") + more
	}
	return text
}

// resumeApply goes on with what is left to be applied: never with the upstream.
func (l *Life) resumeApply(r Resumption) error {
	switch {
	case l.info.Loss.AppliedTS != 0:
		return l.over("resumed")
	case l.status.State == Pending:
		return cdcerr.UpdateRefused.New("changefeed %s ends with its redo log, since the upstream is lost, and the log is being applied", l.info.ID())
	case r.Overwrite != 0:
		return cdcerr.UpdateRefused.New("changefeed %s ends with its redo log, since the upstream is lost: resume it without an overwrite-checkpoint-ts, and the rest of the log is applied", l.info.ID())
	}
	l.clear()
	l.enter(Pending, "resumed: the redo log is applied")
	return nil
}

// over refuses what an operator wants of a changefeed that has ended so.
func (l *Life) over(what string) error {
	loss := l.info.Loss
	return cdcerr.UpdateRefused.New("changefeed %s has ended (%s) and cannot be %s: the upstream may come back without what it had, or the downstream may have been written to. "+
		"If neither is so, remove the changefeed and create one with start-ts %d; else copy the data anew, and start where the copy ends", l.info.ID(), loss.reason(), what, loss.AppliedTS.Next())
}

// Vigil is for how long one owner has seen nothing of the upstream. It is judged by a
// steady clock, and by looks that follow each other: time in which nobody looked, as while
// a machine stood still, does not count.
type Vigil struct {
	last   time.Duration // when that was seen last; meaningful while sure
	sure   bool
	silent time.Duration
	away   bool
}

// Sight is what is seen of the upstream.
type Sight struct {
	At time.Duration // by a steady clock
	// Reached says that some capture reaches something of it, PD or a store; Lost, that
	// all have tried, and none does. Neither is so where one has not tried yet.
	Reached, Lost bool
}

// lookMax is the most that a look adds: looks are seconds apart, or as long as it takes to
// find nobody at the addresses of a large cluster.
const lookMax = 10 * time.Second

// Look takes in what is seen.
func (v *Vigil) Look(s Sight) {
	switch {
	case s.Reached:
		*v = Vigil{}
	case !s.Lost:
		v.sure = false
	default:
		if v.sure {
			v.silent += min(max(0, s.At-v.last), lookMax)
		}
		v.last, v.sure, v.away = s.At, true, true
	}
}

// Away tells whether the upstream was lost from sight and has not been seen since.
func (v *Vigil) Away() bool { return v.away }

// Left is how much longer it has to be away for a grace to be over.
func (v *Vigil) Left(grace time.Duration) time.Duration { return max(0, grace-v.silent) }

// Lost tells whether it has been away for so long, and still is.
func (v *Vigil) Lost(grace time.Duration) bool { return v.sure && v.silent >= grace }
