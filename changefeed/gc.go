package changefeed

import (
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Hold is what must not be collected while the changefeed may go on (P7): nothing
// at or above it. ok is false where it holds nothing back: it has ended, or what it
// needs is gone.
func (l *Life) Hold() (ts tso.TS, ok bool) {
	if l.info.Loss != nil {
		return 0, false // nothing is read from there any more
	}
	switch l.status.State {
	case Finished, Removed:
		return 0, false
	case Failed:
		if l.info.Error.lost() {
			return 0, false
		}
	}
	return l.status.CheckpointTS.Prev(), true // the schema is read just below the checkpoint
}

// collected fails a changefeed that garbage collection has passed, or that has held
// it back for too long.
//
// Too long is gc-ttl behind the present. One that stands has no more than that. One
// that runs has it as long as its checkpoint moves: failing what catches up would
// only lose it.
func (l *Life) collected(v View) {
	held, ok := l.Hold()
	if !ok || v.Safepoint == 0 {
		return
	}
	s := &l.status
	if !v.Blocking {
		if held < v.Safepoint {
			why := v.Why
			if why == "" {
				why = fmt.Sprintf("GC safepoint %d (%s)", v.Safepoint, v.Safepoint.Time())
			}
			l.lose(v.Now, cdcerr.SnapshotLostByGC.New("checkpoint-ts %d (%s), %s", s.CheckpointTS, s.CheckpointTS.Time(), why))
		}
		return
	}
	age := v.Now.Sub(held.Time())
	stands := s.State == Stopped || s.State == Failed || v.Now.Sub(l.movedAt) > l.opts.GCTTL
	if age > l.opts.GCTTL && stands {
		l.lose(v.Now, cdcerr.GCTTLExceeded.New("checkpoint-ts %d is %s old, gc-ttl is %s", s.CheckpointTS, age.Round(time.Second), l.opts.GCTTL))
	}
}

// lose fails the changefeed for good; the error before it is not lost with it.
func (l *Life) lose(now time.Time, err error) {
	f := NewFault(err, "", now)
	if before := l.info.Error; before != nil {
		f.Message += "; before that: " + before.Message
		if len(f.Message) > messageMax {
			f.Message = f.Message[:messageMax] + "..."
		}
	}
	if l.status.State == Failed {
		l.note("%s", f.Code)
	}
	l.fail(f)
}
