// Package agent owns one capture's work on changefeeds: what all of them share, and
// the loop that runs one from its checkpoint on.
//
//	Capture: upstream.Client, sorter, ingest            one a process
//	   │
//	   └ Load ─▶ hold on GC ─▶ schema at the checkpoint ─▶ Changefeed
//	                                                         │ Run
//	   ┌─────────── schemafeed ◀── pipeline ──▶ noting ─▶ sink
//	   │                                          │ checkpoint
//	   └── hold renewed at what is persisted ◀── Save
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
// Goroutines: Capture.Run has the client's and the ingest's, Changefeed.Run the
// schema feed, the pipeline, one that persists and one that holds GC, each in one
// errgroup whose end is Run's.
package agent
