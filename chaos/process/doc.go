// Package process owns the processes that a test starts: each is told when to
// end, is killed, stopped and continued by its id, and ends with whoever has
// started it, however that one ends.
//
//	Start ─▶ a thread of its own that starts the program and waits for it ─▶ Over
//
// The kernel kills a process whose starter is gone when the thread is gone that
// started it, and Go lets threads go: so the thread that starts a process waits for
// it, too, and does nothing else.
//
// Goroutines: one for each process, from Start until it has ended.
package process
