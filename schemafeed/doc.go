// Package schemafeed owns the shell round schema.Store: it reads the snapshot,
// follows the DDL job tables, and hands out DDLs and tables by timestamp.
//
//	Load: m keys and mysql.tidb_ddl_job at start-ts − 1 ──▶ ┌───────┐ ──▶ DDLs, Resolved
//	Run:  rows of mysql.tidb_ddl_job and _history ────────▶ │ Store │ ──▶ TableAt, Tables
//	      tables of a recovered database, when asked ─────▶ └───────┘
//
// The resolved-ts is the smaller of the two tables' and never passes a job that
// has switched and still runs (P4); a DDL is handed out before the resolved-ts
// reaches it (P6). What cannot be read or is not known ends Run with an error (P8).
//
// Goroutines: Run holds one per job table and one that reads recovered
// databases, and ends with them. Everything else may be called from any
// goroutine; only one should wait on Advanced.
package schemafeed
