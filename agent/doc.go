// Package agent owns one capture's work on changefeeds: what all of them share, the
// part of one that is spread over captures, and the loop that runs a whole one from its
// checkpoint on.
//
//	Capture: upstream.Client, sorter, ingest            one a process
//	   │
//	   ├ Part ─▶ lives, one after the other:
//	   │           orders ─▶ ┌ loop: scheduler.Capture ┐ ─▶ reports
//	   │      schemafeed ──▶ └──▲──────────────────────┘
//	   │                  told  │  │ prepare, write, stop, look
//	   │                     pipeline.Spans ──▶ sink    one of each a term
//	   │
//	   └ Load ─▶ hold on GC ─▶ schema at the checkpoint ─▶ Changefeed
//	                                                         │ Run
//	   ┌─────────── schemafeed ◀── pipeline ──▶ noting ─▶ sink
//	   │                                          │ checkpoint
//	   └── hold renewed at what is persisted ◀── Save
//
// # A part
//
// It obeys one owner at a time, and begins nothing by itself: schema, engine and sink
// are there from the first span on.
//
//  1. Work is begun in its order, and before the report is sent that tells of it. A part
//     that was fenced off neither begins nor tells anything before engine and sink of the
//     term that is over have ended.
//  2. A life that fails ends with all that it has, before the next one says a word: what
//     it says first is that it holds nothing, and why. Nothing is opened in the next one
//     for a tenth of a second, and twice as long each time that it fails again.
//  3. A DDL bounds its tables' rows before the schema's resolved-ts passes it (P6).
//     Limits are the half's; the engine asks for them under the one lock that there is,
//     and is told to look when they may have risen.
//  4. Every write has the lease of its moment as its deadline, and the term as its fence
//     (P1). Without an owner, and under a new one that looks around, what is written is
//     written on, up to its limits.
//  5. Rows of a span wait until the upstream's present was asked for: what somebody else
//     has written of them is not above it.
//  6. Nothing walks all spans. The engine tells of those that moved, of each the last word
//     only; a report has what changed, and one floor for the rest.
//
// # A whole changefeed
//
// A checkpoint is persisted after the sink has said that everything up to it is
// durable, at most once in SaveEvery, before a DDL, and once more at the end. What is persisted is
// what may be resumed from, so that is what GC is held at (P7), not what the sink
// has reached meanwhile. It never goes back (P3): who resumes gets rows again that
// were written and not yet persisted, which sinks take (see sink.Sink).
//
// That a checkpoint cannot be persisted stops nothing while the reason is etcd's: it
// is tried again, and the writes go on as long as the session that gives leave to
// them lives (P1), which is Config.Grant's to know.
//
// Goroutines: Capture.Run has the client's and the ingest's. A life of a Part has its
// loop, the schema feed's, the engine's, and one that asks for the upstream's present.
// Changefeed.Run has the schema feed, the pipeline, one that persists and one that holds
// GC. Each in one errgroup whose end is Run's, or the life's.
package agent
