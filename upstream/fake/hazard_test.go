package fake_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// Everything that a subscriber must be able to bear does happen to it, within a
// few seeds; the watcher fails on what must not.
func TestHazardsHappen(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "workloads", "bank_async.jsonl.gz"))
	must(t, err)
	want := []string{
		"commit before prewrite", "commit told as committed", "repeated prewrite", "UNKNOWN", "ROLLBACK", "COMMITTED", "error",
	}
	seen := map[string]int{}
	missing := func() (out []string) {
		for _, w := range want {
			if seen[w] == 0 {
				out = append(out, w)
			}
		}
		return out
	}
	for seed := uint64(1); len(missing()) > 0; seed++ {
		if seed > 8 {
			t.Fatalf("in %d runs there was no %q", seed-1, missing())
		}
		c := run(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 10 * time.Millisecond, Seed: seed})
		w := newWatcher(newClient(t, c), rec.StartTS, rec.EndTS)
		must(t, w.watch(within(t, guard)))
		for k, n := range w.seen {
			seen[k] += n
		}
	}
}

// A heartbeat may show a lock without its value, if that is too long to be kept
// in the lock; with it, and with a short one, the value is always there.
func TestRepeatedPrewrites(t *testing.T) {
	c := run(t, fake.Config{StartTS: 1000 << 18, Seed: 7})
	cl := newClient(t, c)
	f := cl.subscribed(t, "t1")
	must(t, c.Prewrite(put("t-long", strings.Repeat("x", 300), 5)))
	must(t, c.Prewrite(put("t-short", "s", 6)))
	counts := map[string]int{}
	const rounds = 3000
	for i := range rounds {
		must(t, c.Rollback(fmt.Appendf(nil, "t%d", i), 9))
	}
	for n := 0; n < rounds; {
		line := f.next()
		if strings.HasPrefix(line, "1: ROLLBACK") {
			n++
			continue
		}
		counts[line]++
	}
	for _, want := range []string{
		"1: PREWRITE PUT t-long value=300 bytes 5", "1: PREWRITE PUT t-long 5", "1: PREWRITE PUT t-short value=s 6", "1: UNKNOWN",
	} {
		if counts[want] == 0 {
			t.Errorf("never %q", want)
		}
		delete(counts, want)
	}
	if len(counts) > 0 {
		t.Errorf("besides: %v", counts)
	}
}

func TestCutStreams(t *testing.T) {
	c, cl := calm(t)
	f := cl.subscribed(t, "t1")
	r := cl.regionOf(t, "t1")
	if n := c.Cut(r.Leader.StoreId%3 + 1); n != 0 {
		t.Errorf("cut %d streams of another store", n)
	}
	if n := c.Cut(r.Leader.StoreId); n != 1 {
		t.Errorf("cut %d streams", n)
	}
	for {
		if _, err := f.stream.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ended with %v", err)
			}
			break
		}
	}
	// A new stream is as good as the first.
	must(t, c.Prewrite(put("t1", "a", 5)))
	f = openFeed(t, cl, r.Leader.StoreId, multiplexed)
	f.send(cl.request(r, 1, 1))
	f.want("1: PREWRITE PUT t1 value=a 5", "1: INITIALIZED")
}

// Leaders move and regions split all the while; nothing is lost, doubled with
// other data, or told below a resolved-ts.
func TestRegionsThatMove(t *testing.T) {
	rec, err := fake.LoadRecording(filepath.Join(golden, "workloads", "ddlstorm.jsonl.gz"))
	must(t, err)
	for _, seed := range []uint64{1, 2} {
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		c := run(t, fake.Config{Recording: rec, HoldForSubscriber: true, ResolvedInterval: 5 * time.Millisecond, Seed: seed, Stores: 5})
		w := newWatcher(newClient(t, c), rec.StartTS, rec.EndTS)
		watched := make(chan error, 1)
		go func() { watched <- w.watch(within(t, guard)) }()
		for done := false; !done; {
			regions := c.Regions()
			r := regions[rng.IntN(len(regions))]
			must(t, c.Lead(r.ID, uint64(rng.IntN(5)+1)))
			// Between two rows of the region, if it has any.
			if next := rng.IntN(400); bytes.HasPrefix(r.RawStart, []byte{'t'}) && len(r.RawStart) == 9 {
				key := append(bytes.Clone(r.RawStart), "_r"...)
				c.Split(span.AppendInt(key, int64(next)))
			}
			select {
			case err := <-watched:
				must(t, err)
				done = true
			case <-time.After(3 * time.Millisecond):
			}
		}
		if w.seen["error"] == 0 {
			t.Error("no region was ever lost")
		}
		w.judge(t, rec)
	}
}
