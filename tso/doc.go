// Package tso owns the timestamp that orders everything in a TiDB cluster.
//
// A TS is PD's 64-bit timestamp: 46 bits of milliseconds since the Unix epoch
// and 18 bits of a logical counter. Every start-ts, commit-ts, resolved-ts,
// checkpoint-ts and barrier-ts in Sluice is a TS.
//
// A Move says that one of them moved, where and why. Whoever decides a move
// returns it; shells only store it, so that the history of a timestamp can be
// shown when a promise breaks (P3, P8 of ARCHITECTURE.md).
package tso
