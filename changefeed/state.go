package changefeed

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// State is where a changefeed stands.
type State string

// The states, in TiCDC's words.
const (
	Normal   State = "normal"   // it runs
	Warning  State = "warning"  // it runs, after an error or in spite of one, and has not yet gone on
	Pending  State = "pending"  // it waits to be tried again
	Failed   State = "failed"   // it stands until an operator acts
	Stopped  State = "stopped"  // an operator has paused it
	Finished State = "finished" // everything up to its target-ts is downstream
	Removed  State = "removed"  // an operator has removed it
)

// states are all of them, by the number that metrics show.
var states = []State{Normal, Pending, Failed, Stopped, Finished, Removed, Warning}

// Number is what the metric of a changefeed's state shows; -1 for no state.
func (s State) Number() int { return slices.Index(states, s) }

// Running tells whether a capture should work on it.
func (s State) Running() bool { return s == Normal || s == Warning }

// AdminJob is TiCDC's number for the order that led here: 0 none, 1 stop, 3
// remove, 4 finish.
func (s State) AdminJob() int {
	switch s {
	case Pending, Failed, Stopped:
		return 1
	case Removed:
		return 3
	case Finished:
		return 4
	}
	return 0
}

// Fault is what went wrong with a changefeed, when and where.
type Fault struct {
	Time    time.Time `json:"time"`
	Addr    string    `json:"addr"` // of the capture
	Code    string    `json:"code"`
	Message string    `json:"message"`
}

// messageMax bounds a fault's text: some hold a whole statement, and etcd's values
// are small.
const messageMax = 4096

// NewFault makes an error one; addr is the capture's on which it happened.
func NewFault(err error, addr string, at time.Time) *Fault {
	f := &Fault{Time: at, Addr: addr, Message: err.Error()}
	f.Code = "CDC:ErrChangefeedRetryable" // what TiCDC calls an error that nobody knows: it is tried again
	if c := cdcerr.Of(err); c != nil {
		f.Code = c.ID
	}
	if len(f.Message) > messageMax {
		f.Message = strings.ToValidUTF8(f.Message[:messageMax], "") + "..."
	}
	return f
}

// class is what is done about the fault; a code that nobody knows is tried again.
func (f *Fault) class() cdcerr.Class {
	if c := cdcerr.Find(f.Code); c != nil {
		return c.Class
	}
	return cdcerr.Retry
}

// Local tells whether it may be the trouble of one capture alone.
func (f *Fault) Local() bool {
	c := cdcerr.Find(f.Code)
	return c != nil && c.Local()
}

// lost tells whether garbage collection has taken what the changefeed needs: it
// cannot go on from its checkpoint, and holds nothing back any more.
func (f *Fault) lost() bool {
	return f != nil && slices.Contains([]string{cdcerr.GCTTLExceeded.ID, cdcerr.SnapshotLostByGC.ID, cdcerr.StartTSBeforeGC.ID}, f.Code)
}
