// Package ingest owns one subscription a span on a capture, shared by all
// changefeeds that want the span: it leads the upstream's rows into the sorter,
// once, where each changefeed reads them at its own pace.
//
//	Upstream ─Subscribe─▶ pull ─▶ sorter.Input ◀─ seat ─ Reader ─▶ changefeed A
//	          one a span               │       ◀─ seat ─ Reader ─▶ changefeed B
//	                           kept for the slowest
//
// What may be shared is one subject: a span, with or without what another
// change-data-capture wrote (filter_loop). A plain changefeed and one in a
// two-way replication never share.
//
// A reader that begins at a start-ts above what the subject's pull has given up
// joins it. One that begins lower gets a pull of its own, which catches up beside
// the first without holding it back; every Forget of the reader asks whether it
// has come to what the first still holds, and then puts it over there and ends
// the second. So a changefeed from an hour ago costs a second stream for as long
// as it takes it to catch up, and the others neither memory nor delay. While two
// pulls of a subject live, newcomers join whichever holds their start-ts, the
// older one first.
//
// A pull that fails ends its readers with its error, and is out of the list: who
// comes again gets a new one from its own start-ts. Nothing of the old is used
// again, rows on disk included. The input stays as it is until its last reader
// has gone, so that no reader can take what is missing for complete (P4).
//
// What a subscription holds of open transactions is on the account of the sorter's
// quota too, and goes to the sorter's disk past a part of it.
//
// Goroutines: one a pull, in Run's errgroup. Nothing here waits for the time.
package ingest
