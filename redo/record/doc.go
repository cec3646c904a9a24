// Package record owns the bytes of the redo log: names of its files, what is in
// them, and what is in its meta. docs/format/redo.md is the same in prose.
//
//	changes, DDLs ──Builder──▶ a file: head, blocks, end ──File.Next──▶ changes, DDLs
//	                          its Name: kind, commit-ts from and to, writer, run, number
//
// A change is kept as TiKV sent it, with the table by which it is decoded: nothing
// is lost on the way, writing it is little more than a copy, and what is read is
// mounted by the code that mounts what TiKV sends.
//
// Whatever bytes come, reading ends in what was written or in an error that says
// where: a frame that is not what its checksum says (cdcerr.RedoCorrupted), a file
// that ends too soon (cdcerr.RedoTorn), or one of a version to come
// (cdcerr.RedoVersion).
//
// The package is pure. What it gives out aliases what it was given.
package record
