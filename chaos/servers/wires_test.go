package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/transport/badline"
)

// A port is called in somebody's place, by callers that are told apart, and a cut is
// of one of them: in one direction, for connections of before and after.
func TestWires(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all errgroup.Group
	defer func() {
		stop()
		_ = echo.Close()
		_ = all.Wait()
	}()
	all.Go(func() error { return answer(&all, echo) })
	names := make(chan string) // whom each call is taken for, once it is there
	w := &wires{caller: func(net.Conn) string { return <-names }}
	p, err := w.open("server 1")
	if err != nil {
		t.Fatal(err)
	}
	p.to = echo.Addr().String()
	all.Go(func() error { return w.run(ctx) })

	call := func(name string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", p.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		names <- name
		return c
	}
	first, second := call("server 0"), call("server 2")
	talk(t, first, "a\n")
	talk(t, second, "b\n")
	mine := func(w wire) bool { return w.from == "server 0" && w.isPeers() }
	w.Cut(cut{mine, badline.In})
	if _, err := io.WriteString(first, "held\n"); err != nil {
		t.Fatal(err)
	}
	late := call("server 0")
	if _, err := io.WriteString(late, "held too\n"); err != nil {
		t.Fatal(err)
	}
	talk(t, second, "goes on\n")
	// What was held comes when the cut is over, and not before: an answer in between
	// would be read here.
	w.Cut()
	talk(t, first, "after\n", "held\n")
	talk(t, late, "", "held too\n")
	if (wire{"server 0", etcdName}).isPeers() || (wire{"server 0", storeName(0)}).isPeers() {
		t.Error("etcd or a store is taken for a server")
	}
}

// answer says what it hears, to everyone.
func answer(all *errgroup.Group, lis net.Listener) error {
	for {
		c, err := lis.Accept()
		if err != nil {
			return err
		}
		all.Go(func() error {
			defer c.Close()
			_, err := io.Copy(c, c)
			return err
		})
	}
}

// talk says something and hears it, and before it what else is to come.
func talk(t *testing.T, c net.Conn, text string, before ...string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for _, want := range append(before, text) {
		if want == "" {
			continue
		}
		if got, err := in.ReadString('\n'); got != want {
			t.Fatalf("heard %q, %v; want %q", got, err, want)
		}
	}
}

// The kernel tells whose the other end of a connection is.
func TestWhoCalls(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	c, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	socket := socketOf(there)
	if !owns(os.Getpid(), socket) || owns(os.Getppid(), socket) || owns(0, socket) {
		t.Errorf("%s: mine %v, my parent's %v", socket, owns(os.Getpid(), socket), owns(os.Getppid(), socket))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if socket := socketOf(there); owns(os.Getpid(), socket) {
		t.Errorf("%s is still mine", socket)
	}
	if got := kernelForm(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 0x1F90}); got != "0100007F:1F90" {
		t.Error(got)
	}
	if got := fmt.Sprint(kernelForm(&net.UDPAddr{}), kernelForm(&net.TCPAddr{IP: net.IPv6loopback})); got != "" {
		t.Error(got)
	}
}
