package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const (
	lowest  = 10000 // below it, servers that have a port by custom are usual
	highest = 65535
	// enough ports to draw from: fewer, and two who draw would often meet.
	enough = 1000
	// tries: of ports that are drawn from so many, some are taken, not these many in a row.
	tries = 100
	// given is where Linux says which ports it gives, as "first last".
	given = "/proc/sys/net/ipv4/ip_local_port_range"
)

// Pick is a port of 127.0.0.1 at which nobody listens, and that the kernel gives to
// nobody. Another one who picks may be told the same until it is listened at, which is
// as likely as two who draw from ten thousand.
func Pick() (int, error) {
	text, _ := os.ReadFile(given) // not on every system: then the usual range
	from, to := outside(string(text))
	var errs []error
	for range tries {
		port := 0 // any, where the kernel gives all
		if from < to {
			port = from + rand.IntN(to-from)
		}
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		port = l.Addr().(*net.TCPAddr).Port
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", from, to, errors.Join(errs[0], errs[tries-1]))
}

// PickAddress is Pick as host:port.
func PickAddress() (string, error) {
	port, err := Pick()
	return Address(port), err
}

// Address is a port of 127.0.0.1 as host:port.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// outside is the larger range of ports [from, to) beside the one that the kernel gives;
// an empty one where it leaves too few.
func outside(given string) (from, to int) {
	first, last := 32768, 60999 // Linux' own
	var a, b int
	if n, _ := fmt.Sscan(given, &a, &b); n == 2 {
		first, last = a, b
	}
	from, to = lowest, first
	if above := highest - last; above > to-from {
		from, to = last+1, highest+1
	}
	if to-from < enough {
		return 0, 0
	}
	return from, to
}
