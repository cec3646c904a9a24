package redo_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

func openMeta(t *testing.T, b objstore.Bucket, revision int64) *redo.Meta {
	t.Helper()
	must(t, redo.Claim(t.Context(), redo.Default(), b, testID))
	m, err := redo.OpenMeta(t.Context(), redo.Default(), b, testID, revision, start)
	must(t, err)
	return m
}

func extent(writer string, files uint64, highest tso.TS) record.Extent {
	return record.Extent{Writer: writer, Kind: record.Rows, Files: files, Max: highest}
}

// A meta goes forward only, keeps the extents that are needed, and leaves no
// litter beside the claims.
func TestMetaGoesForward(t *testing.T) {
	b := objstore.NewMemory()
	m := openMeta(t, b, 5)
	advance := func(cp, resolved tso.TS, extents ...record.Extent) record.Meta {
		t.Helper()
		must(t, m.Advance(t.Context(), redo.Mark{Checkpoint: cp, Resolved: resolved, Extents: extents}))
		if m.Gate().Limit() != m.Stored().Resolved {
			t.Fatalf("gate %d, meta %d", m.Gate().Limit(), m.Stored().Resolved)
		}
		return m.Stored()
	}
	advance(start, 1100, extent("a", 3, 1090))
	if s := advance(start, 1050); s.Resolved != 1100 || s.Checkpoint != start || len(s.Writers) != 1 {
		t.Errorf("%+v", s)
	}
	if s := advance(1010, 1050, extent("b", 1, 1200), extent("a", 2, 1080)); s.Resolved != 1100 || s.Checkpoint != 1010 || len(s.Writers) != 2 || s.Writers[0] != extent("a", 3, 1090) {
		t.Errorf("%+v", s)
	}
	if s := advance(1090, 1200); len(s.Writers) != 1 || s.Writers[0].Writer != "b" {
		t.Errorf("%+v", s)
	}
	if s := advance(1300, 1200); s.Resolved != 1300 || s.Checkpoint != 1300 || len(s.Writers) != 0 {
		t.Errorf("%+v", s)
	}
	names, err := objstore.All(t.Context(), b, "default/orders/1-x/meta/", "")
	must(t, err)
	if len(names) != 2 { // the claim, and the last
		t.Errorf("%v", names)
	}
	again := openMeta(t, b, 6)
	if s := again.Stored(); s.Resolved != 1300 || s.Checkpoint != 1300 || again.Gate().Limit() != 1300 || s.Life != 1 {
		t.Errorf("%+v", s)
	}
	if s := openMeta(t, b, 6).Stored(); s.Life != 2 {
		t.Errorf("a second life of an owner: %+v", s)
	}
}

// An owner that was cut off is told so when it wakes up, however much its
// successors have done, and its gate stays where it was.
func TestOwnerThatWakesUp(t *testing.T) {
	for _, meanwhile := range []int{0, 1, 50} {
		b := objstore.NewMemory()
		old := openMeta(t, b, 5)
		must(t, old.Advance(t.Context(), redo.Mark{Resolved: 1100}))
		for _, revision := range []int64{6, 8} {
			next := openMeta(t, b, revision)
			for i := range meanwhile {
				must(t, next.Advance(t.Context(), redo.Mark{Resolved: 1101 + tso.TS(i)}))
			}
		}
		before := old.Gate().Limit()
		err := old.Advance(t.Context(), redo.Mark{Resolved: 5000})
		if !cdcerr.NotOwner.Is(err) || old.Gate().Limit() != before {
			t.Errorf("after %d: %v, gate %d", meanwhile, err, old.Gate().Limit())
		}
		if _, err := redo.OpenMeta(t.Context(), redo.Default(), b, testID, 7, start); !cdcerr.NotOwner.Is(err) {
			t.Errorf("an owner between: %v", err)
		}
		inv, err := redo.Open(t.Context(), b, testID)
		must(t, err)
		if inv.Meta.Resolved >= 5000 {
			t.Errorf("%+v", inv.Meta)
		}
	}
}

