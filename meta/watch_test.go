package meta_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// view is a cluster as the updates of a watch add up to it.
type view struct {
	t        *testing.T
	revision int64
	feeds    map[meta.ChangefeedID]*meta.Changefeed
	captures map[capture.ID]capture.Info
	owner    capture.ID
	wholes   int
}

func (v *view) take(u meta.Update) {
	if u.Revision < v.revision {
		v.t.Errorf("revision %d after %d", u.Revision, v.revision)
	}
	v.revision = u.Revision
	if u.All {
		v.wholes++
		v.feeds, v.captures = map[meta.ChangefeedID]*meta.Changefeed{}, map[capture.ID]capture.Info{}
	}
	for _, c := range u.Changefeeds {
		if was := v.feeds[c.ID]; c.Now != nil && was != nil && was.Err == nil && c.Now.Err == nil && c.Now.Status.CheckpointTS < was.Status.CheckpointTS {
			v.t.Errorf("%s: checkpoint %d after %d", c.ID, c.Now.Status.CheckpointTS, was.Status.CheckpointTS)
		}
		if v.feeds[c.ID] = c.Now; c.Gone {
			delete(v.feeds, c.ID)
		}
	}
	for _, c := range u.Captures {
		if v.captures[c.ID] = c.Info; c.Gone {
			delete(v.captures, c.ID)
		}
	}
	if u.OwnerMoved {
		v.owner = u.Owner
	}
}

