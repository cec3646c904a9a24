package coordinator_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

// An expression that does not fit a table that there is, or no table at all, is
// refused, and not found out by the first row.
func TestExpressionsAreRefused(t *testing.T) {
	s := newSite(t)
	n := s.node()
	ctx := t.Context()
	for _, prepared := range []bool{false, true} {
		if prepared {
			must(t, s.bank.Prepare(ctx))
		}
		for text, code := range map[string]*cdcerr.Code{"id >": cdcerr.FilterExpression, "id > now()": cdcerr.FilterExpression, "nocol > 3": cdcerr.FilterColumn} {
			if text == "nocol > 3" && !prepared {
				continue // it may be right for a table that is still to come
			}
			c := s.creation()
			c.Config = json.RawMessage(`{"filter":{"event_filters":[{"matcher":["*.*"],"ignore_insert_value_expr":"` + text + `"}]}}`)
			if _, err := n.Create(ctx, c); !code.Is(err) {
				t.Errorf("%s, tables %v: %v", text, prepared, err)
			}
			if _, err := n.Verify(ctx, c); !code.Is(err) {
				t.Errorf("%s, verified, tables %v: %v", text, prepared, err)
			}
		}
	}
}

// A filter that takes nothing is said to whoever makes a changefeed of it.
func TestCreationNotesAFilterThatTakesNothing(t *testing.T) {
	s := newSite(t)
	n := s.node()
	must(t, s.bank.Prepare(t.Context()))
	c := s.creation()
	c.SinkURI, c.Config = "blackhole://", json.RawMessage(`{"filter":{"rules":["!*.*"]}}`)
	f, err := n.Create(t.Context(), c)
	must(t, err)
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "whatever it is called") {
		t.Error(f.Notes)
	}
}

// An expression that fits no table that there is does not become a changefeed's by an
// update either; and where its table comes later, that ends the changefeed, and says
// what does not fit.
func TestExpressionsThatFitLater(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	early := api.FeedID{Keyspace: "default", Name: "early"}
	c := s.creation()
	c.ID, c.SinkURI = early, "blackhole://"
	c.Config = json.RawMessage(`{"filter":{"event_filters":[{"matcher":["bank.*"],"ignore_insert_value_expr":"nocol > 3"}]}}`)
	_, err := n.Create(ctx, c)
	must(t, err)
	_, err = n.Create(ctx, s.creation())
	must(t, err)
	must(t, s.bank.Prepare(ctx))
	s.until("it fails", func() bool { f, err := n.Get(ctx, early); return err == nil && f.State == "failed" })
	f, err := n.Get(ctx, early)
	must(t, err)
	if f.Error == nil || f.Error.Code != cdcerr.FilterColumn.ID || !strings.Contains(f.Error.Message, "nocol") || !strings.Contains(f.Error.Message, "bank.a0") {
		t.Errorf("%+v", f.Error)
	}

	s.caught(n)
	must(t, n.Pause(ctx, feed))
	if _, err := n.Update(ctx, feed, api.Change{Config: c.Config}); !cdcerr.FilterColumn.Is(err) {
		t.Errorf("an update: %v", err)
	}
	fits := json.RawMessage(`{"filter":{"event_filters":[{"matcher":["bank.*"],"ignore_insert_value_expr":"balance > 3"}]}}`)
	if _, err := n.Update(ctx, feed, api.Change{Config: fits}); err != nil {
		t.Errorf("an update that fits: %v", err)
	}
	// Of one that has failed of it the update is what mends it.
	if _, err := n.Update(ctx, early, api.Change{Config: fits}); err != nil {
		t.Errorf("an update of the one that failed: %v", err)
	}
	must(t, n.Resume(ctx, early, 0))
	now := s.cluster.TS()
	s.until("it goes on", func() bool { f, err := n.Get(ctx, early); return err == nil && f.Checkpoint >= now })
}

// Whoever makes a changefeed is told what is missing downstream.
func TestCreationNotesWhatIsMissing(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	must(t, s.bank.Prepare(ctx))
	f, err := n.Create(ctx, s.creation())
	if err != nil || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "bank.a0") {
		t.Errorf("%v, %v", f.Notes, err)
	}
	if f = s.get(n); len(f.Notes) != 0 {
		t.Errorf("told again: %v", f.Notes)
	}
}

// A changefeed of another upstream does not run on this one's timestamps, and holds
// nothing back that it could not read.
func TestOfAnotherUpstream(t *testing.T) {
	s := newSite(t)
	n, ctx := s.node(), t.Context()
	_, err := n.Create(ctx, s.creation())
	must(t, err)
	kept, err := n.store.Changefeed(ctx, meta.ChangefeedID{Namespace: feed.Keyspace, Name: feed.Name})
	must(t, err)
	must(t, n.Pause(ctx, feed))
	n.end(s)
	own := fmt.Sprintf(`"upstream-id":%d}`, s.cluster.ClusterID())
	if !strings.Contains(string(kept.Info), own) {
		t.Fatalf("%s", kept.Info)
	}
	s.write(feed, []byte(strings.Replace(string(kept.Info), own, `"upstream-id":7}`, 1)))
	n = s.node()
	if f := s.get(n); f.State != "failed" || f.Error == nil || f.Error.Code != cdcerr.OtherUpstream.ID {
		t.Errorf("%s, %+v", f.State, f.Error)
	}
	if err := n.Resume(ctx, feed, 0); !cdcerr.OtherUpstream.Is(err) {
		t.Errorf("resumed: %v", err)
	}
	must(t, n.Remove(ctx, feed))
}

// write puts another configuration in the place of a changefeed's while no node runs.
func (s *site) write(id api.FeedID, info []byte) {
	s.Helper()
	cfg := meta.Default()
	cfg.Backend, cfg.Cluster, cfg.Embedded.DataDir = meta.BackendEmbedded, "default", filepath.Join(s.dir, "meta")
	store, err := meta.Open(s.Context(), cfg)
	must(s.T, err)
	defer store.Close()
	kept, err := store.Changefeed(s.Context(), meta.ChangefeedID{Namespace: id.Keyspace, Name: id.Name})
	must(s.T, err)
	_, err = store.Put(s.Context(), meta.Fence{}, kept, info, kept.Status)
	must(s.T, err)
}