// Two owners that write as they like, with faults: no gate is ever open above the
// meta that counts, and it never goes back.
func TestOwnersRace(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { ownersRace(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func ownersRace(t *testing.T, seed uint64) {
	memory := objstore.NewMemory()
	must(t, redo.Claim(t.Context(), redo.Default(), memory, testID))
	var g errgroup.Group
	for owner := range int64(3) {
		rng := rand.New(rand.NewPCG(seed, uint64(owner)))
		var drawing sync.Mutex // old metas are removed side by side
		draw := func(n int) int {
			drawing.Lock()
			defer drawing.Unlock()
			return rng.IntN(n)
		}
		b := &objstoretest.Faulty{Bucket: memory, Decide: func(context.Context, objstoretest.Call) objstoretest.Fault {
			pass(time.Duration(draw(40)) * time.Millisecond)
			switch draw(12) {
			case 0:
				return objstoretest.Fail
			case 1:
				return objstoretest.Lost
			case 2:
				return objstoretest.Tear
			}
			return objstoretest.None
		}}
		g.Go(func() error {
			pass(time.Duration(draw(300)) * time.Millisecond)
			m, err := redo.OpenMeta(t.Context(), redo.Default(), b, testID, owner/2, start) // two of one revision
			for i := 0; err == nil && i < 20; i++ {
				before := m.Stored().Resolved
				if err = m.Advance(t.Context(), redo.Mark{Resolved: start + tso.TS(draw(1000))}); err != nil {
					break
				}
				inv, openErr := redo.Open(t.Context(), memory, testID)
				if openErr != nil {
					return openErr
				}
				if m.Stored().Resolved < before || m.Gate().Limit() > inv.Meta.Resolved {
					t.Errorf("owner %d: resolved-ts %d after %d, gate %d, the meta that counts %d (number %d)", owner, m.Stored().Resolved, before, m.Gate().Limit(), inv.Meta.Resolved, inv.Meta.Number)
				}
			}
			if err != nil && !cdcerr.NotOwner.Is(err) {
				return err
			}
			return nil
		})
	}
	must(t, g.Wait())
}

// A log that moves on while it is looked at is whole.
func TestOpenWhileWritten(t *testing.T) {
	memory := objstore.NewMemory()
	m := openMeta(t, memory, 1)
	w, err := redo.NewDDLWriter(redo.Default(), memory, testID)
	must(t, err)
	must(t, w.Write(t.Context(), &event.DDL{JobID: 1, SwitchTS: start + 5, Query: "x"}))
	must(t, m.Advance(t.Context(), redo.Mark{Resolved: start + 10, Extents: []record.Extent{w.Extent()}}))
	b := &objstoretest.Faulty{Bucket: memory, Decide: func(ctx context.Context, c objstoretest.Call) objstoretest.Fault {
		if c.Op == objstoretest.List && strings.Contains(c.Name, "/rows/") && m.Stored().Checkpoint == start {
			must(t, m.Advance(ctx, redo.Mark{Checkpoint: start + 7, Resolved: start + 20}))
			n, err := m.Collect(ctx)
			must(t, err)
			if n != 1 {
				t.Errorf("%d files removed", n)
			}
		}
		return objstoretest.None
	}}
	inv, err := redo.Open(t.Context(), b, testID)
	must(t, err)
	if inv.Err() != nil || inv.Meta.Resolved != start+20 {
		t.Errorf("%+v: %v", inv.Meta, inv.Err())
	}
}

// What comes while a meta is written becomes one meta.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := objstore.NewMemory()
		cfg := testConfig()
		cfg.CollectEvery = time.Millisecond
		must(t, redo.Claim(t.Context(), cfg, b, testID))
		m, err := redo.OpenMeta(t.Context(), cfg, b, testID, 1, start)
		must(t, err)
		k := redo.NewKeeper(m)
		must(t, b.PutNew(t.Context(), "default/orders/1-x/"+record.Name{Kind: record.Rows, Min: 1001, Max: 1002, Writer: "a", Run: 1, Number: 1}.String(), nil))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		for i := range tso.TS(1000) {
			k.Advance(redo.Mark{Checkpoint: start + i/2, Resolved: start + i, Extents: []record.Extent{extent("w", uint64(i), start+i)}})
			pass(time.Millisecond)
		}
		pass(time.Second)
		if m.Gate().Limit() != start+999 {
			t.Errorf("gate %d", m.Gate().Limit())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if s := m.Stored(); s.Number > 15 || s.Checkpoint != start+499 || len(s.Writers) != 1 || s.Writers[0].Files != 999 {
			t.Errorf("%+v", s)
		}
		if left, err := objstore.All(t.Context(), b, "default/orders/1-x/rows/", ""); err != nil || len(left) != 0 {
			t.Errorf("%v %v: nobody needs it", left, err)
		}
	})
}

// A place of another cluster's, of a newer version, or of something else is refused.
func TestPlaces(t *testing.T) {
	ctx, cfg := t.Context(), redo.Default()
	b := objstore.NewMemory()
	if _, err := redo.Find(ctx, b); !cdcerr.RedoMetaNotFound.Is(err) {
		t.Errorf("an empty place: %v", err)
	}
	must(t, redo.Claim(ctx, cfg, b, redo.ID{Cluster: 7}))
	must(t, redo.Claim(ctx, cfg, b, redo.ID{Cluster: 7}))
	if err := redo.Claim(ctx, cfg, b, redo.ID{Cluster: 8}); !cdcerr.RedoForeign.Is(err) || !strings.Contains(err.Error(), "7") {
		t.Errorf("another cluster's: %v", err)
	}
	if err := redo.Claim(ctx, cfg, b, redo.ID{Cluster: 7, Servers: "another"}); !cdcerr.RedoForeign.Is(err) || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("other servers of this cluster: %v", err)
	}
	other := testID
	other.Cluster = 8
	if _, err := redo.Open(ctx, b, other); !cdcerr.RedoForeign.Is(err) {
		t.Errorf("another cluster's log: %v", err)
	}
	for content, code := range map[string]*cdcerr.Code{
		`{"version":2,"cluster":7}` + "\n": cdcerr.RedoVersion,
		"something else\n":                 cdcerr.RedoForeign,
	} {
		must(t, b.Put(ctx, "sluice-redo.json", []byte(content)))
		if err := redo.Claim(ctx, cfg, b, redo.ID{Cluster: 7}); !code.Is(err) {
			t.Errorf("%q: %v", content, err)
		}
	}
	must(t, b.Put(ctx, "sluice-redo.json", []byte(`{"vers`)))
	must(t, redo.Claim(ctx, cfg, b, redo.ID{Cluster: 7}))
}

