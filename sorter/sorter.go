package sorter

import (
	"context"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Sorter holds the rows of many spans for one reader.
type Sorter interface {
	// Open begins a span. Rows at or below from are nobody's and are dropped.
	// A span that is open already is a broken belief (cdcerr.Unexpected).
	Open(s span.Span, from tso.TS) (Input, error)
	// Resolved is the least resolved-ts of all open spans, tso.Max without any.
	// It falls when a span is opened below it, never otherwise.
	Resolved() tso.TS
	// Advanced gets a token when Resolved has risen since the last one was taken.
	Advanced() <-chan struct{}

	// Fetch reads the rows with lower < commit-ts <= upper of the named spans, or
	// of all. Reading below what was forgotten, or above the resolved-ts of a
	// span, is a broken belief.
	Fetch(lower, upper tso.TS, of ...span.Span) (Iterator, error)
	// Readable says that the reader will read and forget everything at or below
	// upto that is resolved, without waiting for any further Add.
	Readable(upto tso.TS)
	// Forget gives up all rows at or below upto and frees what they cost.
	Forget(upto tso.TS)
	// Used is the memory held by rows, in bytes.
	Used() int64
}

// Input is where the rows of one span come in.
type Input interface {
	// Add takes rows in any order and then, unless it is zero or no advance, the
	// span's resolved-ts: no row at or below it is still to come. The slice and
	// all bytes in it belong to the sorter from then on. It blocks while the
	// quota is used up; see the package.
	Add(ctx context.Context, rows []event.RawKV, resolved tso.TS) error
	// Resolved is the span's resolved-ts.
	Resolved() tso.TS
	// Close drops the span and all its rows. Later rows are ignored.
	Close()
}

// Iterator gives rows in order. It is used by one goroutine.
type Iterator interface {
	// Next fills dst and says how many rows it got: less than len(dst) only at
	// the end. The rows stay valid as long as somebody holds them.
	Next(dst []*event.RawKV) (int, error)
	Close()
}
