// Package region owns a region's life inside one subscription: who covers which
// keys, which commits are complete, how far each region has come, and what to do
// about every error that TiKV answers.
//
//	PD's regions ──StepLocated──▶ ┌─────────┐ ──Requests──▶ TiKV streams
//	TiKV's rows ──StepRows──────▶ │         │ ──Reloads───▶ PD lookups
//	resolved-ts ──StepResolved──▶ │ Tracker │ ──Rows──────▶ whoever subscribed
//	errors ─────StepFailure─────▶ │         │ ──Resolved──▶ (after the rows)
//	broken stream─StepStreamGone▶ └─────────┘ ──Moves─────▶ the history
//	the time ───Tick────────────▶           ──Stuck─────▶ a search for locks
//	PD's time ──StepClock───────▶           ──Ends──────▶ TiKV streams
//
// A Tracker is a machine: Step and Tick change it, Ready takes what was decided.
// It has no goroutine, clock, socket or log; time is told to it as a duration
// since some moment, chance comes from a seed.
//
// Three parts work together. The cover holds every key of the span in exactly
// one hold: vacant, or locked by one region (P2). Each hold carries the
// resolved-ts of its keys, so that a region that takes keys over starts from
// what those keys had reached, never from what a failed message said. The
// matcher of a region pairs prewrites with commits. The frontier, the least
// resolved-ts over all holds, is what the subscription is told (P3, P4): a hold
// that is vacant, or not yet scanned, keeps it back.
//
// Prewrites that memory has no room for are given up by Evict, to be put away. A
// matcher then knows of which transactions some are away; StepRows leaves their
// commits to be looked for (Sought, StepFound, StepMatched) before any other step.
//
// What a region has become when it split is registered at once, by what TiKV says.
// One that splits faster than it can be scanned is registered in parts, one after
// the other (parts.go).
//
// Laggards are judged against PD's time and the fastest region: one that stands
// still is searched for locks, named, and in the end registered anew, after times
// that double, and later where an open transaction explains it.
//
// Gate is a machine of its own: it lines up the registrations of one store, so
// that only so many are scanned at a time.
//
// A row at or below its region's resolved-ts, or a commit without a prewrite,
// is a broken belief: the subscription ends with an error that names region,
// key and both timestamps (P8).
package region
