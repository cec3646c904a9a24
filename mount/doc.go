// Package mount owns TiDB's encodings of rows: record keys, row format v1 and
// v2, and the checksums of both. They end here; what leaves is an event.Row.
//
//	event.RawKV ──ParseRecordKey──▶ physical id ──schema──▶ event.Table
//	event.RawKV, event.Table ──Mounter.Row──▶ event.Row
//
// A cell comes from the first of these that has it: the row's value, the row's
// key, the column's Absent value. A virtual generated column is in none of them
// and stays Missing. Cells that the value has for columns that the table does
// not show (being added, dropped or rewritten) are skipped.
//
// Values alias the change's bytes and are checked here, once: whatever bytes
// come, mounting ends in a row or in an error that names the table, the key,
// the column and the reason, never in a panic, and what is mounted can be
// printed. A row that carries a checksum must match it (P8).
//
// The package is pure and has no goroutine. A Mounter belongs to one goroutine.
package mount
