package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

var began = time.Unix(1_700_000_000, 0)

// held is a changefeed of a reign without a cluster, kept at a checkpoint.
func held(t *testing.T, at tso.TS) *feed {
	t.Helper()
	r := newReign(New(Config{Now: func() time.Time { return began.Add(time.Minute) }, GCTTL: time.Hour}), nil)
	kept := &meta.Changefeed{ID: meta.ChangefeedID{Namespace: "default", Name: "a"}, Status: meta.Status{CheckpointTS: at, ResolvedTS: at, State: "normal"}}
	f := &feed{reign: r, id: kept.ID, kept: kept, wake: make(chan struct{}, 1), ended: make(chan struct{}), log: r.cfg.Log}
	r.know(f)
	return f
}

// What is held is the least of what the life needs and of what etcd has.
func TestHolds(t *testing.T) {
	at := tso.At(began)
	is := func(f *feed, passed, want tso.TS) {
		t.Helper()
		if got, ok := f.holds(passed); got != want || ok != (want != 0) {
			t.Errorf("holds %d, %v; want %d", got, ok, want)
		}
	}
	f := held(t, at)
	var err error
	f.life, err = changefeed.New(changefeed.Info{}, changefeed.Status{CheckpointTS: at, ResolvedTS: at, State: changefeed.Normal}, changefeed.Options{}, began)
	if err != nil {
		t.Fatal(err)
	}
	run := f.life.Tick(changefeed.View{Now: began}).Start.Run
	f.report(changefeed.Report{Run: run, CheckpointTS: at + 100, ResolvedTS: at + 100})
	is(f, 0, at-1) // etcd does not have the life's yet
	is(f, at, at+99)
	f.report(changefeed.Report{Run: run, Done: true})
	is(f, 0, at-1) // nor that it is finished
	f.kept.Status.State = "finished"
	is(f, 0, 0)

	f = held(t, at) // it cannot be read
	is(f, 0, at-1)
	f.kept.Status.State = "finished"
	is(f, 0, 0)
	f.kept.Status.State = "stopped"
	f.passed(at, "")
	is(f, 0, 0)
	f = held(t, tso.At(began.Add(-2*time.Hour)))
	is(f, 0, 0) // it is older than gc-ttl
	f = held(t, at)
	f.kept.Err = cdcerr.MetaCorrupted.New("status")
	is(f, 0, 0)
}

// That a reign ends is no removal, and a name is free when its changefeed is gone.
func TestGone(t *testing.T) {
	f := held(t, tso.At(began))
	r := f.reign
	id := changefeed.ID{Namespace: f.id.Namespace, Name: f.id.Name}
	if err := r.unknown(id); !cdcerr.ChangefeedExists.Is(err) {
		t.Errorf("a name that is taken: %v", err)
	}
	close(r.over) // before its loop began
	if err := f.gone(t.Context()); !cdcerr.NotOwner.Is(err) {
		t.Errorf("not removed: %v", err)
	}
	close(f.ended)
	if err := f.gone(t.Context()); !cdcerr.NotOwner.Is(err) {
		t.Errorf("not removed, and its loop ended: %v", err)
	}
	r.drop(f)
	if err := f.gone(t.Context()); err != nil {
		t.Errorf("removed: %v", err)
	}
	if err := r.unknown(id); err != nil {
		t.Errorf("a name that is free: %v", err)
	}
	next := &feed{reign: r, id: f.id}
	r.know(next)
	r.drop(f)
	if now, err := r.get(f.id); err != nil || now != next {
		t.Errorf("the next of its name: %v, %v", now, err)
	}
	if err := f.gone(t.Context()); err != nil {
		t.Errorf("removed, and made again: %v", err)
	}
}

