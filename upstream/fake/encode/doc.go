// Package encode owns TiDB's stored forms in the writing direction: the keys
// and values that a TiDB server would have put into TiKV.
//
//	Value ──▶ Datum bytes ──▶ record key, row value (format 1 or 2) with checksum
//
// It serves the fake cluster's live data and is the twin that decoding is held
// against: it shares no codec with the packages that read these forms. What it
// takes are plain Go values of one column (numbers, text, times in parts), not
// bytes in stored form, so that an error made on one side shows on the other.
package encode
