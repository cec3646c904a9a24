package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// cluster is several captures on one etcd.
type cluster struct {
	*site
	nodes []*node
}

// captures starts n servers on one etcd, and a changefeed of the bank on them.
func (s *site) captures(n int, sink string) *cluster {
	s.Helper()
	return s.configured(n, api.Creation{ID: feed, SinkURI: sink})
}

// configured is captures for a changefeed that is made so.
func (s *site) configured(n int, creation api.Creation) *cluster {
	s.Helper()
	c := &cluster{site: s}
	s.etcd()
	for range n {
		c.join()
	}
	_, err := c.owner().Create(s.Context(), creation)
	must(s.T, err)
	must(s.T, s.bank.Prepare(s.Context()))
	return c
}

// join starts one more.
func (c *cluster) join() *node {
	c.Helper()
	n := c.site.beside()
	c.nodes = append(c.nodes, n)
	return n
}

// gone forgets a server that has ended.
func (c *cluster) gone(n *node) {
	c.nodes = slices.DeleteFunc(c.nodes, func(o *node) bool { return o == n })
}

// owner waits for the one that leads.
func (c *cluster) owner() (o *node) {
	c.Helper()
	c.until("somebody leads", func() bool {
		i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.Self().Owner })
		if i >= 0 {
			o = c.nodes[i]
		}
		return i >= 0
	})
	return o
}

// another is a server that does not lead.
func (c *cluster) another() *node {
	c.Helper()
	o := c.owner()
	return c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n != o })]
}

// feed is the changefeed as whoever leads sees it; false while nobody does.
func (c *cluster) feed() (api.Feed, bool) {
	for _, n := range c.nodes {
		if f, err := n.Get(c.Context(), feed); err == nil {
			return f, true
		}
	}
	return api.Feed{}, false
}

// has is what a capture has of the changefeed.
func (c *cluster) has(id capture.ID) []int64 {
	f, ok := c.feed()
	if !ok {
		return nil
	}
	for _, t := range f.Tasks {
		if t.CaptureID == string(id) {
			return t.TableIDs
		}
	}
	return nil
}

// spread waits until every capture has tables, and all are replicated.
func (c *cluster) spread() {
	c.Helper()
	c.until("every capture has tables", func() bool {
		f, ok := c.feed()
		sum := 0
		for _, t := range f.Tasks {
			sum += len(t.TableIDs)
		}
		return ok && len(f.Tasks) == len(c.nodes) && sum == tables
	})
}

// caught waits until everything up to now is downstream, whoever leads.
func (c *cluster) caught() {
	c.Helper()
	now := c.cluster.TS()
	c.until("the checkpoint reaches the present", func() bool {
		f, ok := c.feed()
		return ok && f.Checkpoint >= now
	})
}

// loaded runs the bank until end, which waits for its last transfer.
func (c *cluster) loaded() (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(c.Context()))
	done := make(chan error, 1)
	go func() { done <- c.bank.Run(ctx, time.Hour) }()
	return func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			c.Error(err)
		}
	}
}

// tables are the bank's.
const tables = 3

// A cluster grows and shrinks under load: a capture that comes is given tables, one that
// is drained gives its own away, one that is told to end does so too, the owner as well,
// and one that dies loses them; no transfer is lost, or comes in halves.
func TestSeveralCaptures(t *testing.T) {
	s := newSite(t)
	c := s.captures(1, s.down.URI())
	end := c.loaded()
	c.caught()
	c.join()
	c.spread()
	third := c.join()
	c.spread()
	c.caught()

	// A table moves to where it is wanted.
	moved, to := c.has(c.owner().Self().ID)[0], third.Self().ID
	if third == c.owner() {
		to = c.another().Self().ID
	}
	if shown, err := c.owner().MoveTable(t.Context(), feed, moved, to); err != nil || shown != moved {
		t.Fatalf("moved %d, shown as %d: %v", moved, shown, err)
	}
	c.until("the table is where it is wanted", func() bool { return slices.Contains(c.has(to), moved) })

	// Drained, and told to end when it is empty.
	drained := c.another()
	c.drain(drained.Self().ID)
	drained.end(s)
	c.gone(drained)
	c.spread()

	// The owner is told to end: the other one leads, and has all.
	last := c.owner()
	last.end(s)
	c.gone(last)
	c.spread()
	c.caught()

	// The owner is torn off with all it has, and another capture comes.
	c.join()
	c.spread()
	dead := c.owner()
	dead.kill()
	c.gone(dead)
	c.join()
	c.spread()

	// One stands still while its session lives: the downstream's fence is enough to go on
	// without it, and it does not come back.
	still := c.another()
	still.hang()
	c.gone(still)
	c.spread()
	c.caught()
	end()
	c.caught()
	s.bankIsWhole(50)
	if f, _ := c.feed(); f.State != "normal" || f.Error != nil {
		t.Errorf("%s, %+v", f.State, f.Error)
	}
}

// drain asks as operators' tools do, until nothing is left.
func (c *cluster) drain(id capture.ID) {
	c.Helper()
	c.until("it has nothing", func() bool {
		left, err := c.owner().Drain(c.Context(), id)
		if err != nil && cdcerr.Fate(err) != cdcerr.Retry && !cdcerr.OwnerNotFound.Is(err) && !cdcerr.ServerNotReady.Is(err) {
			c.Fatal(err)
		}
		return err == nil && left.CurrentTableCount == 0
	})
}

