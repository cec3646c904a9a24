// Package objstore owns buckets: places that keep whole objects under names, on
// a disk, in memory, or behind S3, Google Cloud Storage or Azure.
//
//	URI ──Open──▶ Bucket ─┬─ Put, PutNew   a whole object, or nothing
//	                      ├─ Get           all of one, or a part
//	                      ├─ List          by prefix, in the order of the names' bytes
//	                      └─ Delete
//
// What an object store can promise is little, and all of them promise it here: an
// object appears whole, it is durable once Put has returned, and of two PutNew of
// one name one fails. What none of them can promise is that a failed Put did
// nothing: its answer may have been lost. Whoever must know asks PutOnce, which
// takes an object with the same bytes for its own.
//
// There is no conditional overwrite. Azure and S3 have one, a directory has none,
// and a register that several may write is made of names that follow one another
// just as well.
//
// Secrets come by the usual chains (environment, files, the cloud's own service)
// or in the URI, and are masked in whatever is printed of a bucket.
//
// Goroutines: those of the clients' HTTP connections, until Close.
package objstore