// A log that begins on a downstream that is further makes no snapshot before it has come
// to there, whoever leads it then.
func TestExactFrom(t *testing.T) {
	ctx, b, cfg := t.Context(), objstore.NewMemory(), redo.Default()
	must(t, redo.Claim(ctx, cfg, b, testID))
	cfg.Ahead = func(context.Context) (tso.TS, error) { return 1800, nil }
	for revision, resolved := range []tso.TS{1500, 1799, 1800} {
		m, err := redo.OpenMeta(ctx, cfg, b, testID, int64(revision+1), start)
		must(t, err)
		must(t, m.Advance(ctx, redo.Mark{Resolved: resolved}))
		cfg.Ahead = func(context.Context) (tso.TS, error) { return 9999, nil } // of a log that is there already
		inv, err := redo.Open(ctx, b, testID)
		must(t, err)
		if err := inv.Err(); cdcerr.RedoTooYoung.Is(err) != (resolved < 1800) || err != nil && resolved == 1800 {
			t.Errorf("at %d: %v", resolved, err)
		}
	}
}

// A changefeed of an old one's name begins with nothing of it, and what is removed
// is no log any more from the first moment on.
func TestIncarnations(t *testing.T) {
	ctx, b := t.Context(), objstore.NewMemory()
	m := openMeta(t, b, 1)
	must(t, m.Advance(ctx, redo.Mark{Checkpoint: 1500, Resolved: 2000}))
	second := testID
	second.Incarnation = "2-y"
	s, err := redo.OpenMeta(ctx, redo.Default(), b, second, 1, start)
	must(t, err)
	if s.Stored().Resolved != start {
		t.Errorf("%+v", s.Stored())
	}
	third := redo.ID{Cluster: 7, Namespace: "a", Changefeed: "orders-2", Incarnation: "1-z"}
	_, err = redo.OpenMeta(ctx, redo.Default(), b, third, 1, start)
	must(t, err)
	ids, err := redo.Find(ctx, b)
	must(t, err)
	if len(ids) != 3 || ids[0] != third || ids[1] != testID || ids[2] != second {
		t.Errorf("%v", ids)
	}
	failed := &objstoretest.Faulty{Bucket: b, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
		if c.Op == objstoretest.Delete && c.Number > 4 {
			return objstoretest.Fail
		}
		return objstoretest.None
	}}
	must(t, b.PutNew(ctx, "default/orders/1-x/rows/x", nil))
	if err := redo.Remove(ctx, failed, testID); err == nil {
		t.Error("it was cut off")
	}
	if _, err := redo.Open(ctx, b, testID); !cdcerr.RedoMetaNotFound.Is(err) {
		t.Errorf("half removed: %v", err)
	}
	must(t, redo.Remove(ctx, b, testID))
	left, err := objstore.All(ctx, b, "default/orders/1-x/", "")
	if ids, findErr := redo.Find(ctx, b); err != nil || findErr != nil || len(left) != 0 || len(ids) != 2 {
		t.Errorf("%v %v %v %v", left, err, ids, findErr)
	}
	life := "2026-12-01T02:03:04.5Z/17"
	for _, wants := range []string{"", "a1b2"} {
		if id := (redo.ID{Namespace: "n", Changefeed: "c", Incarnation: redo.Incarnation(life, wants)}); id.Validate() != nil || id.Life() != life || testID.Life() != "" {
			t.Errorf("%v is of the life %q", id, id.Life())
		}
	}
	for _, bad := range []redo.ID{{}, {Namespace: "a/b", Changefeed: "c", Incarnation: "d"}, {Namespace: "..", Changefeed: "c", Incarnation: "d"}} {
		if err := bad.Validate(); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
