// Package sink owns the interface to a downstream and the switch from a URI's
// scheme to the package that speaks to it.
package sink

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Grant is the leave to write (P1). A write that has not begun to commit by
// Deadline must not commit; the zero Deadline has no end. Epoch is the
// changefeed's, Fence the writer's: they are for downstreams that can compare them
// and refuse an older one, which none of the sinks that there are does.
type Grant struct {
	Deadline time.Time
	Epoch    uint64
	Fence    uint64
}

// Leave is the leave to write as it stands: it is asked whenever something is
// about to become durable, since it is renewed while a sink works, and what is
// queued would otherwise outlive the grant that it came with. It may be asked by
// several goroutines at once.
//
// A deadline is compared with time.Now, whose steady clock may stand still while
// the machine sleeps. That is one more reason to ask late: the answer is then
// never older than the moment.
type Leave func() Grant

// Endless is the leave of who shares its downstream with nobody.
func Endless() Grant { return Grant{} }

// Check is an error if the leave has ended: nothing may begin to commit.
func (l Leave) Check() error {
	g := l()
	if !g.Deadline.IsZero() && !time.Now().Before(g.Deadline) {
		return cdcerr.LeaveEnded.New("it ended at %s", g.Deadline.Format(time.RFC3339Nano))
	}
	return nil
}

// A Surveyor is a sink that can tell, before the first row, what will stand in the
// way of a changefeed of these tables: an error for what must, notes for what may.
type Surveyor interface {
	Survey(ctx context.Context, tables []*event.Table) (notes []string, err error)
}

// A Role is what of a changefeed a sink is for. One of several captures writes rows
// only, and does not see the DDLs of its tables; their owner has a sink that writes
// none.
type Role uint8

// The roles.
const (
	Whole Role = iota // everything, with nobody beside it
	Rows              // rows of some spans, under the name of a capture
	Owner             // DDLs, sync points, and the fences of captures
)

// A Usurper is a sink that can take the place of whoever writes as its changefeed.
type Usurper interface {
	// TakeOver returns when nobody writes any more who does so now, neither the owner nor
	// a capture, and gives the leave to write in their place. A later owner has the
	// place again. It is asked before anything else.
	TakeOver(ctx context.Context) (Leave, error)
}

// Fencer is a sink that can keep a capture from writing what is stale. Its methods
// may be called while others run.
type Fencer interface {
	// Fences tells whether it can, in this downstream.
	Fences() bool
	// Raise sees to it that a capture writes nothing under a term below this one any
	// more: what it has begun is durable when Raise returns, or never will be.
	Raise(ctx context.Context, capture string, term uint64) error
	// Floors are the captures that have a place at the fence, and all that will ever
	// have one under an earlier owner than this sink's.
	Floors(ctx context.Context) ([]string, error)
}

// Recorder is a sink that can keep a record of the DDLs that it has carried out.
type Recorder interface {
	// Keeps tells whether it does, in this downstream.
	Keeps() bool
	// Recorded is what the record says, in order of TS, once no earlier owner can
	// add to it. It is asked before the first DDL.
	Recorded(ctx context.Context) ([]Recorded, error)
}

// Foreseer is a sink that tells of a DDL, before anything is carried out, what it cannot
// make of it where there is no upstream to be read.
type Foreseer interface {
	Foresee(d *event.DDL) []Doubt
}

// Doubt is a table that a DDL leaves otherwise than upstream has it.
type Doubt struct {
	Table *event.Table // as it is after the DDL
	Why   string
	Stops bool // the DDL cannot be carried out at all
}

// Recorded is a DDL on record. Job 0 stands for all whose TS is below this one: they
// are done.
type Recorded struct {
	Job int64
	TS  tso.TS // its SwitchTS: rows of its tables at or below are downstream, and must not come again
	// Done is false where it has begun, and how far it came is to be found out: it is
	// carried out like any other, and does what is left.
	Done bool
	// Tables are the physical ids of its tables as they were before it.
	Tables []int64
}

// Sink writes one changefeed's changes to one downstream. Calls come one at a
// time, from one goroutine, but for Checkpoint in the role of Owner, which may be
// called while a DDL runs.
type Sink interface {
	// Write takes transactions in (commit-ts, start-ts) order. It may return before
	// they are durable downstream, and goes on with them under ctx until Flush; it
	// blocks while it has too much to do. An error may be that of an earlier Write:
	// what of all that was not flushed is downstream is then not known. Delivered
	// twice, transactions must leave the downstream as if delivered once. The leave
	// is asked at each commit.
	//
	// A transaction comes in pieces only if it is too large to be held and Whole is
	// false. Each piece may be written by itself: rows that give up a key for which
	// another row may come stand in earlier pieces than that row. For this an
	// update that moves such a row's key may come as a deletion and an insert.
	Write(ctx context.Context, leave Leave, txns []event.Txn) error
	// Flush returns when all that was written is durable downstream.
	Flush(ctx context.Context) error
	// Whole tells that every transaction must be written at once or not at all:
	// one that is too large for that ends the changefeed.
	Whole() bool
	// DDL carries out one DDL after everything at or below its SwitchTS was flushed.
	// The leave is asked before every attempt.
	DDL(ctx context.Context, leave Leave, d *event.DDL) error
	// SyncPoint records a pair of timestamps: upstream's, and the downstream's own
	// at which it holds the same. Everything up to p.TS was flushed, DDLs too, and
	// nothing above; it may be asked for again after a crash. Where there is
	// nothing to record it in, it does nothing.
	SyncPoint(ctx context.Context, leave Leave, p event.SyncPoint) error
	// Checkpoint says that everything up to ts is downstream; to an Owner's sink, that
	// this is durable: no DDL at or below comes again.
	Checkpoint(ctx context.Context, ts tso.TS) error
	// Close releases connections. No call follows it.
	Close() error
}
