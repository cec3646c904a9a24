// Package golden owns how tests read what was recorded of a real TiDB: where the
// recordings lie, which there are, and their lines.
//
// A recording is named by the path of its files without their endings, as in
// ../testdata/golden/workloads/bank for bank.jsonl.gz, bank.meta.jsonl.gz and the
// others of testdata/golden/README.md. Decoding what is in the lines is left to
// each test: that is what it tests.
//
// It has no goroutines.
package golden
