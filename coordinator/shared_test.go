package coordinator_test

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
)

// Two changefeeds over the same tables cost the upstream one stream of each: what the
// second one needs beside, of before the first one's present, is over when it has come
// so far. When the first one is removed the second one goes on with what there is, and
// registers for nothing. The last one to go leaves nothing.
func TestTwoChangefeedsShareTheirStreams(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	must(t, s.bank.Prepare(ctx))
	caught := func(id api.FeedID) {
		t.Helper()
		must(t, s.bank.Run(ctx, 200*time.Millisecond))
		now := s.cluster.TS()
		s.until(id.Name+" reaches the present", func() bool {
			f, err := n.Get(ctx, id)
			must(t, err)
			return f.Checkpoint >= now
		})
	}
	one, two := api.FeedID{Keyspace: "default", Name: "one"}, api.FeedID{Keyspace: "default", Name: "two"}
	create := func(id api.FeedID) {
		t.Helper()
		_, err := n.Create(ctx, api.Creation{ID: id, SinkURI: "blackhole://"})
		must(t, err)
		caught(id)
	}
	create(one)
	alone := s.cluster.Subscriptions()
	if alone < 2 {
		t.Fatalf("%d registrations: the tables' and the job table's", alone)
	}
	create(two)
	caught(one)
	s.until("they share", func() bool { return s.cluster.Subscriptions() == alone })
	registered := s.cluster.Registrations()
	must(t, n.Remove(ctx, one))
	s.until("the first one's work has ended", func() bool { return len(n.Work()) == 1 })
	caught(two)
	if now, ever := s.cluster.Subscriptions(), s.cluster.Registrations(); now != alone || ever != registered {
		t.Errorf("two changefeeds had %d registrations, of %d ever; the second one alone has %d of %d", alone, registered, now, ever)
	}
	must(t, n.Remove(ctx, two))
	s.until("nothing is followed", func() bool { return s.cluster.Subscriptions() == 0 })
}
