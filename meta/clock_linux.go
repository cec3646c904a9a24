package meta

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that goes on while the machine is suspended, as etcd's does
// elsewhere; Go's own stands still meanwhile.
func sinceBoot() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return wall()
	}
	return time.Duration(at.Nano())
}
