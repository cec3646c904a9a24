// Package lock owns the judgement over locks that transactions left behind: what
// became of a transaction, what may be done to its locks, and how often a region
// is searched for them.
//
//	lock ──New──▶ Case ──Ask──▶ stores ──Step──▶ Case … ──Verdict──▶ Plan ──Deeds──▶ stores
//
// A region's resolved-ts stands below the least start-ts of its locks, so a lock
// that nobody ends holds a subscription back for ever. Whoever meets one may ask
// the store of the transaction's primary key what became of it:
//
//   - committed or rolled back: its other locks end the same way;
//   - alive, because the primary lock's time to live is not over (it is renewed
//     while the transaction's owner lives): nothing may be done, but its commit-ts
//     may be pushed above a timestamp;
//   - neither, its time to live is over: the store rolls it back while it answers;
//   - neither, and it commits asynchronously: then it is committed if, and only if,
//     all its secondary locks are there, which has to be asked key by key.
//
// A transaction whose time to live is not over is never ended: every question that
// a store answers by ending something is asked only after the time to live of the
// lock in question has passed on PD's clock.
//
// Case and Queue are machines: no clock, socket or goroutine; PD's time is told to
// them. The package leaves it to its caller to ask, to act and to begin again when
// an answer does not come.
package lock
