//go:build !linux

package meta

import "time"

// sinceBoot is a clock that goes on while the machine is suspended.
func sinceBoot() time.Duration { return wall() }
