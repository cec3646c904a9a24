// Package owner owns the loop of one run of one changefeed on the node that leads it:
// what scheduler.Owner decides is made durable, carried out downstream, and told.
//
//	reports ─▶ ┐                      ┌─▶ save     the watermark, under the owner's fence
//	DDLs    ─▶ ├─ scheduler.Owner ─▶ ─┼─▶ errands  DDLs and sync points, one at a time
//	members ─▶ ┘        ▲             ├─▶ fences   of captures, each by itself
//	                    └─ what ended ┤
//	                                  └─▶ orders
//
// Everything foreign comes as an interface or a function: the line to the captures, the
// schema, the owner's sink, what is persisted, the lease.
//
// It begins with what cannot change behind its back: the sink, whose opening raises the
// record's fence to this owner, then what that fence protects (who has a floor, which
// DDLs are on record), the members, and the schema at the durable watermark.
//
//  1. Messages carry only what is durable: scheduler tells captures nothing of a
//     watermark before it heard that it was saved.
//  2. DDLs are carried out one at a time, in the order in which scheduler hands them out,
//     beside the loop, as are sync points. A DDL that nothing downstream keeps a record
//     of waits until the watermark just below it is durable: nothing else would tell the
//     next owner that rows of before must not come again.
//  3. While the leave to write has ended nothing is decided, sent or begun downstream.
//     Reports are taken meanwhile, and time for captures stands still.
//  4. Whatever ends a run, the watermark that it has come to is saved, unless what was
//     believed of it is broken; that is told with the moves that led there (P8).
//
// Goroutines: Run has the loop, one that saves, one for errands, one that follows the
// schema, and one for each fence and each cut under way. All end before Run does.
package owner
