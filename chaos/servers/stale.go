package servers

import (
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/internal/binlog"
)

// staleness is by how much a heartbeat may be older than a checkpoint that had been
// told before it was written: a commit takes its time upstream, the log knows its
// moments to the second, and a new owner begins with what was persisted last.
const staleness = 5 * time.Second

// written is a heartbeat in the binary log.
type written struct {
	gtid       string
	at, moment time.Time
}

// heartbeat is a change of a heartbeat's row.
func (l *log) heartbeat(t binlog.Txn, c binlog.Change) {
	if c.After == nil {
		return
	}
	if ms, ok := c.After[slices.Index(c.Columns, "at")].(int64); ok {
		l.beats = append(l.beats, written{t.GTID, t.At, time.UnixMilli(ms)})
	}
}

// stale looks for rows that were written again when all had long been told to be
// there: whoever writes them has slept, and knows nothing of those who came after.
// Told are the looks at the checkpoint, in order, as beats are.
func (l *log) stale(told []sample) {
	if l.Beats = len(l.beats); l.Beats == 0 {
		l.wrong("there are no heartbeats: nothing was shown of stale writes")
	}
	var known time.Time
	for _, b := range l.beats {
		for len(told) > 0 && told[0].at.Before(b.at) {
			if told[0].moment.After(known) {
				known = told[0].moment
			}
			told = told[1:]
		}
		if b.moment.Add(staleness).Before(known) {
			l.wrong("stale: transaction %s writes at %v a heartbeat of %v; a checkpoint of %v had been told by then",
				b.gtid, b.at.UnixMilli(), b.moment.UnixMilli(), known.UnixMilli())
		}
	}
}

// fellBack counts how often a checkpoint was told that was lower than one before, and
// by how much. That is how it looks from outside when the owner changes: what was told
// is downstream, and may not be persisted yet.
func (l *log) fellBack(told []sample) {
	var known time.Time
	for _, s := range told {
		if back := known.Sub(s.moment); back > 0 && !known.IsZero() {
			l.Back++
			l.BackMost = max(l.BackMost, back)
		}
		known = s.moment
	}
}
