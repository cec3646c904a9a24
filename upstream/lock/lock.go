package lock

import (
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// Lock is one lock as a store describes it. Keys are raw.
type Lock struct {
	Key     []byte
	Primary []byte // the key whose lock decides
	StartTS tso.TS // names the transaction
	// TTLMS is the time to live in milliseconds from the wall clock part of
	// StartTS. The primary's is renewed while the owner lives, others' are not.
	TTLMS uint64
	// Size is how many keys the transaction has in this region, 0 where unknown.
	Size uint64
	// Pessimistic locks guard a key before anything is written; they hold no
	// resolved-ts back.
	Pessimistic bool
	ForUpdateTS tso.TS
	// Of a transaction that commits asynchronously.
	Async       bool
	MinCommitTS tso.TS
	Secondaries [][]byte // on the primary: all other keys
	// File marks a transaction whose content lies in files; requests repeat it.
	File bool
}

// leftMS is how long the lock lives from now on, PD's time, in milliseconds;
// negative when its time to live is over. A store that compares for itself rolls
// back from the same millisecond on.
func (l *Lock) leftMS(now tso.TS) int64 { return ttlLeftMS(l.StartTS, l.TTLMS, now) }

func ttlLeftMS(start tso.TS, ttlMS uint64, now tso.TS) int64 {
	// No clock comes to 1<<50 milliseconds, so the cut changes nothing.
	return int64(min(ttlMS, 1<<50)) - (now.Physical() - start.Physical())
}

// leftMax is the longest time that a verdict gives to a lock; whoever waits asks
// again long before.
const leftMax = time.Hour

func left(ms int64) time.Duration {
	return time.Duration(max(0, min(ms, int64(leftMax/time.Millisecond)))) * time.Millisecond
}

// Outcome is what became of a transaction.
type Outcome uint8

// The outcomes.
const (
	// Open: not decided yet, more has to be asked.
	Open Outcome = iota
	// Alive: its owner may still commit; nothing is done to its locks.
	Alive
	// Committed at Verdict.CommitTS: locks that are left are committed.
	Committed
	// RolledBack: locks that are left are rolled back.
	RolledBack
	// Abandoned: only pessimistic locks are known and their time is over. They are
	// taken away; of the transaction itself nothing is decided.
	Abandoned
	// Unclear: a store's answer makes no sense. Nothing is done.
	Unclear

	Outcomes // how many there are
)

var outcomeNames = [Outcomes]string{"open", "alive", "committed", "rolled back", "abandoned", "unclear"}

// String is the outcome in a word.
func (o Outcome) String() string { return outcomeNames[o] }

// Final tells whether the outcome stands for ever, whoever asks.
func (o Outcome) Final() bool { return o == Committed || o == RolledBack }

// Verdict is what became of one transaction.
type Verdict struct {
	Outcome  Outcome
	CommitTS tso.TS        // Committed
	Left     time.Duration // Alive: until its time to live is over
	// Pushed: alive, but it will commit above the timestamp of who asked, so that
	// a read there need not wait for it.
	Pushed bool
	Reason string // Unclear: why
}

// String is the verdict as messages and scripts show it.
func (v Verdict) String() string {
	switch v.Outcome {
	case Committed:
		return fmt.Sprintf("committed at %d", v.CommitTS)
	case Alive:
		pushed := ""
		if v.Pushed {
			pushed = ", pushed"
		}
		return fmt.Sprintf("alive for %v%s", v.Left, pushed)
	case Unclear:
		return "unclear: " + v.Reason
	default:
		return v.Outcome.String()
	}
}
