package coordinator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/binlog"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// bankIsWhole reads what the downstream committed: from the first sync point on,
// at every one of them the accounts hold what they held at first.
func (s *site) bankIsWhole(accounts int) (points int) {
	s.Helper()
	f := &binlog.Fold{Wanted: func(schema, _ string) bool { return schema == workload.BankDB }}
	err := binlog.Read(s.Context(), s.down, func(t binlog.Txn) error {
		if err := f.Apply(t); err != nil {
			return err
		}
		for _, c := range t.Changes {
			if c.Table == "syncpoint_v1" && c.After != nil && c.Before == nil {
				sum, rows := f.Sum("balance")
				if rows != 0 && (rows != accounts || sum != int64(accounts)*workload.Opening) {
					s.Errorf("at sync point %v: %d in %d accounts", c.After, sum, rows)
				}
				points++
			}
		}
		return nil
	})
	must(s.T, err)
	if sum, rows := f.Sum("balance"); rows != accounts || sum != int64(accounts)*workload.Opening {
		s.Errorf("in the end: %d in %d accounts", sum, rows)
	}
	return points
}

// counts looks at the numbers that are shown of a changefeed that runs.
func (s *site) counts(n *node) {
	s.Helper()
	if all, err := n.List(s.Context()); err != nil || len(all) != 1 || len(all[0].Tasks) != 1 || all[0].Tasks[0].TableIDs != nil || all[0].Tasks[0].Tables != 3 {
		s.Errorf("%+v, %v", all, err)
	}
	before := s.get(n).Rows
	must(s.T, s.bank.Run(s.Context(), 100*time.Millisecond))
	s.caught(n)
	if after := s.get(n).Rows; after <= before {
		s.Errorf("%d rows were taken, and %d before the last of them", after, before)
	}
}

// remembers looks at what is told of what has moved.
func (s *site) remembers(n *node) {
	s.Helper()
	h, err := n.History(s.Context(), feed)
	must(s.T, err)
	if h.Checkpoint < h.SavedCheckpoint || h.SavedCheckpoint == 0 || h.Schema < h.Checkpoint || len(h.Spans) == 0 || h.Spans[0].Span == "" || h.Spans[0].From == "" {
		s.Errorf("%+v", h)
	}
	var last tso.TS
	for _, m := range h.Moves {
		if m.Stage == tso.StageCheckpoint {
			if m.From >= m.To || m.From < last || m.Cause == "" {
				s.Errorf("after %d: %+v", last, m)
			}
			last = m.To
		}
	}
	if last < h.Checkpoint { // which may have gone on since
		s.Errorf("the last move was to %d, and the checkpoint is %d", last, h.Checkpoint)
	}
	own, err := n.Moves(feed)
	must(s.T, err)
	stages := map[tso.Stage]bool{}
	for _, m := range own {
		stages[m.Stage] = true
	}
	if !stages[tso.StageRegion] || !stages[tso.StageSpan] || !stages[tso.StageSchema] {
		s.Errorf("of its share it knows %v", stages)
	}
	if _, err := n.Moves(api.FeedID{Keyspace: "default", Name: "none"}); !cdcerr.CaptureNotFound.Is(err) {
		s.Errorf("in what there is not it has moved: %v", err)
	}
}

