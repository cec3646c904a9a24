// Package cdcerr owns the one table of errors: code, meaning, remedy, class.
//
// A code is attached once, where the error enters the system; later hops add
// words with %w. What is done about an error is decided by class alone, never
// by text, and an error without a code is retried (P8: it is also shown).
//
// Codes are TiCDC's where the meaning is the same, so that an operator's
// runbooks and alerts go on working.
package cdcerr
