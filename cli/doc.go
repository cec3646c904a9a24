// Package cli owns the commands of sluice: their words and flags, which are
// TiCDC's where TiCDC has them, what they print, and the status with which they
// end.
//
//	arguments ──cobra──▶ command ──HTTP──▶ a server's API      sluice cli …
//	                       ├──▶ server.Run                      sluice server
//	                       └──▶ redo, by itself                 sluice redo …
//
// Every command prints what TiCDC's prints, or, with -o json, one JSON value. An
// error is printed with its code, what that means and what to do, as JSON where
// that was asked for, and to stderr. The status is 0 when it is done, 1 when it
// failed, 2 when what was typed cannot be used, 3 when no server, owner or PD
// answers now, 4 when the operator did not confirm.
//
// The world is an argument, Env: nothing here reads the process's own.
//
// Goroutines: what server.Run has, and one that waits for each line that is typed.
package cli
