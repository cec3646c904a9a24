//go:build !linux

package objstore

import (
	"net"
	"time"
)

// acknowledged is what the system makes of it.
func acknowledged(*net.TCPConn, time.Duration) error { return nil }
