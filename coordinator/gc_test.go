package coordinator

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// Who led until its process was stopped changes nothing of the hold on GC when it goes on
// after its session: there is no client here that it could ask.
func TestNoHoldWithoutASession(t *testing.T) {
	cfg := meta.Default()
	cfg.Backend, cfg.Cluster, cfg.Embedded.DataDir = meta.BackendEmbedded, "etcd", t.TempDir()
	store, err := meta.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session, err := store.NewSession(t.Context(), "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	session.Abandon()
	r := held(t, tso.At(began)).reign
	r.cfg.Session = session
	if err := r.holdNow(t.Context()); !cdcerr.SessionLost.Is(err) {
		t.Errorf("held: %v", err)
	}
	clear(r.feeds)
	if err := r.holdNow(t.Context()); !cdcerr.SessionLost.Is(err) {
		t.Errorf("released: %v", err)
	}
}
