package coordinator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// guarded is a changefeed that ends with its redo log once the upstream is lost.
func (s *site) guarded(grace string) api.Creation {
	c := s.creation()
	c.Config = json.RawMessage(fmt.Sprintf(`{"consistent":{"level":"eventual","storage":"file://%s","on_upstream_loss":"apply","upstream_loss_grace":%q}}`, s.dir, grace))
	return c
}

// guards starts n servers with such a changefeed, and load.
func (s *site) guards(n int, grace string) (c *cluster, end func()) {
	s.Helper()
	c = &cluster{site: s}
	s.etcd()
	for range n {
		c.join()
	}
	_, err := c.owner().Create(s.Context(), s.guarded(grace))
	must(s.T, err)
	must(s.T, s.bank.Prepare(s.Context()))
	end = c.loaded()
	c.spread()
	c.caught()
	c.until("it is known where the upstream is", func() bool {
		all, err := c.nodes[0].store.Changefeeds(s.Context())
		must(s.T, err)
		info, err := changefeed.ParseInfo(all[0].Info)
		must(s.T, err)
		return info.Upstream != nil && len(info.Upstream.Stores) == 2
	})
	return c, end
}

// lose has nothing of the upstream answer any more.
func (s *site) lose() {
	s.Helper()
	must(s.T, s.cluster.StopStore(s.Context(), 1))
	must(s.T, s.cluster.StopStore(s.Context(), 2))
	must(s.T, s.cluster.StopPD(s.Context(), 0))
}

// finds has it answer again.
func (s *site) finds() {
	s.Helper()
	must(s.T, s.cluster.StartPD(0))
	must(s.T, s.cluster.StartStore(1))
	must(s.T, s.cluster.StartStore(2))
}

// finished waits until the changefeed has ended, and looks whether the downstream is the
// upstream's snapshot at where the redo log ends.
func (c *cluster) finished() tso.TS {
	c.Helper()
	var f api.Feed
	c.until("it has ended", func() bool {
		f, _ = c.feed()
		if f.State == "failed" {
			c.Fatalf("%+v", f.Error)
		}
		return f.State == "finished"
	})
	bucket, err := objstore.Open(c.Context(), "file://"+c.dir)
	must(c.T, err)
	defer bucket.Close()
	all, err := redo.Find(c.Context(), bucket)
	must(c.T, err)
	last, err := redo.LastMeta(c.Context(), bucket, all[0])
	must(c.T, err)
	if f.Checkpoint != last.Resolved {
		c.Errorf("it has ended at %d, and its redo log at %d", f.Checkpoint, last.Resolved)
	}
	want := fmt.Sprintf("[CDC:ErrUpstreamLost] upstream lost, applied to %d (", last.Resolved)
	if f.Warning == nil || f.Error != nil || f.Warning.Code != cdcerr.UpstreamLost.ID || !strings.HasPrefix(f.Warning.Message, want) {
		c.Errorf("%+v, %+v: want %s", f.Error, f.Warning, want)
	}
	if n := c.count(fmt.Sprintf("SELECT COUNT(*) FROM tidb_cdc.syncpoint_v1 WHERE primary_ts = '%d'", last.Resolved)); n != 1 {
		c.Errorf("downstream %d is noted %d times", last.Resolved, n)
	}
	c.bankIsWhole(50)
	return last.Resolved
}

