// Package event owns what flows from TiKV to a sink.
//
//	RawKV ──mount──▶ Row ──by commit-ts──▶ Txn ──▶ sink
//	RawKV ──mount, schema──▶ DDL ────────────────▶ sink
//
// A RawKV is one committed change of one key, as TiKV sent it. A Row is a RawKV
// understood: it carries the Table in force at its commit-ts and one Value a
// column, before and after. Values alias the raw bytes; a decimal, a JSON
// document or a vector stays in its stored form until somebody asks for text.
//
// What is handed on is never changed again: every stage may keep what it gets.
package event
