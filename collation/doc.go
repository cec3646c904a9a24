// Package collation owns the order of strings: which are equal, and which comes
// first, under each of TiDB's collations.
//
// The weights are a server's own, compared with it rune by rune in this package's
// test. A collation without weights here is an error and never a guess.
package collation