// Whoever leads is drained by giving that up; the last one that takes tables is not
// drained; and who becomes the owner while it is drained leads, and replicates.
func TestDrain(t *testing.T) {
	s := newSite(t)
	c := s.captures(2, "blackhole://")
	c.spread()
	first, second := c.owner(), c.another()
	if _, err := first.Drain(t.Context(), "nobody"); !cdcerr.CaptureNotFound.Is(err) {
		t.Errorf("nobody: %v", err)
	}
	c.drain(first.Self().ID)
	if !second.Self().Owner || len(c.has(second.Self().ID)) != tables {
		t.Errorf("the owner was drained; the other one leads: %v, and has %v", second.Self().Owner, c.has(second.Self().ID))
	}
	if _, err := second.Drain(t.Context(), second.Self().ID); !cdcerr.SchedulerRequest.Is(err) {
		t.Errorf("the last that takes tables: %v", err)
	}
	// The one that is drained leads when the other one goes, and takes everything.
	second.end(s)
	c.gone(second)
	c.caught()
	if got := c.has(first.Self().ID); len(got) != tables {
		t.Errorf("has %v", got)
	}
	if _, err := first.Drain(t.Context(), first.Self().ID); !cdcerr.SchedulerRequest.Is(err) {
		t.Errorf("the only one: %v", err)
	}
}

// A capture that is drained stays drained whoever leads, until that is undone.
func TestDrainOutlivesItsOwner(t *testing.T) {
	s := newSite(t)
	c := s.captures(3, "blackhole://")
	c.spread()
	first, drained := c.owner(), c.another()
	id := drained.Self().ID
	left, err := first.Drain(t.Context(), id)
	must(t, err)
	if left.CurrentTableCount > 0 && !strings.Contains(left.Reason, "changefeed default/bank: ") {
		t.Errorf("%+v", left)
	}
	first.end(s)
	c.gone(first)
	third := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n != drained })]
	s.until("the third one has all", func() bool { return len(c.has(third.Self().ID)) == tables })
	c.caught()
	if got := c.has(id); len(got) > 0 {
		t.Errorf("drained, and has %v", got)
	}
	s.until("that is undone", func() bool { return c.owner().Undrain(t.Context(), id) == nil })
	must(t, c.owner().Rebalance(t.Context(), feed))
	c.spread()
	if drained, err := third.store.Drained(t.Context()); err != nil || len(drained) > 0 {
		t.Errorf("%v, %v", drained, err)
	}
}

// Pause ends what all captures do, resume begins it on all of them; what is asked of a
// capture that does not lead is not its affair.
func TestPauseOfSeveral(t *testing.T) {
	s := newSite(t)
	c := s.captures(2, s.down.URI())
	end := c.loaded()
	c.spread()
	if err := c.another().Pause(t.Context(), feed); !cdcerr.OwnerNotFound.Is(err) {
		t.Errorf("asked of another: %v", err)
	}
	for range 3 {
		must(t, c.owner().Pause(t.Context(), feed))
		if f, ok := c.feed(); !ok || f.State != "stopped" || len(f.Tasks) != 0 {
			t.Errorf("paused: %s, %v", f.State, f.Tasks)
		}
		if _, err := c.owner().MoveTable(t.Context(), feed, 5, c.another().Self().ID); !cdcerr.SchedulerRequest.Is(err) {
			t.Errorf("moved while it stands: %v", err)
		}
		must(t, c.owner().Resume(t.Context(), feed, 0))
		c.spread()
		c.caught()
	}
	end()
	c.caught()
	s.bankIsWhole(50)
}

// A DDL whose owner goes in the midst of it is carried out once, by the next one.
func TestOwnerGoesDuringADDL(t *testing.T) {
	s := newSite(t)
	c := s.captures(2, s.down.URI())
	end := c.loaded()
	c.spread()
	c.caught()
	for i, how := range []func(n *node){
		func(n *node) { n.end(s); c.gone(n); c.join() },
		func(n *node) { n.kill(); c.gone(n) },
	} {
		column := string(rune('p' + i))
		must(t, s.bank.Server.Exec(t.Context(), "ALTER TABLE a0 ADD COLUMN "+column+" int DEFAULT 7", catalog.Session{DB: workload.BankDB}, nil))
		how(c.owner())
		c.caught()
		if n := s.count("SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'bank' AND table_name = 'a0' AND column_name = '" + column + "'"); n != 1 {
			t.Errorf("column %s is there %d times", column, n)
		}
	}
	end()
	c.caught()
	s.bankIsWhole(50)
	if f, _ := c.feed(); f.State != "normal" || f.Error != nil {
		t.Errorf("%s, %+v", f.State, f.Error)
	}
}

// All captures that are told to end at one time end at once: nobody waits for another
// one to take over.
func TestAllEndAtOnce(t *testing.T) {
	s := newSite(t)
	c := s.captures(3, "blackhole://")
	c.spread()
	ended := make(chan error, len(c.nodes))
	var all atomic.Int32
	for _, n := range c.nodes {
		n.leave()
		go func() {
			err := <-n.done
			n.done <- nil // for whoever asks again
			all.Add(1)
			ended <- err
		}()
	}
	s.until("all have ended", func() bool { return int(all.Load()) == len(c.nodes) })
	for range c.nodes {
		must(t, <-ended)
	}
}

// A capture that cannot take part in what runs says so to the owner: a changefeed of
// which one waits, or that a capture would leave to the others in silence, is an error.
func TestACaptureThatCannotTakePart(t *testing.T) {
	s := newSite(t)
	c := s.captures(1, "blackhole://")
	c.caught()
	other, err := fake.Start(fake.Config{ClusterID: 99})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- other.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	own := s.cluster
	s.cluster = other
	stray := c.join()
	s.cluster = own
	s.until("the changefeed fails", func() bool {
		f, ok := c.feed()
		return ok && f.State == "failed"
	})
	f, _ := c.feed()
	if f.Error == nil || f.Error.Code != cdcerr.OtherUpstream.ID || f.Error.Addr != stray.Self().Address {
		t.Errorf("%+v", f.Error)
	}
}
