package scheduler

import (
	"fmt"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Revision tells owners apart: the create-revision of the owner's key in etcd. A
// later owner has a higher one.
type Revision int64

// Term is the leave under which a capture writes. A downstream with a fence refuses
// the writer whose term is below the floor that was raised for it. Owners take terms
// from disjoint ranges, later owners from higher ones.
type Term uint64

// termBits is how many terms an owner can give: a million captures that vanish in one
// reign. Revisions have 44 bits left, at ten thousand a second half a century.
const termBits = 20

func firstTerm(r Revision) Term { return Term(r) << termBits }

// Owner is who gave the term. A capture's floor may be made downstream only while the
// record's fence is not above it.
func (t Term) Owner() Revision { return Revision(t >> termBits) }

// Head is what tells whether a message still means anybody.
type Head struct {
	Owner       Revision
	Epoch       uint64 // the changefeed's
	Capture     capture.ID
	Incarnation uint64 // which life of the capture's half; 0 from an owner that does not know it
	Term        Term
	Seq         uint64 // grows within one owner and incarnation; what comes late is dropped
}

// Orders is what the owner sends a capture.
type Orders struct {
	Head
	Ack     uint64 // the change up to which the owner knows all that the capture reported
	Barrier Barrier
	Orders  []Order
}

// Verb is what is to be done with a span.
type Verb uint8

// The verbs.
const (
	Prepare Verb = iota + 1 // have its rows ready from From on, write nothing
	Write                   // write its rows above From
	Stop                    // write no more, let it go, say up to where it was written
)

// Order is one verb for one span. Doing it twice is doing it once.
type Order struct {
	Verb  Verb
	Span  span.Span
	From  tso.TS
	Grant Term // of Write: which placement this is, over all owners
}

// Barrier is what holds rows back, and what does not any more. Captures know by
// themselves at which timestamps DDLs stand; it tells them which are done.
type Barrier struct {
	Known  bool   // false in the zero value, by which nothing may be written
	Passed tso.TS // every DDL at or below is done; the durable checkpoint
	Sync   tso.TS // the next sync point: no row above it; tso.Max for none
	// Gate is the resolved-ts of the redo log's meta that is on the storage: no row
	// above it (P5). 0 where there is no redo log.
	Gate   tso.TS
	Tables []Passed
}

// Passed says that the DDLs of a table at or below TS are done.
type Passed struct {
	Table span.TableID
	TS    tso.TS
}

// Phase is how far a capture is with a span.
type Phase uint8

// The phases.
const (
	Absent Phase = iota // it has nothing of it
	Preparing
	Prepared
	Writing
	Stopping
	Stopped // it writes no more; it is forgotten once the owner knows
)

// Status is what a capture says of one span.
type Status struct {
	Change     uint64 // the capture's number of this news; what was acknowledged is not news
	Span       span.Span
	Phase      Phase
	Checkpoint tso.TS // every row at or below is downstream
	Resolved   tso.TS
	Grant      Term
	Regions    uint32 // how the span is loaded, where the capture has counted
	Traffic    uint64 // bytes a second
}

// Progress is a pair of timestamps with Checkpoint <= Resolved. In a floor, with a redo
// log, Resolved is up to where the log has every row, durably.
type Progress struct {
	Checkpoint tso.TS
	Resolved   tso.TS
}

// Report is what a capture sends the owner: every change that the owner has not
// acknowledged, the oldest first. If that is all of them it is complete, and Floor
// is the least of all spans that it writes at that moment.
type Report struct {
	Head
	Upto     uint64 // the last change in it
	Complete bool
	Writes   int // how many spans Floor is the least of
	Floor    Progress
	// Extents are the files of the redo log that the capture counts on when it says
	// Floor.Resolved. What is in them is the shells' matter.
	Extents  []byte
	Liveness capture.Liveness
	Statuses []Status
	Deaf     bool   // it does not hear all of the upstream, as far as it can tell
	Fault    string // why the capture cannot go on with what it has; it holds nothing
	Warning  string // what it rides out at this moment, "" for nothing

	// What the capture's shell adds for whoever looks on; nothing is decided by it.
	Rows    uint64 // written in this life
	Written tso.TS // the commit-ts of the last of them; 0 for none
}

func (v Verb) String() string {
	return [...]string{"none", "prepare", "write", "stop"}[v]
}

func (p Phase) String() string {
	return [...]string{"absent", "preparing", "prepared", "writing", "stopping", "stopped"}[p]
}

func (o Order) String() string {
	return fmt.Sprintf("%v %v from=%d grant=%d", o.Verb, o.Span, o.From, o.Grant)
}
