// Package catalog owns DDL as TiDB carries it out: from the text of a statement
// to the metadata that it changes, step by step.
//
//	SQL ──parse──▶ statement ──Plan──▶ jobs ──Next(start-ts)──▶ step ──▶ one transaction
//	                  ▲                  ▲                       │
//	          Session: SQL mode,   Catalog: databases,           │ keys of metadata,
//	          zone, charset        tables, versions, ids ◀───────┘ rows of the job tables
//
// A Job is a machine. Each Next is what one of TiDB's servers does in one
// transaction: it reads the metadata as it stands, takes the job one state on,
// and returns what to write. The caller takes the timestamps, commits the
// writes, carries out the Backfill that a step names, and lets as much happen
// between two steps as it likes: steps of other jobs, and rows of writers that
// know the schema of this step or of the one before.
//
// The steps are TiDB's own, with its states, versions and arguments. They are
// held to what a real TiDB wrote for the same statements over the same metadata,
// to the byte; what no one can know (traces, counts of rows, timestamps outside
// of the step) is left out of the comparison and nothing else.
//
// The package is the twin of the readers of metadata: it shares no form and no
// rule with them, so that an error made on one side shows on the other.
package catalog
