package owner

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// historyLen is how many moves and transitions are kept: the checkpoint's last minutes,
// in a hundred kilobytes.
const historyLen = 1024

// textLen is how many of each an error tells: what led there is among the last.
const textLen = 12

// history is what has happened, for who looks into a fault.
type history struct {
	moves ring[tso.Move]
	trace ring[scheduler.Transition]
}

func (h *history) note(r scheduler.Ready) {
	for _, m := range r.Moves {
		h.moves.add(m)
	}
	for _, t := range r.Trace {
		h.trace.add(t)
	}
}

// text is the last of it.
func (h *history) text() string {
	var lines []string
	for _, m := range last(h.moves.all()) {
		lines = append(lines, m.String())
	}
	for _, t := range last(h.trace.all()) {
		lines = append(lines, fmt.Sprintf("%v %v to %v, primary %q, secondary %q, at %d: %s", t.Span, t.From, t.To, t.Primary, t.Secondary, t.Checkpoint, t.Why))
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "; ")
}

func last[T any](all []T) []T { return all[max(0, len(all)-textLen):] }

// ring keeps the last that were added.
type ring[T any] struct {
	kept []T
	next int // where the next goes, once all places are taken
}

func (r *ring[T]) add(x T) {
	if len(r.kept) < historyLen {
		r.kept = append(r.kept, x)
		return
	}
	r.kept[r.next] = x
	r.next = (r.next + 1) % historyLen
}

// all are those that are kept, oldest first.
func (r *ring[T]) all() []T {
	return append(append([]T(nil), r.kept[r.next:]...), r.kept[:r.next]...)
}

// loggedMax is how many transitions of one look are logged one by one: what a move does.
// More are those of a capture that is lost, or of a beginning.
const loggedMax = 16

// warnBeats is how many beats go by before what captures ride out is passed on again:
// ten seconds.
const warnBeats = 200

// tell logs and passes on what is only to be known.
func (l *Loop) tell(r scheduler.Ready) {
	for i, t := range r.Trace {
		if i == loggedMax {
			l.cfg.Log.Info("and more spans", "changefeed", l.cfg.Changefeed, "spans", len(r.Trace)-i)
			break
		}
		l.cfg.Log.Info("state of span", "changefeed", l.cfg.Changefeed, "span", t.Span, "from", t.From.String(), "to", t.To.String(),
			"primary", t.Primary, "secondary", t.Secondary, "checkpoint-ts", t.Checkpoint, "why", t.Why)
	}
	for _, f := range r.Fences {
		l.cfg.Log.Warn("a capture is fenced off", "changefeed", l.cfg.Changefeed, "capture", f.Capture, "term", f.Term)
	}
	for _, f := range r.Spared {
		l.cfg.Log.Warn("a capture fails while others do not: its spans go elsewhere, and it has none for a while", "changefeed", l.cfg.Changefeed, "capture", f.Capture, "error", f.Err)
	}
	for _, w := range r.Warnings {
		l.cfg.Warn(w)
	}
}

// silentBeats is how many beats a capture that is waited for may say nothing before that
// is told: fifteen seconds. One that is gone has left the members by then.
const silentBeats = 300

// warnAgain passes on what captures ride out still, a checkpoint that moved in between
// may have taken it for over; and who keeps the others waiting.
func (l *Loop) warnAgain() {
	for _, s := range l.Standings() {
		if s.Silent >= silentBeats {
			l.cfg.Silent(s.ID, time.Now().Add(-time.Duration(s.Silent)*l.cfg.TickEvery))
		}
		if s.Warning != "" {
			l.cfg.Warn(scheduler.Fault{Capture: s.ID, Err: s.Warning})
		}
	}
}
