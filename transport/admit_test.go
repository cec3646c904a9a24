package transport

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
)

// A server that began anew is another capture: who means the old one is refused, and
// told why, until etcd says who is there.
func TestOtherCaptureUnderAddress(t *testing.T) {
	port := serve(t, listen(t))
	a := begin(t, quick("a", nil))
	a.SetPeers([]capture.Info{{ID: "b", Address: port.address}})
	reports, err := a.Reports(feed)
	must(t, err)
	must(t, a.Send("b", orders("b", 1)))
	why := func(words string) func() bool {
		return func() bool { return strings.Contains(a.Peers()[0].Why, words) }
	}
	until(t, "refused by nobody", why("no member of its cluster at the moment"))
	if all := next(t, reports); !all[0].Broken {
		t.Errorf("%+v", all)
	}

	b, got := taking(t, quick("b", port))
	if all := next(t, got); all[0].Message.Orders.Seq != 1 {
		t.Errorf("%+v", all)
	}
	b.stop()
	_, got = taking(t, quick("c", port))
	must(t, a.Send("b", orders("b", 2)))
	until(t, "refused by c", why("this is capture c and not b"))
	a.SetPeers([]capture.Info{{ID: "c", Address: port.address}})
	must(t, a.Send("c", orders("c", 3)))
	if all := next(t, got); len(all) != 1 || all[0].Message.Orders.Seq != 3 {
		t.Errorf("c was told what was for b: %+v", all)
	}
}

// A member whose address is another is called there, without its stream counting as
// broken.
func TestAddressChanges(t *testing.T) {
	a, b, _, reports, got := pair(t)
	must(t, a.Send("b", orders("b", 1)))
	next(t, got)
	b.stop()
	next(t, reports)
	second := serve(t, listen(t))
	_, got = taking(t, quick("b", second))
	must(t, a.Send("b", orders("b", 2)))
	a.SetPeers([]capture.Info{{ID: "b", Address: second.address}})
	if all := next(t, got); all[0].Message.Orders.Seq != 2 {
		t.Errorf("%+v", all)
	}
	third := serve(t, listen(t))
	relay(t, third.service, second.service)
	broken := a.Counts().Broken
	a.SetPeers([]capture.Info{{ID: "b", Address: third.address}})
	until(t, "there", func() bool { return a.Peers()[0].Connected && a.Peers()[0].Address == third.address })
	must(t, a.Send("b", orders("b", 3)))
	if all := next(t, got); all[0].Message.Orders.Seq != 3 {
		t.Errorf("%+v", all)
	}
	if c := a.Counts(); c.Broken != broken {
		t.Errorf("%+v", c)
	}
}

// relay lets a port speak for the capture that another one speaks for.
func relay(t *testing.T, to, from *Service) {
	t.Helper()
	to.joined.Store(from.joined.Load())
}

func TestOtherClusterAndVersion(t *testing.T) {
	port := serve(t, listen(t))
	b := begin(t, quick("b", port))
	cfg := quick("a", nil)
	cfg.Cluster = "another"
	a := begin(t, cfg)
	a.SetPeers([]capture.Info{{ID: "b", Address: port.address}})
	must(t, a.Send("b", orders("b", 1)))
	until(t, "refused", func() bool { return strings.Contains(a.Peers()[0].Why, `of cluster "default", not of "another"`) })

	for _, c := range []struct {
		h  hello
		ok bool
	}{
		{hello{version, oldestVersion, "default", "a", "b"}, true},
		{hello{version + 1, version, "default", "a", "b"}, true}, // the next one, which knows this one
		{hello{version + 2, version + 1, "default", "a", "b"}, false},
		{hello{oldestVersion - 1, oldestVersion - 1, "default", "a", "b"}, false},
		{hello{version, oldestVersion, "default", "b", "b"}, false},
		{hello{version, oldestVersion, "default", "", "b"}, false},
	} {
		if err := b.admit(c.h); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.h, err)
		}
	}
}

// Two messages of a later version come over a stream: the one that can be understood
// is, the other is dropped, and the stream stands.
func TestLaterVersionOverStream(t *testing.T) {
	port := serve(t, listen(t))
	b, got := taking(t, quick("b", port))
	a, err := New(quick("a", nil))
	must(t, err)
	conn, end, err := a.dial(port.address)
	must(t, err)
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := conn.NewStream(ctx, &streamDesc, streamMethod)
	must(t, err)
	must(t, stream.SendMsg(hello{version + 1, version, "default", "a", "b"}.frame()))
	if id, _, err := receive(stream); id != frameWelcome || err != nil {
		t.Fatal(id, err)
	}
	m := orders("b", 1)
	m.Orders.Orders = []scheduler.Order{{Verb: scheduler.Verb(77)}}
	must(t, stream.SendMsg(m.frame()))
	must(t, stream.SendMsg(frame(99, nothing)))
	m = orders("b", 2)
	m.Unknown = frame(100, nothing)
	must(t, stream.SendMsg(m.frame()))
	all := next(t, got)
	if len(all) != 1 || all[0].Message.Orders.Seq != 2 || string(all[0].Message.Unknown) != string(frame(100, nothing)) {
		t.Errorf("%+v", all)
	}
	if c := b.Counts(); c.Strange != 1 || c.Callers != 1 {
		t.Errorf("%+v", c)
	}
	must(t, stream.SendMsg([]byte{0xff}))
	if _, _, err := receive(stream); err == nil {
		t.Error("what is no frame does not end the stream")
	}
}