// What the loop has not done yet outlives what follows later, unless that ends it.
func TestMerge(t *testing.T) {
	one, two := &changefeed.Start{Run: 1}, &changefeed.Start{Run: 2}
	for name, c := range map[string]struct{ first, then, want changefeed.Ready }{
		"a resume, and a look at the time":  {changefeed.Ready{Stop: true, Start: one}, changefeed.Ready{}, changefeed.Ready{Stop: true, Start: one}},
		"a resume, and a pause":             {changefeed.Ready{Stop: true, Start: one}, changefeed.Ready{Stop: true}, changefeed.Ready{Stop: true}},
		"a resume, a pause, another resume": {changefeed.Ready{Start: one}, changefeed.Ready{Stop: true, Start: two}, changefeed.Ready{Stop: true, Start: two}},
		"a pause, and a resume":             {changefeed.Ready{Stop: true}, changefeed.Ready{Start: two}, changefeed.Ready{Stop: true, Start: two}},
	} {
		if got := merge(c.first, c.then); got.Stop != c.want.Stop || got.Start != c.want.Start {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Who leads and cannot hear the upstream, while another one can, leads no more.
func TestADeafOwnerResigns(t *testing.T) {
	r := newReign(New(Config{Self: capture.Info{ID: "me"}}), &meta.Leadership{})
	ctx, stop := context.WithCancelCause(t.Context())
	r.stop = stop
	f := newFeed(r, &meta.Changefeed{ID: meta.ChangefeedID{Namespace: "default", Name: "a"}, Err: cdcerr.MetaCorrupted.New("no matter")})
	cfg, err := f.loopConfig(&changefeed.Info{Config: changefeed.Default()}, changefeed.Start{Run: 1})
	if err != nil || cfg.Self != "me" {
		t.Fatalf("%+v, %v", cfg, err)
	}
	cfg.Deaf()
	if !errors.Is(context.Cause(ctx), errResigned) {
		t.Errorf("ended with %v", context.Cause(ctx))
	}
}

// What a changefeed that is removed has used up is not used again under its name.
func TestSpent(t *testing.T) {
	at := tso.At(began)
	f := held(t, at)
	var err error
	f.life, err = changefeed.New(changefeed.Info{Config: changefeed.Default()}, changefeed.Status{CheckpointTS: at, ResolvedTS: at, Run: 12, State: changefeed.Stopped}, changefeed.Options{}, began)
	if err != nil {
		t.Fatal(err)
	}
	f.term = 7
	f.reign.spends(f)
	f.reign.spends(&feed{reign: f.reign, id: f.id}) // the next one never ran
	next := newFeed(f.reign, &meta.Changefeed{ID: f.id, Err: cdcerr.MetaCorrupted.New("no matter")})
	if now := f.reign.spentOn(f.id); next.term != 7 || now.run != 12 {
		t.Errorf("term %d, %+v", next.term, now)
	}
	if now := f.reign.spentOn(meta.ChangefeedID{Name: "b"}); now != (spent{}) {
		t.Errorf("of another name %+v", now)
	}
}

// Who saves for a run that is no more the last one does not take it for durable.
func TestSaveOfARunThatIsOver(t *testing.T) {
	at := tso.At(began)
	f := held(t, at)
	var err error
	f.life, err = changefeed.New(changefeed.Info{Config: changefeed.Default()}, changefeed.Status{CheckpointTS: at, ResolvedTS: at, Run: 12, State: changefeed.Stopped}, changefeed.Options{}, began)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.save(t.Context(), 11, at.Next(), at.Next()); !errors.Is(err, errRunOver) {
		t.Errorf("saved: %v", err)
	}
	if f.life.Status().CheckpointTS != at {
		t.Errorf("the checkpoint moved to %d", f.life.Status().CheckpointTS)
	}
}

// A seat is one in the changefeed of that creation, whatever number its run has: what
// came in between may never be seen.
func TestSeatOfAChangefeedThatWasMadeAgain(t *testing.T) {
	cfg := transport.Default()
	cfg.Self, cfg.Cluster = "here", "default"
	line, err := transport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Capture: &agent.Capture{Client: &upstream.Client{}}, Transport: line})
	m := c.member
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	is := func(created int64) *seat {
		now := &meta.Changefeed{ID: meta.ChangefeedID{Namespace: "default", Name: "a"}, Status: meta.Status{Run: 7, State: "normal"}, Created: created}
		m.feeds[now.ID] = now // it cannot be read, and so nothing is opened
		m.settle(ctx, g)
		return m.seats[now.ID].seat
	}
	first := is(1)
	if is(1) != first || first.ended() {
		t.Error("it does not stay")
	}
	is(2)
	<-first.done
	if next := is(2); next == first {
		t.Error("the seat is that of the first one")
	} else if next = is(2); next == first || next == nil || next.ended() {
		t.Error("there is no seat in the second one")
	}
}
