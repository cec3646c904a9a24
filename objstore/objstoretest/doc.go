// Package objstoretest owns what every bucket has to pass, the servers that tests
// of buckets write to, and a bucket that fails on command.
//
//	RunSuite(t, Kind)            one suite, every kind of bucket
//	S3, GCS, Azure(tb) ──▶ URI   a server of its own, gone with the test
//	Faulty{Bucket, Decide}       any operation fails, tears, is late, or is done and not answered
//
// Goroutines: one a server, that waits for its end; it ends with the test.
package objstoretest
