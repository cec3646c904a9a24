package meta_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Who is drained is known to every owner, as long as the drained one's session lives or
// until it is undone; only an owner says so.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	is := func(want ...capture.ID) {
		t.Helper()
		if got, err := s.Drained(ctx); err != nil || !slices.Equal(got, want) {
			t.Errorf("drained: %v, %v, want %v", got, err, want)
		}
	}
	owner, _ := session(t, s, "owner", 5*time.Second)
	must(t, owner.Register(ctx, capture.Info{ID: "owner"}))
	l, err := owner.Campaign(ctx)
	must(t, err)
	away, end := session(t, s, "away", time.Second)
	must(t, away.Register(ctx, capture.Info{ID: "away"}))
	is()
	must(t, s.Drain(ctx, l.Fence, "owner"))
	must(t, s.Drain(ctx, l.Fence, "away"))
	must(t, s.Drain(ctx, l.Fence, "away"))
	is("away", "owner")
	must(t, s.Undrain(ctx, l.Fence, "owner"))
	must(t, s.Undrain(ctx, l.Fence, "owner"))
	is("away")
	// That it says something else of itself is no end of it.
	must(t, away.Register(ctx, capture.Info{ID: "away", Liveness: capture.Stopping}))
	is("away")
	refused(t, s.Drain(ctx, l.Fence, "nobody"), cdcerr.CaptureNotFound, "nobody")
	_ = end()
	eventually(t, func() error {
		if all, err := s.Drained(ctx); err != nil || len(all) > 0 {
			return cdcerr.MetaConflict.New("drained still: %v, %v", all, err)
		}
		return nil
	})
	must(t, l.Resign(ctx))
	for name, err := range map[string]error{"drain": s.Drain(ctx, l.Fence, "owner"), "undrain": s.Undrain(ctx, l.Fence, "owner")} {
		if !cdcerr.NotOwner.Is(err) {
			t.Errorf("%s by one that has resigned: %v", name, err)
		}
	}
}
