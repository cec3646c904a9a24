// Package binlog owns the outside view of a downstream: what a MariaDB's binary
// log says was committed, transaction by transaction, in the order in which
// everybody could see it. Tests fold it to know what a reader would have seen at
// any moment, whatever the writer believes of itself.
//
//	server's log files ─▶ Read ─▶ Txn ─▶ Fold ─▶ rows of every table, at every sync point
//
// It has no goroutines: the files are read as far as they go.
package binlog
