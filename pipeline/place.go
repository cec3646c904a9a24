package pipeline

import (
	"sync/atomic"

	"github.com/sluice-cdc/sluice/ingest"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// place is one span of a part, and where it is.
type place struct {
	of   span.Span
	rows *ingest.Reader

	ready bool // among Spans.ready, or taken from there and not looked at; guarded by Spans.mu

	// The reader's.
	phase    phase
	from     tso.TS // as it was ordered
	cover    cover  // what is followed for it
	arrived  bool   // it was told so
	last     tso.TS // everything at or below was read
	upto     tso.TS // where the checkpoint is, or will be once the queue is worked off
	resolved tso.TS // the bound up to which it is read
	turn     *turn  // of a large transaction
	waits    bool   // among rounds.held
	bytes    uint64 // read and not yet told
	then     []order

	// The writer's.
	due   due
	dirty bool // rows of it were written and not flushed

	// Set by the reader when it begins to be written, then by the writer.
	checkpoint, bound atomic.Uint64
	written           atomic.Bool
}

// phase is how far the reader is with a place.
type phase uint8

const (
	following phase = iota
	writing
	ending
	over
)

// due is what becomes of a place once what the sink has of it is flushed.
type due struct {
	forget   tso.TS
	upto     tso.TS
	resolved tso.TS
	bytes    uint64
}

func (d *due) add(o due) {
	d.forget, d.upto, d.resolved = max(d.forget, o.forget), max(d.upto, o.upto), max(d.resolved, o.resolved)
	d.bytes += o.bytes
}

// at is the progress that was told last.
func (p *place) at() (checkpoint, resolved tso.TS, written bool) {
	return tso.TS(p.checkpoint.Load()), tso.TS(p.bound.Load()), p.written.Load()
}

// begin lets the place be written from a timestamp on.
func (p *place) begin(from, start tso.TS) {
	p.phase = writing
	p.cover.upto = 0 // the rest of what is followed may be of before
	p.last, p.upto, p.resolved = max(from, start), from, from
	p.checkpoint.Store(uint64(from))
	p.bound.Store(uint64(from))
	p.written.Store(true)
}

// move is a place with nothing to write that gets further.
type move struct {
	of *place
	due
}

// parcel is one entry of the queue between reader and writer. Its fields are worked
// off in the order in which they stand here.
type parcel struct {
	moves []move
	item         // rows of the place, and where it is then
	of    *place // nil: there are moves only, or an error
	due   due    // of the place
	end   bool   // the place was stopped
}
