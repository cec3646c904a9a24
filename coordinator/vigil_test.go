package coordinator

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// cutOff is the reign of a capture that came without an upstream, whose PD is nowhere.
func cutOff(t *testing.T) *reign {
	t.Helper()
	cfg := upstream.Default()
	cfg.PD = []string{"127.0.0.1:1"}
	client, err := upstream.Absent(cfg, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := newReign(New(Config{
		Self: capture.Info{ID: "me", Address: "a:1"}, ClusterID: "default", Capture: &agent.Capture{Client: client},
		Now: func() time.Time { return began.Add(time.Minute) }, GCTTL: time.Hour,
	}), &meta.Leadership{})
	close(r.over)
	return r
}

// guards is a changefeed that ends with its redo log when an upstream with these stores was
// lost for a grace.
func (r *reign) guards(t *testing.T, name string, grace time.Duration, stores ...string) *feed {
	t.Helper()
	info := changefeed.Info{Namespace: "default", Name: name, UpstreamID: 7, Config: changefeed.Default(), Upstream: &changefeed.Addresses{Stores: stores}}
	log := &info.Config.Consistent
	log.Level, log.Storage, log.OnUpstreamLoss, log.UpstreamLossGrace = "eventual", changefeed.URI("file://"+t.TempDir()), "apply", changefeed.Duration(grace)
	at := tso.At(began)
	life, err := changefeed.New(info, changefeed.Status{CheckpointTS: at, ResolvedTS: at, State: changefeed.Normal}, changefeed.Options{}, began)
	if err != nil {
		t.Fatal(err)
	}
	id := meta.ChangefeedID{Namespace: "default", Name: name}
	return &feed{
		reign: r, id: id, kept: &meta.Changefeed{ID: id}, life: life, log: r.cfg.Log, tally: r.tallyOf(id),
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// away tells whether a changefeed says that its upstream is.
func (f *feed) away() bool {
	info := f.life.Info()
	return info.Trouble != nil && info.Trouble.Away
}

// Each changefeed has a grace of its own, from when it is guarded.
func TestEachGraceIsItsOwn(t *testing.T) {
	r, v := cutOff(t), vigils{}
	soon, late, later := r.guards(t, "soon", 3*time.Second), r.guards(t, "late", 10*time.Second), r.guards(t, "later", 3*time.Second)
	for _, c := range []struct {
		at      time.Duration
		guarded []*feed
		ended   []*feed // of those
	}{
		{0, []*feed{soon, late}, nil},
		{3*time.Second - 1, []*feed{soon, late}, nil},
		{3 * time.Second, []*feed{soon, late}, []*feed{soon}},
		{4 * time.Second, []*feed{late, later}, nil},
		{7*time.Second - 1, []*feed{late, later}, nil},
		{7 * time.Second, []*feed{late, later}, []*feed{later}},
		{8 * time.Second, nil, nil}, // it is stopped, and resumed
		{9 * time.Second, []*feed{late}, nil},
		{10 * time.Second, []*feed{late}, nil},
		{19*time.Second - 1, []*feed{late}, nil},
		{19 * time.Second, []*feed{late}, []*feed{late}},
	} {
		v.look(t.Context(), c.guarded, changefeed.Sight{At: c.at, Lost: true})
		for _, f := range c.guarded {
			want := slices.Contains(c.ended, f)
			if f.ends() != want || !want && !f.away() {
				t.Errorf("%v: %s ends: %v, and is away: %v", c.at, f.id, f.ends(), f.away())
			}
		}
	}
}

// Right before the upstream is taken for lost it is looked for once more.
func TestTheLastLook(t *testing.T) {
	lives, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := new(errgroup.Group)
	g.Go(func() error {
		for {
			c, err := lives.Accept()
			if err != nil {
				return nil //nolint:nilerr // it was closed
			}
			_, _ = c.Write([]byte{1}) // whoever hung up has heard enough
			_ = c.Close()
		}
	})
	r, v := cutOff(t), vigils{}
	f := r.guards(t, "a", 3*time.Second, lives.Addr().String())
	look := func(at time.Duration, ends, away bool) {
		t.Helper()
		v.look(t.Context(), []*feed{f}, changefeed.Sight{At: at, Lost: true})
		if f.ends() != ends || f.away() != away {
			t.Errorf("%v: it ends: %v, and is away: %v", at, f.ends(), f.away())
		}
	}
	look(0, false, true)
	look(2*time.Second, false, true)
	look(4*time.Second, false, false) // a store says something, and the grace begins anew
	look(5*time.Second, false, true)
	if err := lives.Close(); err != nil {
		t.Fatal(err)
	}
	_ = g.Wait() // it has no error
	look(7*time.Second, false, true)
	ctx, stop := context.WithCancel(t.Context())
	stop() // whoever is told to end has looked for nothing
	v.look(ctx, []*feed{f}, changefeed.Sight{At: 8 * time.Second, Lost: true})
	if f.ends() {
		t.Error("it ends by who was told to end")
	}
	look(8*time.Second, true, false)
}

// An owner that cannot tell yet leaves what the one before has said: how long a changefeed may
// be stuck does not end it meanwhile.
func TestAwayOutlivesTheOwner(t *testing.T) {
	r := cutOff(t)
	f := r.guards(t, "a", time.Hour)
	vigils{}.look(t.Context(), []*feed{f}, changefeed.Sight{Lost: true})
	stored := f.life.Tick(changefeed.View{Now: began}).Info
	if stored == nil || !f.away() {
		t.Fatalf("it is not kept that the upstream is away: %+v", stored)
	}
	next := r.guards(t, "a", time.Hour)
	var err error
	if next.life, err = changefeed.New(*stored, f.life.Status(), changefeed.Options{}, began); err != nil {
		t.Fatal(err)
	}
	v := vigils{}
	v.look(t.Context(), []*feed{next}, changefeed.Sight{})
	if !next.away() {
		t.Error("it is not away any more, and nobody has looked")
	}
	v.look(t.Context(), []*feed{next}, changefeed.Sight{Reached: true})
	if next.away() {
		t.Error("it is there, and away")
	}
}

// A log that has no meta yet has let nothing through: applied, it would not make the
// downstream a snapshot.
func TestALogWithoutAMetaIsNotApplied(t *testing.T) {
	f := cutOff(t).guards(t, "a", time.Second)
	info := f.life.Info()
	info.SinkURI = "mysql://root@127.0.0.1:1/"
	if to, _, err := f.applyRedo(t.Context(), &info, f.life.Status()); !cdcerr.RedoTooYoung.Is(err) {
		t.Errorf("applied to %d: %v", to, err)
	}
}

// A server that came without an upstream waits for what is being applied, and for nothing
// that does not get on.
func TestWhoAppliesIsWaitedFor(t *testing.T) {
	now := began
	for what, c := range map[string]struct {
		change func(l *changefeed.Life)
		want   bool
	}{
		"nothing is lost": {func(*changefeed.Life) {}, false},
		"just decided":    {func(l *changefeed.Life) { l.Lose(now, "a:1") }, true},
		"it gets on": {func(l *changefeed.Life) {
			l.Lose(now, "a:1")
			l.Tick(changefeed.View{Now: now})
			l.ApplyWarns(changefeed.NewFault(cdcerr.UpstreamLost.New("10 %%"), "a:1", now))
		}, true},
		"it does not": {func(l *changefeed.Life) {
			l.Lose(now, "a:1")
			l.Tick(changefeed.View{Now: now})
			l.ApplyWarns(changefeed.NewFault(cdcerr.MySQLConnection.New("refused"), "a:1", now))
		}, false},
		"it cannot": {func(l *changefeed.Life) {
			l.Lose(now, "a:1")
			l.Tick(changefeed.View{Now: now})
			l.ApplyFails(changefeed.NewFault(cdcerr.RedoGap.New("x"), "a:1", now))
		}, false},
		"it is resumed": {func(l *changefeed.Life) {
			l.Lose(now, "a:1")
			l.Tick(changefeed.View{Now: now})
			l.ApplyFails(changefeed.NewFault(cdcerr.RedoGap.New("x"), "a:1", now))
			_ = l.Resume(now, changefeed.Resumption{})
		}, true},
		"it was applied": {func(l *changefeed.Life) {
			l.Lose(now, "a:1")
			l.Tick(changefeed.View{Now: now})
			l.Applied(now, "a:1", l.Status().CheckpointTS)
		}, false},
	} {
		f := cutOff(t).guards(t, "a", time.Second)
		c.change(f.life)
		info := f.life.Info()
		text, err := info.Stored()
		if err != nil {
			t.Fatal(err)
		}
		kept := &meta.Changefeed{ID: f.id, Info: text, Status: statusOf(f.life.Status())}
		if got := Applies([]*meta.Changefeed{kept}); got != c.want {
			t.Errorf("%s: waited for: %v", what, got)
		}
	}
}
