// Package meta owns every key that Sluice keeps in etcd: their names, the types
// of what they hold, and the only ways in which they change.
//
//	PD's etcd, one of your own, or one in this process
//	       │ keys under <prefix>/<cluster>/
//	       ▼
//	Store ─┬─ Captures, Changefeeds, Owner      what stands, typed
//	       ├─ Watch                             what changes, from then on
//	       ├─ CreateChangefeed, Put, PutStatus  compare-and-set, under a Fence
//	       ├─ Drain, Undrain, Drained           who is to be empty, as long as its session lives
//	       └─ Session ─▶ Campaign ─▶ Leadership a lease, and who leads by it
//
// A write names what it saw: it takes effect if the key is still as it was read,
// and, where a Fence is given, if its owner is still the owner. Whoever was too
// late is told so by a code and reads again. That etcd did not answer says nothing
// of whether a write took effect: read again then too.
//
// A checkpoint never goes back within an epoch, nor does the resolved-ts, nor does
// the one pass the other (P3): such a write is refused here, whoever asks for it.
//
// A session is alive as long as this machine can prove it: Left counts from the
// moment before the last renewal was sent, on a clock that runs on while the
// machine is suspended. It is over here before etcd may take it for over (P1).
//
// A value that cannot be read is the matter of its own key: the changefeed that it
// belongs to comes with an error, the others come as they are (P8).
//
// ReadTiCDC is the only thing here that looks at other keys: it reads those of a
// TiCDC, and writes none.
//
// Etcd's types stop at this package's door. docs/design/0006 has the layout.
//
// Goroutines: those of etcd's client between Open and Close, and of its server,
// where one is embedded; Session.Run, Watch and Campaign run in their caller. A
// Store may be used by many at once, a Session too.
package meta
