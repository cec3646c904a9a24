package meta

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// A session is somebody's when it was renewed twice, or outlasts what etcd gave it. That an
// election gives it all of its time again, once, is neither, and it is waited for as long.
func TestSuspicion(t *testing.T) {
	type look struct {
		at, left int64 // in seconds
		alive    bool
	}
	for what, looks := range map[string][]look{
		"renewed":                {{0, 4, false}, {1, 9, false}, {2, 8, false}, {3, 9, true}},
		"dead":                   {{0, 4, false}, {3, 1, false}, {4, 0, false}, {5, -1, false}, {11, -1, false}},
		"dead, and an election":  {{0, 4, false}, {4, 0, false}, {5, 9, false}, {13, 1, false}, {15, -1, false}},
		"two elections":          {{0, 4, false}, {1, 9, false}, {6, 4, false}, {7, 9, true}},
		"renewed between looks":  {{0, 9, false}, {6, 9, false}, {12, 9, false}, {13, 9, true}},
		"there for long after":   {{0, 4, false}, {5, -1, false}, {13, -1, true}},
		"as long after election": {{0, 4, false}, {5, 9, false}, {17, -1, false}, {18, -1, true}},
	} {
		var s suspicion
		began := time.Unix(1_700_000_000, 0)
		for i, l := range looks {
			first, alive := s.look(began.Add(time.Duration(l.at)*time.Second), &clientv3.LeaseTimeToLiveResponse{ID: 7, TTL: l.left, GrantedTTL: 10})
			if alive != l.alive || first != (i == 0) {
				t.Errorf("%s: after %d s: alive %v, first %v", what, l.at, alive, first)
			}
		}
		// What was seen of one says nothing of the next one.
		if first, alive := s.look(began.Add(time.Hour), &clientv3.LeaseTimeToLiveResponse{ID: 8, TTL: 10, GrantedTTL: 10}); !first || alive {
			t.Errorf("%s: the next one: alive %v, first %v", what, alive, first)
		}
	}
}

// mute has leases of which etcd tells nothing.
type mute struct{ clientv3.Lease }

func (mute) TimeToLive(ctx context.Context, _ clientv3.LeaseID, _ ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An etcd that does not tell how long a session lasts is not waited for longer than for any
// other answer.
func TestClaimOfAnAddressHasAnEnd(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Backend = BackendEmbedded
	cfg.Embedded.DataDir, cfg.Embedded.Tick = t.TempDir(), 10*time.Millisecond
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	join := func(id capture.ID) *Session {
		session, err := s.NewSession(t.Context(), id, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	if err := join("first").Register(t.Context(), capture.Info{ID: "first", Address: "a:1"}); err != nil {
		t.Fatal(err)
	}
	second := join("second")
	s.client.Lease, s.cfg.RequestTimeout = mute{s.client.Lease}, time.Second
	if err := second.ClaimAddress(t.Context(), "a:1", nil); !cdcerr.MetaUnreachable.Is(err) {
		t.Error(err)
	}
}
