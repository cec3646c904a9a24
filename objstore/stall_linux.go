package objstore

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// acknowledged gives a connection up where what was sent is not acknowledged for so long:
// the system's own patience is a quarter of an hour.
func acknowledged(c *net.TCPConn, most time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds()))
	})
	return errors.Join(err, set)
}
