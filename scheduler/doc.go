// Package scheduler owns two-phase placement: which capture writes which span of a
// changefeed, and how that changes without a row lost, written by two, or read twice.
//
//	Owner (one a changefeed)                       Capture (one a changefeed and capture)
//	  Step: reports, DDLs, what the shell did        Step: orders, DDLs, what the data path did
//	  Tick: members ─▶ Ready                         Tick ─▶ Ready
//	      watermark  made durable first                  work   begin, write, stop: the pipelines'
//	      fences, DDLs, sync points  carried out         report
//	      orders     sent last            ◀───────────▶
//
// Both halves are values: what happens to them is a call, what they want is returned.
// They have no clock (ticks), no socket and no luck. The owner's is volatile: a new
// owner makes it again from the durable checkpoint, the record of executed DDLs and
// what the captures report. docs/design/0007-scheduling.md is the protocol.
//
// P1 rests on four things that are compared: a message's owner revision, changefeed
// epoch, incarnation and number, all in fence.go; on a set's order of states, all in
// transitions.go; on the downstream, which refuses a writer below its fence, or on the
// lease, which the writer's shell keeps; and on a new owner that places nothing before
// every member has told what it holds, or cannot write any more.
//
// P5, where there is a redo log, is one number more in what captures are told: up to where
// the log's meta on the storage has everything. What the meta may say next is the least of
// what captures have logged; tables that a DDL brings are placed before it is done, so that
// their rows are logged, and wait at it.
//
// Nothing walks all spans when a few changed: the watermark is the least of one floor a
// capture and the spans that no floor covers; what is due waits in queues.
//
// It has no goroutines.
package scheduler
