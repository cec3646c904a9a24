package meta_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

// P1: an owner that has been deposed writes nothing any more, whatever it believes.
func TestFence(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	first, _ := session(t, s, "first", 2*time.Second)
	old, err := first.Campaign(ctx)
	must(t, err)
	made, err := s.CreateChangefeed(ctx, old.Fence, feed, info, at(1, 1))
	must(t, err)

	second, _ := session(t, beside(t, s, nil), "second", 2*time.Second)
	elected := make(chan *meta.Leadership, 1)
	go func() {
		l, err := second.Campaign(ctx)
		if err != nil {
			t.Error(err)
		}
		elected <- l
	}()
	id, revision, err := s.Owner(ctx)
	must(t, err)
	if id != "first" || revision != old.Revision() {
		t.Fatalf("%s of %d leads", id, revision)
	}
	must(t, old.Resign(ctx))
	now := <-elected
	if now.Revision() <= old.Revision() {
		t.Fatalf("revision %d after %d", now.Revision(), old.Revision())
	}
	_, err = s.PutStatus(ctx, old.Fence, made, at(2, 2))
	refused(t, err, cdcerr.NotOwner, "is not the owner any more")
	refused(t, old.Check(ctx), cdcerr.NotOwner, "first")
	made, err = s.PutStatus(ctx, now.Fence, made, at(3, 3))
	must(t, err)
	_, err = s.PutStatus(ctx, now.Fence, &meta.Changefeed{ID: feed}, at(4, 4))
	refused(t, err, cdcerr.MetaConflict, "somebody else")
	must(t, s.RemoveChangefeed(ctx, now.Fence, made))
	refused(t, s.RemoveChangefeed(ctx, old.Fence, made), cdcerr.NotOwner, "removing")
}

// Whoever dies leads until the session has run out, and no longer; the keys of the
// session are gone with it.
func TestTheNextOwnerWaitsForTheLease(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	dead, err := s.NewSession(ctx, "dead", time.Second) // nobody runs it: as after kill -9
	must(t, err)
	must(t, dead.Register(ctx, capture.Info{ID: "dead", Address: "127.0.0.1:1", Version: "0.1.0"}))
	_, err = dead.Campaign(ctx)
	must(t, err)
	next, _ := session(t, s, "next", time.Second)
	must(t, next.Register(ctx, capture.Info{ID: "next", Address: "127.0.0.1:2", Version: "0.1.0"}))
	l, err := next.Campaign(ctx)
	must(t, err)
	if dead.Left() > 0 {
		t.Errorf("the dead one believes to live for %v while another leads", dead.Left())
	}
	all, err := s.Captures(ctx)
	must(t, err)
	if len(all) != 1 || all[0] != (capture.Info{ID: "next", Address: "127.0.0.1:2", Version: "0.1.0"}) {
		t.Errorf("captures %+v", all)
	}
	must(t, l.Check(ctx))
}

// A lease that etcd has taken away ends the session, and a campaign with it.
func TestLostLease(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	rival, _ := session(t, s, "rival", 2*time.Second)
	_, err := rival.Campaign(ctx)
	must(t, err)
	live, stop := session(t, s, "loser", 2*time.Second)
	failed := make(chan error, 1)
	go func() {
		_, err := live.Campaign(ctx)
		failed <- err
	}()
	etcd := raw(t, s)
	revoked := false
	for !revoked { // once it stands for election its lease has a key
		leases, err := etcd.Leases(ctx)
		must(t, err)
		for _, l := range leases.Leases {
			res, err := etcd.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
			must(t, err)
			for _, k := range res.Keys {
				if kv, err := etcd.Get(ctx, string(k)); err == nil && len(kv.Kvs) > 0 && string(kv.Kvs[0].Value) == "loser" {
					_, err := etcd.Revoke(ctx, l.ID)
					must(t, err)
					revoked = true
				}
			}
		}
	}
	<-live.Over()
	refused(t, stop(), cdcerr.SessionLost, "loser")
	refused(t, <-failed, cdcerr.SessionLost, "waiting")
	if cdcerr.SessionLost.Class != cdcerr.CaptureFatal || live.Left() > 0 {
		t.Errorf("class %v, %v left", cdcerr.SessionLost.Class, live.Left())
	}
	refused(t, live.Register(ctx, capture.Info{ID: "loser"}), cdcerr.SessionLost, "loser")
}

