package playground

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// What travels from the fake through the client is what the recording holds:
// every committed change of the whole key space, each with its old value.
func TestTheWireLosesNothing(t *testing.T) {
	for _, r := range goldenRecordings(t) {
		t.Run(r.name, func(t *testing.T) {
			if strings.Contains(r.stream, "workloads") {
				t.Skip("the command replays these in its own test")
			}
			want, err := readFile(t.Context(), r.stream, readStream)
			if err != nil {
				t.Fatal(err)
			}
			got := throughTheWire(t, r)
			compareChanges(t, want.rows, got)
		})
	}
}

var errEnough = errors.New("enough")

// throughTheWire is everything that a subscriber of all keys gets, sorted, each
// change once.
func throughTheWire(t *testing.T, r recording) []*event.RawKV {
	t.Helper()
	rec, err := fake.LoadRecording(r.stream)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fake.Start(fake.Config{Recording: rec, ResolvedInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	cfg := upstream.Default()
	cfg.PD = cluster.PD()
	client, err := upstream.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.Go(func() error { return client.Run(ctx) })
	var got []*event.RawKV
	g.Go(func() error {
		all := upstream.Subscription{Span: span.Span{}, StartTS: rec.StartTS}
		return client.Subscribe(ctx, all, func(b upstream.Batch) error {
			for i := range b.Rows {
				if b.Rows[i].CommitTS <= rec.EndTS {
					got = append(got, &b.Rows[i])
				}
			}
			if b.Resolved >= rec.EndTS {
				return errEnough
			}
			return nil
		})
	})
	if err := g.Wait(); !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	client.Close()
	slices.SortFunc(got, compareKV)
	return slices.CompactFunc(got, func(a, b *event.RawKV) bool { return compareKV(a, b) == 0 })
}

func compareKV(a, b *event.RawKV) int {
	return cmp.Or(cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS), bytes.Compare(a.Key, b.Key))
}

func compareChanges(t *testing.T, want, got []*event.RawKV) {
	t.Helper()
	faults := 0
	fault := func(what string, kv *event.RawKV) {
		if faults++; faults < 10 {
			t.Errorf("%s: key %X start-ts %d commit-ts %d", what, kv.Key, kv.StartTS, kv.CommitTS)
		}
	}
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && compareKV(want[0], got[0]) < 0:
			fault("lost", want[0])
			want = want[1:]
		case len(want) == 0 || compareKV(want[0], got[0]) > 0:
			fault("invented", got[0])
			got = got[1:]
		default:
			w, g := want[0], got[0]
			if w.Op != g.Op || !bytes.Equal(w.Value, g.Value) || !bytes.Equal(w.Old, g.Old) {
				fault("changed", w)
			}
			want, got = want[1:], got[1:]
		}
	}
	if faults > 0 {
		t.Errorf("%d faults", faults)
	}
}
