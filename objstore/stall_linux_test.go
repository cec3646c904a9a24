package objstore

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// The system gives up what nobody acknowledges as soon as what nobody takes.
func TestNobodyWaitsForADeadMachine(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := transport().DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*pushed).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: int(pushMax.Milliseconds()), unix.TCP_KEEPIDLE: int(pushMax.Seconds()) / 2} {
		var is int
		if e := raw.Control(func(fd uintptr) { is, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) }); e != nil || err != nil || is != want {
			t.Errorf("option %d is %d, want %d; %v, %v", option, is, want, e, err)
		}
	}
}
