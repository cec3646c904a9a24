// Package redotest owns what tests of the redo log write to one: recordings as
// changes, each with its table, and DDLs in their order.
package redotest