// A capture that cannot reach etcd gives up before etcd gives it up.
func TestSessionEndsByItsOwnClock(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	p := newProxy(t, s.Endpoints()[0])
	far := beside(t, s, func(c *meta.Config) { c.Endpoints, c.RequestTimeout = []string{p.addr()}, 2*time.Second })
	live, stop := session(t, far, "far", 2*time.Second)
	must(t, live.Register(t.Context(), capture.Info{ID: "far"}))
	p.stall(true)
	<-live.Over()
	all, err := s.Captures(t.Context())
	must(t, err)
	if len(all) != 1 || live.Left() > 0 {
		t.Errorf("over for etcd first: %+v, %v left", all, live.Left())
	}
	refused(t, stop(), cdcerr.SessionLost, "could not be renewed")
	p.stall(false)
}

// A session that is told to end does not make the others wait.
func TestFarewell(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	live, stop := session(t, s, "a", time.Minute)
	_, err := live.Campaign(t.Context())
	must(t, err)
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	next, _ := session(t, s, "b", time.Minute)
	_, err = next.Campaign(t.Context())
	must(t, err)
}

// A session that was abandoned gives no leave to write, and is left to run out.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	live, stop := session(t, s, "a", time.Minute)
	must(t, live.Register(t.Context(), capture.Info{ID: "a"}))
	live.Abandon()
	if live.Left() > 0 {
		t.Errorf("%v left", live.Left())
	}
	_ = stop() // that it was told to end, or has ended
	all, err := s.Captures(t.Context())
	must(t, err)
	if len(all) != 1 {
		t.Errorf("etcd was told of its end: %+v", all)
	}
}

// Who gives up standing for election is no candidate any more, while its session goes on:
// the next owner comes after it as if it had never stood.
func TestStandingBack(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	first, _ := session(t, s, "first", time.Minute)
	old, err := first.Campaign(ctx)
	must(t, err)
	candidates := func(want ...capture.ID) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			now, err := s.Candidates(ctx)
			must(t, err)
			if slices.Equal(now, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("candidates %v, want %v", now, want)
			}
		}
	}
	second, _ := session(t, s, "second", time.Minute)
	standing, back := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := second.Campaign(standing)
		failed <- err
	}()
	candidates("first", "second")
	third, _ := session(t, s, "third", time.Minute)
	elected := make(chan error, 1)
	go func() {
		_, err := third.Campaign(ctx)
		elected <- err
	}()
	candidates("first", "second", "third")
	back()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("stands back: %v", err)
	}
	candidates("first", "third")
	must(t, old.Resign(ctx))
	must(t, <-elected)
	candidates("third")
}

// A capture's word that it is on its way out takes the place of what it said before.
func TestStopping(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	a, _ := session(t, s, "a", time.Minute)
	is := capture.Info{ID: "a", Address: "127.0.0.1:1", Version: "0.1.0"}
	for _, is.Liveness = range []capture.Liveness{capture.Alive, capture.Stopping} {
		must(t, a.Register(ctx, is))
		if all, err := s.Captures(ctx); err != nil || len(all) != 1 || all[0] != is {
			t.Errorf("%+v, %v; want %+v", all, err, is)
		}
	}
}

// A revision leads once: who could not resign, and leads again in the same session, leads
// by another one; and what it has of etcd it gives up as soon as it can.
func TestARevisionLeadsOnce(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	first, _ := session(t, s, "first", time.Minute)
	must(t, first.StandDown(ctx)) // it never led
	old, err := first.Campaign(ctx)
	must(t, err)
	cut, stop := context.WithCancel(ctx)
	stop()
	if err := old.Resign(cut); err == nil {
		t.Fatal("resigned without etcd")
	}
	now, err := first.Campaign(ctx)
	must(t, err)
	if now.Revision() <= old.Revision() {
		t.Errorf("leads by %d after %d", now.Revision(), old.Revision())
	}
	refused(t, old.Check(ctx), cdcerr.NotOwner, "first")
	must(t, old.Resign(ctx)) // of what is over
	must(t, now.Check(ctx))
	if err := now.Resign(cut); err == nil {
		t.Fatal("resigned without etcd")
	}
	must(t, first.StandDown(ctx))
	if id, _, err := s.Owner(ctx); err != nil || id != "" {
		t.Errorf("%q leads, %v", id, err)
	}
}
