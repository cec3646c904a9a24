package redo_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/tso"
)

// An older log makes no snapshot once a later one of the changefeed has written what this
// one does not write anew, and the later one none before it has come far enough.
func TestOvertaken(t *testing.T) {
	// The older log, of commit-ts above 1000, ends at 2000.
	const life, other = "2026-12-01T02:03:04Z/1", "2026-12-01T02:03:04Z/2"
	for name, c := range map[string]struct {
		life            string // of the later log
		began, resolved tso.TS
		overtaken       bool
	}{
		"has written nothing yet":           {life, 1000, 1000, false},
		"another filter":                    {life, 1000, 1500, true}, // DDLs are noted for both in one place
		"another filter, further":           {life, 1000, 3000, true},
		"from a later checkpoint":           {other, 5000, 6000, true},
		"from a later one, nothing yet":     {other, 5000, 5000, false},
		"from an earlier one":               {other, 900, 1500, true},
		"from one between, not as far":      {other, 1500, 2000, false},
		"from one between, and it is ahead": {other, 1500, 2001, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, b := t.Context(), objstore.NewMemory()
			log := func(life, wants string, present, began, resolved tso.TS) redo.ID {
				id := testID
				id.Incarnation = redo.Incarnation(life, wants)
				cfg := redo.Default()
				cfg.Ahead = func(context.Context) (tso.TS, error) { return present, nil }
				must(t, redo.Claim(ctx, cfg, b, id))
				m, err := redo.OpenMeta(ctx, cfg, b, id, 1, began)
				must(t, err)
				must(t, m.Advance(ctx, redo.Mark{Resolved: resolved}))
				_, err = redo.OpenMeta(ctx, cfg, b, id, 2, began) // another owner changes nothing of this
				must(t, err)
				return id
			}
			older := log(life, "a", 1000, 1000, 2000)
			later := log(c.life, "b", 9000, c.began, c.resolved)
			inv, err := redo.Open(ctx, b, older)
			must(t, err)
			if err := inv.Err(); cdcerr.RedoOvertaken.Is(err) != c.overtaken || err != nil && !c.overtaken {
				t.Errorf("the older: %v", err)
			}
			inv, err = redo.Open(ctx, b, later)
			must(t, err)
			if err := inv.Err(); !cdcerr.RedoTooYoung.Is(err) {
				t.Errorf("the later: %v", err)
			}
		})
	}
}

// A writer begins once its storage holds the log that the owner has begun, and says what
// it waits for.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cfg := t.Context(), redo.Default()
		here, elsewhere := objstore.NewMemory(), objstore.NewMemory()
		must(t, redo.Claim(ctx, cfg, elsewhere, testID))
		var told []error
		cfg.Trouble = func(err error) { told = append(told, err) }
		done := make(chan error, 1)
		go func() { done <- redo.Await(ctx, cfg, here, testID) }()
		_, err := redo.OpenMeta(ctx, redo.Default(), elsewhere, testID, 1, start)
		must(t, err)
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		_, err = redo.OpenMeta(ctx, redo.Default(), here, testID, 1, start)
		must(t, err)
		must(t, <-done)
		if len(told) < 2 || !cdcerr.RedoElsewhere.Is(told[0]) || told[len(told)-1] != nil {
			t.Errorf("told %v", told)
		}
	})
}