// watch follows until told; wait lets a test wait for a state.
func watch(t *testing.T, s *meta.Store) (wait func(what string, is func(*view) bool)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	updates, done := make(chan meta.Update), make(chan error, 1)
	go func() {
		done <- s.Watch(ctx, func(u meta.Update) error {
			select {
			case updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	v := &view{t: t}
	return func(what string, is func(*view) bool) {
		t.Helper()
		late := time.After(3 * time.Minute)
		for !is(v) {
			select {
			case u := <-updates:
				v.take(u)
			case <-late:
				t.Fatalf("%s did not come: %v, %v, %s", what, slices.Collect(maps.Keys(v.feeds)), v.captures, v.owner)
			}
		}
	}
}

func checkpointIs(ts tso.TS) func(*view) bool {
	return func(v *view) bool { return v.feeds[feed] != nil && v.feeds[feed].Status.CheckpointTS == ts }
}

// A watch tells what stands and what changes, and no more of who is gone.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	wait := watch(t, beside(t, s, nil))
	wait("what stands", checkpointIs(1))
	live, stop := session(t, s, "a", time.Minute)
	must(t, live.Register(ctx, capture.Info{ID: "a", Address: "127.0.0.1:1"}))
	_, err = live.Campaign(ctx)
	must(t, err)
	wait("the owner", func(v *view) bool { return v.owner == "a" && v.captures["a"].Address == "127.0.0.1:1" })
	for n := range tso.TS(20) {
		made, err = s.PutStatus(ctx, meta.Fence{}, made, at(2+n, 2+n))
		must(t, err)
	}
	wait("the last status", checkpointIs(21))
	_, err = raw(t, s).Put(ctx, "/sluice/default/changefeed/default/orders/status", "?")
	must(t, err)
	wait("the damage", func(v *view) bool { return cdcerr.MetaCorrupted.Is(v.feeds[feed].Err) })
	read, err := s.Changefeed(ctx, feed)
	must(t, err)
	_, err = s.PutStatus(ctx, meta.Fence{}, read, at(30, 30)) // an operator's repair
	must(t, err)
	wait("the repair", checkpointIs(30))
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wait("the end of the capture", func(v *view) bool { return v.owner == "" && len(v.captures) == 0 })
	read, err = s.Changefeed(ctx, feed)
	must(t, err)
	must(t, s.RemoveChangefeed(ctx, meta.Fence{}, read))
	wait("the end of the changefeed", func(v *view) bool { return len(v.feeds) == 0 && v.wholes == 1 })
}

// What a watch missed while it was cut off may have been compacted: then it is told
// everything that stands, what is gone by then included.
func TestCompactionDuringWatch(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	p := newProxy(t, s.Endpoints()[0])
	far := beside(t, s, func(c *meta.Config) { c.Endpoints = []string{p.addr()} })
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	gone := meta.ChangefeedID{Namespace: "default", Name: "gone"}
	leaving, err := s.CreateChangefeed(ctx, meta.Fence{}, gone, info, at(1, 1))
	must(t, err)
	wait := watch(t, far)
	wait("what stands", func(v *view) bool { return len(v.feeds) == 2 })
	p.stall(true)
	for n := range tso.TS(10) {
		made, err = s.PutStatus(ctx, meta.Fence{}, made, at(2+n, 2+n))
		must(t, err)
	}
	must(t, s.RemoveChangefeed(ctx, meta.Fence{}, leaving))
	_, err = raw(t, s).Compact(ctx, made.Revision())
	must(t, err)
	p.cut()
	p.stall(false)
	wait("what has become of it", func(v *view) bool { return checkpointIs(11)(v) && len(v.feeds) == 1 })
}

// Etcd restarts: what was written stands, the watch goes on, and a session that had
// time left lives on.
func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := embedded(t.TempDir())
	first, err := meta.Open(t.Context(), cfg)
	must(t, err)
	ctx := t.Context()
	made, err := first.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	p := newProxy(t, first.Endpoints()[0])
	far := beside(t, first, func(c *meta.Config) { c.Endpoints = []string{p.addr()} })
	live, _ := session(t, far, "far", 30*time.Second)
	leader, err := live.Campaign(ctx)
	must(t, err)
	wait := watch(t, far)
	wait("what stands", checkpointIs(1))
	identity := first.Identity()
	p.turn("127.0.0.1:1") // a server waits for its clients
	p.cut()
	first.Close()

	second := open(t, cfg)
	p.turn(second.Endpoints()[0])
	t.Cleanup(func() {
		p.turn("127.0.0.1:1")
		p.cut()
	})
	if second.Identity() != identity || far.Identity() != identity {
		t.Errorf("cluster %s was %s", second.Identity(), identity)
	}
	_, err = second.PutStatus(ctx, leader.Fence, made, at(5, 6))
	must(t, err)
	wait("what is written after the restart", checkpointIs(5))
	must(t, leader.Check(ctx))
}

// An etcd that takes its time is an error of bounded time, and what was asked of it
// may yet have been done: who reads again knows.
func TestSlowEtcd(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	p := newProxy(t, s.Endpoints()[0])
	far := beside(t, s, func(c *meta.Config) { c.Endpoints, c.RequestTimeout = []string{p.addr()}, 300*time.Millisecond })
	made, err := far.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	p.stall(true)
	_, err = far.PutStatus(ctx, meta.Fence{}, made, at(2, 2))
	refused(t, err, cdcerr.MetaUnreachable, "default/orders")
	if cdcerr.Fate(err) != cdcerr.Retry {
		t.Errorf("fate %v", cdcerr.Fate(err))
	}
	p.stall(false)
	for try := 0; ; try++ {
		read, err := far.Changefeed(ctx, feed)
		if err == nil {
			_, err = far.PutStatus(ctx, meta.Fence{}, read, at(3, 3))
		}
		if err == nil {
			break
		}
		if try == 50 || cdcerr.Fate(err) != cdcerr.Retry {
			t.Fatal(err)
		}
	}
}

// A cluster is founded once; another one beside it shares nothing with it, and a
// layout of the future is left alone.
func TestClusters(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	same := beside(t, s, nil)
	other := beside(t, s, func(c *meta.Config) { c.Cluster = "other" })
	if same.Identity() != s.Identity() || other.Identity() == s.Identity() || len(s.Identity()) != 32 {
		t.Errorf("%s, %s, %s", s.Identity(), same.Identity(), other.Identity())
	}
	_, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	if all, err := other.Changefeeds(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for value, code := range map[string]*cdcerr.Code{"2": cdcerr.MetaVersion, "?": cdcerr.MetaCorrupted} {
		_, err = raw(t, s).Put(ctx, "/sluice/other/meta/version", value)
		must(t, err)
		cfg := meta.Default()
		cfg.Backend, cfg.Endpoints, cfg.Cluster = meta.BackendExternal, s.Endpoints(), "other"
		_, err = meta.Open(ctx, cfg)
		refused(t, err, code, value)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*meta.Config){
		"Endpoints":               func(c *meta.Config) { c.Endpoints = nil },
		"Backend":                 func(c *meta.Config) { c.Backend = "zookeeper" },
		"belongs to TiDB":         func(c *meta.Config) { c.Prefix = "/tidb/cdc/x" },
		"Prefix":                  func(c *meta.Config) { c.Prefix = "sluice" },
		"Cluster":                 func(c *meta.Config) { c.Cluster = "a/b" },
		"TLS.CA":                  func(c *meta.Config) { c.Endpoints = []string{"https://127.0.0.1:1"} },
		"neither host:port":       func(c *meta.Config) { c.Endpoints = []string{"ftp://a"} },
		"Embedded.DataDir":        func(c *meta.Config) { c.Backend = meta.BackendEmbedded },
		"Embedded.InitialCluster": func(c *meta.Config) { *c = embedded("x"); c.Embedded.InitialCluster = "a" },
		"Embedded.PeerAddr":       func(c *meta.Config) { *c = embedded("x"); c.Embedded.PeerAddr = "nowhere" },
		"RequestTimeout":          func(c *meta.Config) { c.RequestTimeout = 0 },
	} {
		cfg := meta.Default()
		cfg.Endpoints = []string{"127.0.0.1:2379"}
		must(t, cfg.Validate())
		change(&cfg)
		_, err := meta.Open(t.Context(), cfg)
		refused(t, err, cdcerr.InvalidArgument, want)
	}
	cfg := meta.Default()
	cfg.Endpoints, cfg.RequestTimeout = []string{newProxy(t, "127.0.0.1:1").addr()}, 200*time.Millisecond
	_, err := meta.Open(t.Context(), cfg)
	refused(t, err, cdcerr.MetaUnreachable, fmt.Sprint(cfg.Endpoints[0]))
}

// withoutMembers makes the database one of a member that has not written yet who it is.
func withoutMembers(dir string) error {
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte("members")); err != nil {
			return err
		}
		_, err := tx.CreateBucket([]byte("members"))
		return err
	})
	return errors.Join(err, db.Close())
}

