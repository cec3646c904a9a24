package bench

import (
	"runtime"
	"syscall"
	"time"
)

// Usage is what a run has cost so far.
type Usage struct {
	Wall    time.Duration
	CPU     time.Duration // user and system, of this process
	Mallocs uint64
	RSS     int64 // the most that the process ever held, in bytes
}

// stopwatch measures from start on.
type stopwatch struct {
	at   time.Time
	from Usage
}

func startWatch() stopwatch { return stopwatch{at: time.Now(), from: spent()} }

func (w stopwatch) stop() Usage {
	now := spent()
	return Usage{Wall: time.Since(w.at), CPU: now.CPU - w.from.CPU, Mallocs: now.Mallocs - w.from.Mallocs, RSS: now.RSS}
}

func spent() Usage {
	var u Usage
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil {
		u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		u.RSS = r.Maxrss << 10
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Mallocs = m.Mallocs
	return u
}
