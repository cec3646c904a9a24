// Package ticdc owns the bytes of TiCDC's redo logs, in the direction of reading:
// those of version 2 of its record, so that whoever comes from TiCDC can recover
// with what TiCDC has left.
//
//	name ──ParseName──▶ row, ddl or meta, and the largest commit-ts
//	file ──Records──▶ records ──Decode──▶ rows and DDLs
//
// TiCDC keeps less of a table than Sluice's log does: no members of ENUM and SET (a
// value is its number), no lengths, no defaults; of a DDL the text, and not the tables.
//
// It was written from a description of the format and has been tried on files made
// by its own tests only: there was no log of a real TiCDC to hold it to.
//
// The package is pure.
package ticdc
