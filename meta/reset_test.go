package meta_test

import (
	"encoding/json"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

func TestReset(t *testing.T) {
	s := open(t, embedded(t.TempDir()))
	other := beside(t, s, func(c *meta.Config) { c.Cluster = "other" })
	session, err := s.NewSession(t.Context(), "a", 10*time.Second)
	must(t, err)
	must(t, session.Register(t.Context(), capture.Info{ID: "a", Address: "127.0.0.1:8300"}))
	_, err = s.CreateChangefeed(t.Context(), meta.Fence{}, meta.ChangefeedID{Namespace: "default", Name: "f"}, json.RawMessage(`{}`), meta.Status{CheckpointTS: 5, ResolvedTS: 5})
	must(t, err)
	_, err = s.Reset(t.Context())
	refused(t, err, cdcerr.InvalidArgument, "stop every server first: a")

	client := raw(t, s)
	_, err = client.Delete(t.Context(), "/sluice/default/capture/a")
	must(t, err)
	n, err := s.Reset(t.Context())
	must(t, err)
	if n < 3 {
		t.Errorf("%d keys removed", n)
	}
	left, err := client.Get(t.Context(), "/sluice/default/", clientv3.WithPrefix())
	must(t, err)
	if left.Count != 0 {
		t.Errorf("%d keys are left", left.Count)
	}
	// Another cluster's stand.
	if _, err := other.Changefeeds(t.Context()); err != nil {
		t.Error(err)
	}
	stands, err := client.Get(t.Context(), "/sluice/other/", clientv3.WithPrefix())
	must(t, err)
	if stands.Count == 0 {
		t.Error("the other cluster is gone too")
	}
}