// From its creation to its removal, with an operator's hand on it, and then under
// owners that are torn off in the middle of their work.
func TestLife(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	c := s.creation()
	c.Config = json.RawMessage(`{"enable_sync_point":true,"sync_point_interval":"200ms","sync_point_retention":"1h"}`)
	made, err := n.Create(ctx, c)
	must(t, err)
	if made.State != "normal" || made.SinkURI == c.SinkURI && c.SinkURI != "mysql://root@"+s.down.URI() {
		t.Logf("%+v", made)
	}
	must(t, s.bank.Prepare(ctx))
	must(t, s.bank.Run(ctx, 500*time.Millisecond))
	s.caught(n)

	if _, err := n.Create(ctx, c); !cdcerr.ChangefeedExists.Is(err) {
		t.Errorf("twice: %v", err)
	}
	if _, err := n.Update(ctx, feed, api.Change{Config: json.RawMessage(`{"case_sensitive":true}`)}); !cdcerr.UpdateRefused.Is(err) {
		t.Errorf("an update while it runs: %v", err)
	}
	must(t, n.Pause(ctx, feed))
	paused := s.get(n)
	if paused.State != "stopped" || paused.AdminJob != 1 {
		t.Errorf("paused: %+v", paused)
	}
	must(t, s.bank.Run(ctx, 300*time.Millisecond))
	if _, err := n.Update(ctx, feed, api.Change{Config: json.RawMessage(`{"case_sensitive":true}`)}); err != nil {
		t.Error(err)
	}
	must(t, n.Resume(ctx, feed, 0))
	s.caught(n)

	for range 4 {
		done := make(chan error, 1)
		go func() { done <- s.bank.Run(context.WithoutCancel(ctx), 400*time.Millisecond) }()
		s.until("something is written", func() bool { return s.get(n).Checkpoint > paused.Checkpoint })
		n.kill() // this session's work ends at once; the server begins anew
		must(t, <-done)
		n.end(s)
		n = s.node()
		paused = s.get(n)
	}
	s.caught(n)
	f := s.get(n)
	if f.State != "normal" || f.Error != nil || len(f.Tasks) != 1 || len(f.Tasks[0].TableIDs) != 3 {
		t.Errorf("%+v", f)
	}
	s.counts(n)
	s.remembers(n)
	if points := s.bankIsWhole(50); points < 3 {
		t.Errorf("%d sync points", points)
	}
	must(t, n.Remove(ctx, feed))
	if _, err := n.Get(ctx, feed); !cdcerr.ChangefeedNotFound.Is(err) {
		t.Errorf("removed: %v", err)
	}
	if all, err := n.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	n.end(s)
	if all, err := s.node().List(ctx); err != nil || len(all) != 0 {
		t.Errorf("after a restart: %v, %v", all, err)
	}
}

// A changefeed whose downstream goes away waits, says why, and goes on by itself.
func TestDownstreamAway(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	c := s.creation()
	c.TargetTS = 0
	_, err := n.Create(ctx, c)
	must(t, err)
	must(t, s.bank.Prepare(ctx))
	s.caught(n)
	must(t, n.Pause(ctx, feed))
	target := s.cluster.TS()
	if _, err := n.Update(ctx, feed, api.Change{TargetTS: &target}); err != nil {
		t.Fatal(err)
	}
	must(t, n.Resume(ctx, feed, 0))
	s.until("it is finished", func() bool { return s.get(n).State == "finished" })
	if err := n.Resume(ctx, feed, 0); !cdcerr.TargetTSInvalid.Is(err) {
		t.Errorf("resumed at its target: %v", err)
	}
}

// What cannot be is refused, and nothing is left of it.
func TestCreationIsRefused(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	for name, c := range map[string]struct {
		change func(*api.Creation)
		code   *cdcerr.Code
	}{
		"a start in the future": {func(c *api.Creation) { c.StartTS = s.cluster.TS() + tso.New(1_000_000, 0) }, cdcerr.InvalidArgument},
		"an end before it":      {func(c *api.Creation) { c.TargetTS = 5 }, cdcerr.TargetTSInvalid},
		"a name":                {func(c *api.Creation) { c.ID.Name = "a b" }, cdcerr.ChangefeedIDInvalid},
		"a scheme":              {func(c *api.Creation) { c.SinkURI = "mysqll://root@127.0.0.1/" }, cdcerr.SinkURIInvalid},
		"nobody there":          {func(c *api.Creation) { c.SinkURI = "mysql://root@127.0.0.1:1/" }, cdcerr.MySQLConnection},
		"a key":                 {func(c *api.Creation) { c.Config = json.RawMessage(`{"case_sensitiv":true}`) }, cdcerr.ConfigInvalid},
		"a filter":              {func(c *api.Creation) { c.Config = json.RawMessage(`{"filter":{"rules":["["]}}`) }, cdcerr.FilterRuleInvalid},
	} {
		creation := s.creation()
		c.change(&creation)
		if _, err := n.Create(ctx, creation); !c.code.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := n.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("left: %v, %v", all, err)
	}
}

// Runs of a changefeed that is made again under its name have numbers of their own: who
// takes part in the one that was removed may not know yet.
func TestMadeAgain(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	run := func() uint64 {
		_, err := n.Create(ctx, api.Creation{ID: feed, SinkURI: "blackhole://"})
		must(t, err)
		s.caught(n)
		kept, err := n.store.Changefeed(ctx, meta.ChangefeedID{Namespace: feed.Keyspace, Name: feed.Name})
		must(t, err)
		must(t, n.Remove(ctx, feed))
		return kept.Status.Run
	}
	if first, second := run(), run(); second <= first {
		t.Errorf("run %d after %d", second, first)
	}
}
