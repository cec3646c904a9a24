package region

import (
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Slots is how many registrations of one region can be told apart on one
// stream. A region that registers again takes the next slot, so that what is
// still under way for the old registration cannot be taken for the new one's.
// Eight, because each slot is a request id of its own and TiKV batches
// resolved-ts by request id: few ids keep the batches large, and nothing stays
// under way for eight registrations.
const Slots = 8

// Region is a region as PD described it.
type Region struct {
	ID      uint64
	ConfVer uint64
	Version uint64    // grows with each split and merge
	Span    span.Span // all its keys
	Store   uint64    // the store of its leader; 0 where it has none
}

// String names the region as messages do.
func (r Region) String() string {
	return fmt.Sprintf("region %d version %d on store %d", r.ID, r.Version, r.Store)
}

// Request asks a store for the changes of one region: everything with a
// commit-ts above StartTS, of the keys of Span (a part of the region).
type Request struct {
	Region  Region
	Span    span.Span
	StartTS tso.TS
	Slot    uint8
	// Urgent scans go before others: of what was followed already, or is little
	// behind. The rest is history that nobody has waited for yet.
	Urgent bool
}

// Stuck is a part of a region whose resolved-ts may be held back by a lock with
// a start-ts at or below Target.
type Stuck struct {
	Region Region
	Span   span.Span
	Target tso.TS
}

// Laggard is a region whose resolved-ts stays behind others'.
type Laggard struct {
	Region   Region
	Span     span.Span
	Resolved tso.TS
	Behind   time.Duration // the fastest region's resolved-ts, or PD's time
	Still    time.Duration // since its resolved-ts last moved
	Renewals int           // registrations given up for it since then
	// HeldBy is the start-ts of the oldest transaction that has written here and
	// not ended, HeldKey one of its keys; 0 where none is seen.
	HeldBy  tso.TS
	HeldKey []byte
}

// Source tells which registration an event belongs to.
type Source struct {
	Stream uint64 // the connection's own number, new at every connect
	Slot   uint8
	Region uint64
}

// EntryType is what TiKV says happened to a key.
type EntryType uint8

// The types, with TiKV's numbers.
const (
	Unknown EntryType = iota
	Prewrite
	Commit
	Rollback
	Committed
	Initialized
)

// Op is TiKV's number of an operation on a key.
type Op uint8

// The operations, with TiKV's numbers.
const (
	OpUnknown Op = iota
	OpPut
	OpDelete
)

// Entry is one row of a change stream. Its bytes alias the message that brought
// it and are never changed.
type Entry struct {
	Type       EntryType
	Op         Op
	StartTS    tso.TS
	CommitTS   tso.TS
	Generation uint64 // of a pipelined transaction's flush
	Key        []byte // raw
	Value      []byte
	Old        []byte
}

// FailureKind is what TiKV says is wrong with a registration.
type FailureKind uint8

// The kinds. A Failure of the zero kind is one that TiKV did not explain.
const (
	Unexplained FailureKind = iota
	NotLeader
	NotFound // no such region there; TiKV also says so for errors without a name
	EpochNotMatch
	DuplicateRequest
	Compatibility
	ClusterIDMismatch
	ServerIsBusy
	Congested
	// Unanswered is no word of TiKV's: nothing was heard of the registration for
	// so long that it is given up.
	Unanswered

	FailureKinds // how many there are
)

var failureNames = [FailureKinds]string{"unexplained", "not_leader", "region_not_found", "epoch_not_match",
	"duplicate_request", "compatibility", "cluster_id_mismatch", "server_is_busy", "congested", "unanswered"}

// String is the name that the protocol uses.
func (k FailureKind) String() string { return failureNames[k] }

// Failure ends one registration. No event of it follows.
type Failure struct {
	Kind      FailureKind
	Leader    uint64 // NotLeader: the store of the leader, 0 where TiKV does not know
	BackoffMS uint64 // ServerIsBusy: how long TiKV wants to be left alone
	Detail    string // TiKV's words, for the error of a terminal kind
	// Regions are what has become of the region, where TiKV says so (EpochNotMatch).
	// Nothing is known of their leaders.
	Regions []Region
}
