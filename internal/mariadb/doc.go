// Package mariadb owns the MariaDB server that tests write to.
//
//	Open(dir) ── install ──▶ data under dir ── mariadbd on 127.0.0.1:free ──▶ Server ── Kill, Restart ── Close
//
// The server is Debian's package, started with data of its own under a
// directory that the caller gives and without a password for root. Nothing that
// runs on the machine already is touched: Close stops the one process that Open
// started, and a test binary that dies takes its server with it.
//
// Where the package is not installed Open fails with the command that installs
// it: a test is not skipped for that.
//
// Goroutines: one that reads the server's log, one that waits for its end; both
// end in Close.
package mariadb
