package lock

import "github.com/sluice-cdc/sluice/tso"

// Case asks what became of one transaction, from one of its locks to a verdict.
type Case struct {
	lock   Lock
	caller tso.TS // the timestamp above which a living transaction is asked to commit

	rollback    bool // ask for a rollback where there is no trace of the transaction
	sync        bool // it turned away from asynchronous commit
	secondaries [][]byte
	least       tso.TS // of an asynchronous commit: what its commit-ts is at least
	verdict     Verdict
}

// Ask is the next question to a store: of a secondary's state if Keys is set,
// else of the transaction's, to the store of Primary.
type Ask struct {
	Keys [][]byte // those of one region may be asked together, in any order

	Primary []byte
	StartTS tso.TS
	Caller  tso.TS
	Now     tso.TS
	// RollbackIfAbsent: where nothing is known of the transaction, see to it that
	// it can never commit.
	RollbackIfAbsent bool
	// ForceSync: treat it as if it did not commit asynchronously.
	ForceSync bool
	// Pessimistic: the lock that led here is pessimistic, so the transaction need
	// not be decided.
	Pessimistic bool
	File        bool
}

// Action is what a store did while it answered.
type Action uint8

// The actions.
const (
	NoAction           Action = iota
	ExpiredRollback           // its time to live was over
	AbsentRollback            // nothing was known of it
	CommitTSPushed            // it lives and will commit above the caller
	ExpiredPessimistic        // its primary was pessimistic and is taken away
	AbsentNothing             // nothing is known of it, and nothing was done
)

// Status is a store's answer to a question for a transaction.
type Status struct {
	TTLMS    uint64 // above zero: locked
	CommitTS tso.TS // above zero: committed; neither: rolled back
	Action   Action
	Primary  *Lock // the primary lock, where the store shows it

	// Errors that are answers.
	Absent   bool   // the store knows nothing of the transaction
	Mismatch bool   // the key's lock names another key as its primary
	Trouble  string // any other
}

// New opens the case of the transaction that l belongs to. caller is the
// timestamp that l is in the way of; 0 pushes nothing.
func New(l Lock, caller tso.TS) *Case { return &Case{lock: l, caller: caller} }

// Verdict is what is known so far.
func (c *Case) Verdict() Verdict { return c.verdict }

// Open tells whether more has to be asked.
func (c *Case) Open() bool { return c.verdict.Outcome == Open }

// Ask is the next question. now is PD's time, or a little less.
func (c *Case) Ask(now tso.TS) Ask {
	if len(c.secondaries) > 0 {
		return Ask{Keys: c.secondaries, StartTS: c.lock.StartTS}
	}
	return Ask{
		Primary: c.lock.Primary, StartTS: c.lock.StartTS, Caller: c.caller, Now: now,
		RollbackIfAbsent: c.rollback, ForceSync: c.sync, Pessimistic: c.lock.Pessimistic, File: c.lock.File,
	}
}

// StepStatus takes the answer to a question for the transaction that was asked
// at now.
func (c *Case) StepStatus(s Status, now tso.TS) {
	switch {
	case !c.Open():
	case s.Trouble != "":
		c.unclear(s.Trouble)
	case s.Mismatch && c.lock.Pessimistic:
		c.mismatch(now)
	case s.Mismatch:
		c.unclear("the lock of the primary key names another primary")
	case s.Absent:
		c.absent(now)
	case s.CommitTS != 0:
		c.verdict = Verdict{Outcome: Committed, CommitTS: s.CommitTS}
	case s.TTLMS != 0:
		c.locked(s, now)
	case s.Action == ExpiredPessimistic || s.Action == AbsentNothing:
		if !c.lock.Pessimistic {
			c.unclear("a store decides nothing about a transaction that has written")
			return
		}
		c.verdict = Verdict{Outcome: Abandoned}
	default:
		c.verdict = Verdict{Outcome: RolledBack}
	}
}

// mismatch: the transaction chose another primary after this pessimistic lock was
// taken. Nothing will ever turn it into a write; its own time to live says when
// nobody needs it any more.
func (c *Case) mismatch(now tso.TS) {
	c.verdict = Verdict{Outcome: Abandoned}
	if ms := c.lock.leftMS(now); ms >= 0 {
		c.verdict = Verdict{Outcome: Alive, Left: left(ms)}
	}
}

// absent: the primary was not written yet, or the transaction is gone without
// having left a trace. Only the time to live of the lock at hand can tell.
func (c *Case) absent(now tso.TS) {
	ms := c.lock.leftMS(now)
	switch {
	case ms >= 0:
		c.verdict = Verdict{Outcome: Alive, Left: left(ms)}
	case c.rollback:
		c.unclear("a store that was told to roll back says that there is nothing")
	default:
		c.rollback = true
	}
}

func (c *Case) locked(s Status, now tso.TS) {
	ms := ttlLeftMS(c.lock.StartTS, s.TTLMS, now)
	if s.Primary == nil || !s.Primary.Async || c.sync || ms >= 0 {
		// Where the time is over the store would have rolled it back: its idea of
		// now is a little behind ours.
		c.verdict = Verdict{Outcome: Alive, Left: left(ms), Pushed: s.Action == CommitTSPushed}
		return
	}
	c.least, c.secondaries = s.Primary.MinCommitTS, s.Primary.Secondaries
	c.settle()
}

// settle: once all secondaries are seen to be there the transaction is committed.
func (c *Case) settle() {
	switch {
	case len(c.secondaries) > 0:
	case c.least == 0:
		c.unclear("a transaction that commits asynchronously has no least commit-ts")
	default:
		c.verdict = Verdict{Outcome: Committed, CommitTS: c.least}
	}
}

// StepSecondaries takes the answer for some of the keys of the last question:
// the locks that are there, and the commit-ts where one of the keys is committed.
// A store sees to it that a key without a lock never gets one.
func (c *Case) StepSecondaries(asked [][]byte, there []Lock, commit tso.TS) {
	if !c.Open() || len(c.secondaries) == 0 {
		return
	}
	if commit != 0 {
		c.verdict = Verdict{Outcome: Committed, CommitTS: commit}
		return
	}
	for i := range there {
		if !there[i].Async {
			// It fell back in the middle: the primary decides, as ever.
			c.sync, c.secondaries = true, nil
			return
		}
		c.least = max(c.least, there[i].MinCommitTS)
	}
	if len(there) < len(asked) {
		c.verdict = Verdict{Outcome: RolledBack}
		return
	}
	c.seen(asked)
	c.settle()
}

// StepTrouble takes an answer that cannot be used.
func (c *Case) StepTrouble(reason string) {
	if c.Open() {
		c.unclear(reason)
	}
}

// seen takes keys off the list of those to be asked for.
func (c *Case) seen(asked [][]byte) {
	done := make(map[string]bool, len(asked))
	for _, k := range asked {
		done[string(k)] = true
	}
	var rest [][]byte
	for _, k := range c.secondaries {
		if !done[string(k)] {
			rest = append(rest, k)
		}
	}
	c.secondaries = rest
}

func (c *Case) unclear(reason string) { c.verdict = Verdict{Outcome: Unclear, Reason: reason} }
