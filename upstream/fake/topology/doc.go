// Package topology owns how the fake cluster's key space is cut into regions
// and which store leads each of them.
//
// A Region is a value that is never edited: every change puts a new one in its
// place, so that one that was handed out stays what it was. Ids grow; a split
// leaves the old id to the right-most part, as TiKV does; a merge has two steps,
// between which its source serves nobody.
//
// Pure: no goroutine, no lock, no clock.
package topology
