package sink

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

// A Journaler is a sink that keeps downstream by which redo log its changefeed was written
// there last. It is what a log is held against when it is applied: what lies on the log's
// own storage cannot tell that the newest of it was removed, nor that the changefeed went
// on without it.
type Journaler interface {
	// Journals tells whether it does, in this downstream.
	Journals() bool
	// Journal is what is kept, nil where nothing is.
	Journal(ctx context.Context) (*Journal, error)
	// Note changes what is kept; the change is given an empty one where nothing is, and
	// tells whether it is to be kept. Whoever has lost its place as the writer is refused.
	// It may be called while others run.
	Note(ctx context.Context, leave Leave, change func(j *Journal) bool) error
}

// Journal is by what a downstream was written last.
type Journal struct {
	// Log is the incarnation of the redo log whose gate let rows through last; empty: they
	// came without a log. Storage is where that log is, without what is secret.
	Log     string `json:"log"`
	Storage string `json:"storage,omitempty"`
	// Passed is up to where rows may have come at least: the gate as it was when this was
	// noted, or the checkpoint where there is no log.
	Passed tso.TS `json:"passed-ts"`
	// Applied is what sluice redo apply, or an owner without an upstream, has made of the
	// downstream since; nil: nothing, or a run of the changefeed has come after it.
	Applied *JournalApplied `json:"applied,omitempty"`
}

// JournalApplied is a redo log that is being applied, or was.
type JournalApplied struct {
	Log string `json:"log"`
	To  tso.TS `json:"to-ts"`
	// Part are the rules by which tables were left out; empty: all were applied.
	Part string `json:"part,omitempty"`
	// Inexact is where the downstream is not what upstream was, or is not known to be, by
	// this apply and those of the same log before it, and why; More counts what was too much.
	Inexact []string  `json:"inexact,omitempty"`
	More    int       `json:"more,omitempty"`
	Done    bool      `json:"done"`
	At      time.Time `json:"at"` // by the clock of whoever applied it
}