// The upstream is lost: what the redo log holds is downstream, and the changefeed is over,
// also when the upstream comes back.
func TestUpstreamLost(t *testing.T) {
	s := newSite(t)
	c, end := s.guards(2, "3s")
	defer end()
	// A part of it is not the whole, for however long: nobody counts.
	must(t, s.cluster.StopPD(t.Context(), 0))
	must(t, s.cluster.StopStore(t.Context(), 1))
	c.until("some captures say that they reach the upstream", func() bool {
		all, err := c.nodes[0].store.Captures(t.Context())
		must(t, err)
		return len(all) == 2 && all[0].Upstream == 1 && all[1].Upstream == 1
	})
	if f, _ := c.feed(); f.Warning != nil && f.Warning.Code == cdcerr.UpstreamAway.ID || f.State == "finished" {
		t.Errorf("one store is there: %s, %+v", f.State, f.Warning)
	}
	must(t, s.cluster.StopStore(t.Context(), 2))
	c.until("it is told what will be", func() bool {
		f, _ := c.feed()
		return f.State == "warning" && f.Warning != nil && f.Warning.Code == cdcerr.UpstreamAway.ID && strings.Contains(f.Warning.Message, "if that goes on for ")
	})
	at := c.finished()
	s.finds()
	for what, err := range map[string]error{
		"resumed":           c.owner().Resume(t.Context(), feed, 0),
		"resumed elsewhere": c.owner().Resume(t.Context(), feed, at),
		"updated": func() error {
			_, err := c.owner().Update(t.Context(), feed, api.Change{TargetTS: new(tso.TS)})
			return err
		}(),
	} {
		if !cdcerr.UpdateRefused.Is(err) || !strings.Contains(err.Error(), fmt.Sprintf("create one with start-ts %d", at+1)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Another owner knows it.
	first := c.owner()
	first.end(s)
	c.gone(first)
	c.owner()
	if f, ok := c.feed(); !ok || f.State != "finished" || f.Checkpoint != at {
		t.Errorf("%+v", f)
	}
	must(t, c.owner().Remove(t.Context(), feed))
}

// The owner dies between its decision and the end: the next one goes on, though the
// upstream is there again.
func TestOwnerDiesWhileTheRedoLogIsApplied(t *testing.T) {
	s := newSite(t)
	c, end := s.guards(2, "1s")
	defer end()
	s.lose()
	must(t, s.down.Kill()) // nothing can be applied
	c.until("it is decided", func() bool { return c.decided() })
	c.until("nothing can be applied", func() bool {
		f, ok := c.feed()
		return ok && f.State == "pending" && f.Warning != nil && f.Warning.Code != cdcerr.UpstreamLost.ID
	})
	s.finds()
	dead := c.owner()
	dead.kill()
	c.gone(dead)
	must(t, s.down.Restart())
	c.finished()
}

// The redo log is applied by hand while the changefeed is paused, as in a drill. It goes on
// when it is resumed: whoever led it has its place downstream again.
func TestResumeAfterApply(t *testing.T) {
	s := newSite(t)
	c, end := s.guards(2, "10m")
	must(t, c.owner().Pause(t.Context(), feed))
	bucket, err := objstore.Open(t.Context(), "file://"+c.dir)
	must(t, err)
	defer bucket.Close()
	all, err := redo.Find(t.Context(), bucket)
	must(t, err)
	for range 2 {
		d, err := downstream.Open(t.Context(), s.down.URI(), downstream.Config{
			Cluster: all[0].Servers, Changefeed: all[0].Namespace + "/" + all[0].Changefeed, Upstream: all[0].Cluster, Life: all[0].Life(),
		})
		must(t, err)
		leave, err := d.(sink.Usurper).TakeOver(t.Context())
		must(t, err)
		inv, err := redo.Open(t.Context(), bucket, all[0])
		must(t, err)
		_, err = redo.Apply(t.Context(), bucket, inv, redo.DefaultApply(inv), d, leave)
		must(t, err)
		must(t, d.Close())
	}
	must(t, c.owner().Resume(t.Context(), feed, 0))
	c.until("it goes on", func() bool {
		f, ok := c.feed()
		return ok && f.State == "normal"
	})
	end()
	c.caught()
	c.bankIsWhole(50)
}

// decided tells whether etcd has it that the upstream is lost.
func (c *cluster) decided() bool {
	all, err := c.nodes[0].store.Changefeeds(c.Context())
	must(c.T, err)
	info, err := changefeed.ParseInfo(all[0].Info)
	must(c.T, err)
	return info.Loss != nil
}

// All servers die in the disaster. They start without an upstream, lead, and bring it to
// an end; one that starts while a store is alive does not.
func TestServersStartWithoutAnUpstream(t *testing.T) {
	s := newSite(t)
	c, end := s.guards(1, "3s")
	defer end()
	s.lose()
	c.nodes[0].kill()
	c.nodes[0].end(s)
	must(t, s.cluster.StartStore(2))
	c.nodes = nil
	c.join()
	o := c.owner()
	c.until("it sees the store", func() bool {
		all, err := o.store.Captures(t.Context())
		must(t, err)
		return len(all) == 1 && all[0].Upstream == 1
	})
	if err := o.Health(t.Context()); !cdcerr.PDUnreachable.Is(err) {
		t.Errorf("without an upstream it is healthy: %v", err)
	}
	if c.decided() {
		t.Error("a store lives, and the upstream is taken for lost")
	}
	must(t, s.cluster.StopStore(t.Context(), 2))
	c.finished()
	// It has an upstream again, and takes part in what there is.
	s.finds()
	before := o.Self().ID
	o.begun(s)
	c.until("it leads as another capture", func() bool { return o.Self().Owner && o.Self().ID != before && o.Health(t.Context()) == nil })
	if f, _ := c.feed(); f.State != "finished" {
		t.Errorf("%+v", f)
	}
}

// A server that came without an upstream, while others have one, does not lead, is not asked
// what it has, and is nobody whom spans could be left to.
func TestAServerWithoutAnUpstreamLeavesLeadingToOthers(t *testing.T) {
	s := newSite(t)
	c, end := s.guards(1, "1h")
	defer end()
	with := c.nodes[0]
	unfenced := api.FeedID{Keyspace: feed.Keyspace, Name: "unfenced"}
	_, err := with.Create(t.Context(), api.Creation{ID: unfenced, SinkURI: "blackhole://"})
	must(t, err)
	without := s.cutOff()
	c.until("it looks at the upstream", func() bool {
		all, err := without.store.Captures(t.Context())
		must(t, err)
		i := slices.IndexFunc(all, func(i capture.Info) bool { return i.ID == without.Self().ID })
		return len(all) == 2 && i >= 0 && all[i].Upstream == capture.Reached && all[i].NoUpstream
	})
	if standing, err := without.store.Candidates(t.Context()); err != nil || len(standing) != 1 || standing[0] != with.Self().ID {
		t.Errorf("%v stand for election: %v", standing, err)
	}
	if _, err := with.Drain(t.Context(), with.Self().ID); !cdcerr.SchedulerRequest.Is(err) {
		t.Errorf("the last one with an upstream is drained: %v", err)
	}
	with.end(s) // it waits for nobody to take its spans
	c.gone(with)
	c.nodes = append(c.nodes, without)
	c.until("it leads while nobody else is there", func() bool { return without.Self().Owner })
	next := c.join()
	c.until("it leads no more", func() bool { return next.Self().Owner && !without.Self().Owner })
	now := s.cluster.TS()
	for _, id := range []api.FeedID{feed, unfenced} {
		c.until("the changefeeds go on", func() bool {
			f, err := next.Get(t.Context(), id)
			return err == nil && f.Checkpoint >= now
		})
	}
}

// cutOff starts a server on the etcd that never finds the upstream.
func (s *site) cutOff() *node {
	s.Helper()
	return s.besides(func(c *server.Config) { c.PD = []string{"http://127.0.0.1:1"} })
}

// What cannot be kept is not promised: metadata that is lost with the upstream, a
// downstream that takes what comes late, no log.
func TestLossIsRefused(t *testing.T) {
	s := newSite(t)
	n := s.node()
	unfenced := s.guarded("1s")
	unfenced.SinkURI += "?enable-fence=false"
	if _, err := n.Create(t.Context(), unfenced); !cdcerr.ConfigInvalid.Is(err) || !strings.Contains(err.Error(), "enable-fence") {
		t.Errorf("a downstream that compares nothing: %v", err)
	}
	must(t, func() error { _, err := n.Create(t.Context(), s.guarded("1s")); return err }())
	must(t, n.Pause(t.Context(), feed))
	n.end(s)

	s.metaUpstream = true
	n = s.node()
	refused := func(what string, err error) {
		t.Helper()
		if !cdcerr.ConfigInvalid.Is(err) || !strings.Contains(err.Error(), "in the upstream's own PD") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("resumed", n.Resume(t.Context(), feed, 0))
	_, err := n.Update(t.Context(), feed, api.Change{Config: json.RawMessage(`{"case_sensitive":true}`)})
	refused("updated", err)
	another := s.guarded("1s")
	another.ID.Name = "another"
	_, err = n.Create(t.Context(), another)
	refused("created", err)
	_, err = n.Update(t.Context(), feed, api.Change{Config: json.RawMessage(`{"consistent":{"on_upstream_loss":"none"}}`)})
	must(t, err)
	must(t, n.Resume(t.Context(), feed, 0))
	s.caught(n)
}
