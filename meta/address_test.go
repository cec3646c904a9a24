package meta_test

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Two captures do not have one address: whoever lives keeps it, whoever is dead has it
// until its session has run out.
func TestClaimAddress(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	at := func(id capture.ID, port string) capture.Info {
		return capture.Info{ID: id, Address: "127.0.0.1:" + port, Version: "0.1.0", Since: time.Unix(1700000000, 0)}
	}
	lives, _ := session(t, s, "lives", 2*time.Second)
	must(t, lives.ClaimAddress(ctx, "127.0.0.1:1", nil))
	must(t, lives.Register(ctx, at("lives", "1")))
	must(t, lives.ClaimAddress(ctx, "127.0.0.1:1", nil)) // its own

	next, _ := session(t, s, "next", 2*time.Second)
	refused(t, next.ClaimAddress(ctx, "127.0.0.1:1", nil), cdcerr.AddressTaken, "127.0.0.1:1 is the address of capture lives (version 0.1.0), which has been a member since 2023-11-14 22:13:20 UTC")
	must(t, next.ClaimAddress(ctx, "127.0.0.1:1", map[capture.ID]bool{"lives": true})) // this process's own, from before
	must(t, next.Register(ctx, at("next", "1")))                                       // of two at once the first one stays
	must(t, lives.ClaimAddress(ctx, "127.0.0.1:1", nil))
	refused(t, next.ClaimAddress(ctx, "127.0.0.1:1", nil), cdcerr.AddressTaken, "capture lives")
	leaves := at("lives", "1")
	leaves.Liveness = capture.Stopping // it hands over, and another one has come for it
	must(t, lives.Register(ctx, leaves))
	must(t, next.ClaimAddress(ctx, "127.0.0.1:1", nil))

	dead, err := s.NewSession(ctx, "dead", time.Second) // nobody runs it: as after kill -9
	must(t, err)
	must(t, dead.Register(ctx, at("dead", "2")))
	third, _ := session(t, s, "third", 2*time.Second)
	must(t, third.ClaimAddress(ctx, "127.0.0.1:2", nil))
	if dead.Left() > 0 {
		t.Errorf("the dead one believes to live for %v while another has its address", dead.Left())
	}
}
