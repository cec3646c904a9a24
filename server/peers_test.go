package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/transport"
)

// wait bounds every wait; a test that needs it has failed.
const wait = 3 * time.Minute

// member is a capture that runs, and calls with its own files.
func member(t *testing.T, n *node, id capture.ID) *transport.Transport {
	t.Helper()
	x, err := n.newTransport(Given{Self: capture.Info{ID: id}, Log: n.log.Logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return n.converse(ctx, x) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return x
}

// secured is a node that serves on a port, with these files.
func secured(t *testing.T, s Security) (n *node, address string) {
	t.Helper()
	cfg := Default()
	cfg.Addr, cfg.Security, cfg.ClusterID = "127.0.0.1:0", s, "default"
	logs, err := OpenLogs(cfg, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	n = &node{cfg: cfg, log: logs, meter: newMeter(Parts{}), peers: transport.NewService()}
	bound := make(chan net.Addr, 1)
	n.parts.Listening = func(a net.Addr) { bound <- a }
	if n.api, err = n.newAPI(); err != nil {
		t.Fatal(err)
	}
	l, err := n.listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := new(errgroup.Group)
	g.Go(func() error { return n.serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(g.Wait(), logs.Close()); err != nil {
			t.Error(err)
		}
	})
	return n, (<-bound).String()
}

// why waits until a call fails for a reason, or "" for that it does not.
func why(t *testing.T, from *transport.Transport, reason string) {
	t.Helper()
	for end := time.Now().Add(wait); ; {
		p := from.Peers()[0]
		if reason == "" && p.Connected || reason != "" && strings.Contains(p.Why, reason) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, want %q", p, reason)
		}
		<-time.After(time.Millisecond)
	}
}

// Captures reach each other with the certificates of the server, as the files are at
// each handshake, and nobody else reaches them.
func TestCapturesUnderTLS(t *testing.T) {
	a := newAuthority(t)
	sa, sb := a.issue("a", "cdc"), a.issue("b", "cdc")
	sa.MTLS, sb.MTLS = true, true
	sa.AllowedCN, sb.AllowedCN = []string{"cdc"}, []string{"cdc"}
	na, _ := secured(t, sa)
	nb, address := secured(t, sb)
	from := member(t, na, "a")
	feed := changefeed.ID{Namespace: "default", Name: "feed"}
	m := transport.Message{Changefeed: feed, Orders: &scheduler.Orders{Head: scheduler.Head{Capture: "b"}}}
	send := func() {
		t.Helper()
		if err := from.Send("b", m); err != nil {
			t.Fatal(err)
		}
	}
	from.SetPeers([]capture.Info{{ID: "b", Address: address}})
	send()
	why(t, from, "no member of its cluster at the moment")
	to := member(t, nb, "b")
	why(t, from, "")

	// A name that is not allowed is refused from the next stream on, and one that is
	// lets in again: the files are read each time.
	a.issue("a", "stranger")
	from.SetPeers(nil)
	from.SetPeers([]capture.Info{{ID: "b", Address: address}})
	send()
	why(t, from, "connection error")
	a.issue("a", "cdc")
	why(t, from, "")

	// What nobody takes is refused, and the stream stands.
	send()
	for end := time.Now().Add(wait); from.Counts().Refused == 0; {
		if time.Now().After(end) {
			t.Fatalf("%+v %+v", from.Counts(), to.Counts())
		}
		<-time.After(time.Millisecond)
	}
	if n := to.Counts().Callers; n != 1 {
		t.Errorf("%d callers", n)
	}

	// The port answers HTTP as before, to who has a certificate.
	calling, err := sa.Client()
	if err != nil {
		t.Fatal(err)
	}
	calling.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", address, calling)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 15)
	if _, err := conn.Read(b); err != nil || string(b) != "HTTP/1.1 200 OK" {
		t.Errorf("%q, %v", b, err)
	}
}