// A process that is killed in its first start leaves an etcd that was never ready. It
// is put aside; one that was ready once, or was restored, never is.
func TestFirstStartThatWasCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(dir string) error
		lost    bool
	}{
		"never ready": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "sluice-ready")), withoutMembers(dir))
		}, true},
		"no database yet": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "sluice-ready")), os.Remove(filepath.Join(dir, "member", "snap", "db")))
		}, true},
		"ready":    {func(string) error { return nil }, false},
		"restored": {func(dir string) error { return os.Remove(filepath.Join(dir, "sluice-ready")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := embedded(t.TempDir())
			first, err := meta.Open(t.Context(), cfg)
			must(t, err)
			_, err = first.CreateChangefeed(t.Context(), meta.Fence{}, feed, info, at(1, 1))
			first.Close()
			must(t, err)
			must(t, c.prepare(cfg.Embedded.DataDir))
			second := open(t, cfg)
			_, err = second.Changefeed(t.Context(), feed)
			if cdcerr.ChangefeedNotFound.Is(err) != c.lost {
				t.Errorf("got %v", err)
			}
			aside, err := filepath.Glob(filepath.Join(cfg.Embedded.DataDir, "member.unready*"))
			must(t, err)
			if (len(aside) == 1) != c.lost {
				t.Errorf("put aside: %v", aside)
			}
		})
	}
}
