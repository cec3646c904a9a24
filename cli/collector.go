package cli

import (
	"os"
	"runtime/debug"
)

// collectorRoom is how much of garbage, in percent of what is in use, a command may have that
// is given a limit: it reads a lot, and holds little of it.
const collectorRoom = 300

// roomy lets Go's collector run seldom as long as there is a good part of a limit of memory
// left, until back is called. What the operator has set from outside stays.
func roomy(limit int64) (back func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	percent, most := debug.SetGCPercent(collectorRoom), debug.SetMemoryLimit(limit/8*5)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(most)
	}
}
