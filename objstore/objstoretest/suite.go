package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
)

// RunSuite holds a kind of bucket to what objstore.Bucket promises. Fresh gives a
// new Bucket over the same place at every call; each test works below a prefix of
// its own.
func RunSuite(t *testing.T, fresh func(testing.TB) objstore.Bucket) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, objstore.Bucket)
	}{
		{"what is put is got, whole and in parts", parts},
		{"an object that is not there", absent},
		{"one of many new ones wins", oneWins},
		{"a new one is put once", putOnce},
		{"put replaces", replaces},
		{"an object is never seen half", never},
		{"a listing is in the order of bytes", order},
		{"a listing has all pages", pages},
		{"delete", deletes},
		{"names that nobody could keep", names},
		{"who gives up is let go", cancelled},
		{"probe", probe},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fresh(t)
			defer b.Close()
			test.run(t, b)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code *cdcerr.Code) {
	t.Helper()
	if !code.Is(err) {
		t.Fatalf("%v, want %s", err, code.ID)
	}
}

// blob is n bytes that no compression or text mode leaves alone.
func blob(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

func parts(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	for _, n := range []int{0, 1, 1000, 3 << 20} {
		name, data := fmt.Sprintf("parts/%d", n), blob(n)
		must(t, b.PutNew(ctx, name, data))
		for _, part := range [][2]int64{
			{0, objstore.ToEnd}, {0, 0}, {0, 1}, {1, objstore.ToEnd}, {int64(n) / 2, 10}, {int64(n) / 3, int64(n)},
			{int64(n), 5}, {int64(n) + 7, objstore.ToEnd}, {int64(n) + 7, 3}, {0, int64(n)}, {0, int64(n) + 1},
		} {
			got, err := b.Get(ctx, name, part[0], part[1])
			must(t, err)
			want := data[min(part[0], int64(n)):]
			if part[1] != objstore.ToEnd {
				want = want[:min(part[1], int64(len(want)))]
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %d from %d on: %d came, or others", n, part[1], part[0], len(got))
			}
		}
		if _, err := b.Get(ctx, name, -1, 1); !cdcerr.InvalidArgument.Is(err) {
			t.Fatalf("from -1 on: %v", err)
		}
		if _, err := b.Get(ctx, name, 0, -2); !cdcerr.InvalidArgument.Is(err) {
			t.Fatalf("-2 bytes: %v", err)
		}
	}
}

func absent(t *testing.T, b objstore.Bucket) {
	for _, part := range [][2]int64{{0, objstore.ToEnd}, {5, 5}, {0, 0}} {
		_, err := b.Get(t.Context(), "absent/a", part[0], part[1])
		wantCode(t, err, cdcerr.ObjectNotFound)
	}
	got, err := objstore.All(t.Context(), b, "absent/", "")
	must(t, err)
	if len(got) != 0 {
		t.Fatalf("%v below a prefix that nobody wrote to", got)
	}
}

func oneWins(t *testing.T, b objstore.Bucket) {
	const racers = 16
	for round := range 5 {
		name := fmt.Sprintf("race/%d", round)
		var winner atomic.Int64
		var wins atomic.Int64
		var g errgroup.Group
		for i := range racers {
			g.Go(func() error {
				data := bytes.Repeat([]byte{byte(i)}, 1000+i)
				for {
					err := b.PutNew(t.Context(), name, data)
					switch {
					case err == nil:
						winner.Store(int64(i))
						wins.Add(1)
						return nil
					case cdcerr.ObjectExists.Is(err):
						return nil
					case !cdcerr.StorageAPI.Is(err):
						return err
					}
					// A store may answer racers that it does not know: once more.
				}
			})
		}
		must(t, g.Wait())
		got, err := b.Get(t.Context(), name, 0, objstore.ToEnd)
		must(t, err)
		if w := int(winner.Load()); wins.Load() != 1 || !bytes.Equal(got, bytes.Repeat([]byte{byte(w)}, 1000+w)) {
			t.Fatalf("%d of %d won; what is there is not the winner's", wins.Load(), racers)
		}
	}
}

func putOnce(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	must(t, objstore.PutOnce(ctx, b, "once/a", []byte("same")))
	must(t, objstore.PutOnce(ctx, b, "once/a", []byte("same")))
	wantCode(t, objstore.PutOnce(ctx, b, "once/a", []byte("other")), cdcerr.ObjectExists)
	wantCode(t, b.PutNew(ctx, "once/a", []byte("same")), cdcerr.ObjectExists)
	got, err := b.Get(ctx, "once/a", 0, objstore.ToEnd)
	must(t, err)
	if string(got) != "same" {
		t.Fatalf("%q", got)
	}
}

func replaces(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	for _, text := range []string{"first", "", "a third that is longer"} {
		must(t, b.Put(ctx, "replaces/a", []byte(text)))
		got, err := b.Get(ctx, "replaces/a", 0, objstore.ToEnd)
		must(t, err)
		if string(got) != text {
			t.Fatalf("%q, want %q", got, text)
		}
	}
}

func never(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	long, short := bytes.Repeat([]byte("l"), 300_000), bytes.Repeat([]byte("s"), 1_000)
	must(t, b.Put(ctx, "never/a", long))
	var g errgroup.Group
	g.Go(func() error {
		for i := range 20 {
			if err := b.Put(ctx, "never/a", [][]byte{short, long}[i%2]); err != nil {
				return err
			}
		}
		return nil
	})
	for range 40 {
		got, err := b.Get(ctx, "never/a", 0, objstore.ToEnd)
		must(t, err)
		if !bytes.Equal(got, long) && !bytes.Equal(got, short) {
			t.Fatalf("%d bytes that are neither content", len(got))
		}
	}
	must(t, g.Wait())
}

func order(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	names := []string{"order/a-b", "order/a.b", "order/a/b", "order/a/c/d", "order/a0", "order/b/x", "order/b_", "orders"}
	for i, name := range []int{4, 0, 7, 2, 1, 6, 3, 5} {
		must(t, b.PutNew(ctx, names[name], blob(i)))
	}
	for _, tt := range []struct{ prefix, after string }{
		{"order/", ""}, {"order", ""}, {"order/a", ""}, {"order/a/", ""}, {"order/", "order/a.b"}, {"order/", "order/a/b"},
		{"order/", "order/a/bb"}, {"order/", "order/a/"}, {"order/", "zzz"}, {"order/b", "order/a"}, {"order/nothing", ""},
	} {
		var want []string
		for _, n := range names {
			if n > tt.after && len(n) >= len(tt.prefix) && n[:len(tt.prefix)] == tt.prefix {
				want = append(want, n)
			}
		}
		objects, err := objstore.All(ctx, b, tt.prefix, tt.after)
		must(t, err)
		var got []string
		for _, o := range objects {
			got = append(got, o.Name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("prefix %q after %q: %q, want %q", tt.prefix, tt.after, got, want)
		}
	}
}

func pages(t *testing.T, b objstore.Bucket) {
	const count = 1100 // a page of S3 has a thousand
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for i := range count {
		g.Go(func() error { return b.Put(ctx, fmt.Sprintf("pages/%05d", i), blob(i%7)) })
	}
	must(t, g.Wait())
	got, err := objstore.All(t.Context(), b, "pages/", "")
	must(t, err)
	for i, o := range got {
		if want := fmt.Sprintf("pages/%05d", i); o.Name != want || o.Size != int64(i%7) {
			t.Fatalf("entry %d is %v", i, o)
		}
	}
	stop := errors.New("enough")
	seen := 0
	err = b.List(t.Context(), "pages/", "pages/00100", func(objstore.Object) error {
		if seen++; seen == 3 {
			return stop
		}
		return nil
	})
	if len(got) != count || !errors.Is(err, stop) || seen != 3 {
		t.Fatalf("%d objects; a visit that ends a listing: %v after %d", len(got), err, seen)
	}
}

func deletes(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	must(t, b.PutNew(ctx, "deletes/a/b", []byte("x")))
	must(t, b.PutNew(ctx, "deletes/a/c", []byte("x")))
	must(t, b.Delete(ctx, "deletes/a/b"))
	must(t, b.Delete(ctx, "deletes/a/b"))
	must(t, b.Delete(ctx, "deletes/none/at/all"))
	if _, err := b.Get(ctx, "deletes/a/b", 0, objstore.ToEnd); !cdcerr.ObjectNotFound.Is(err) {
		t.Fatalf("got what was removed: %v", err)
	}
	must(t, b.PutNew(ctx, "deletes/a/b", []byte("again")))
	must(t, b.Delete(ctx, "deletes/a/b"))
	must(t, b.Delete(ctx, "deletes/a/c"))
	got, err := objstore.All(ctx, b, "deletes/", "")
	must(t, err)
	if len(got) != 0 {
		t.Fatalf("%v is left", got)
	}
}

func names(t *testing.T, b objstore.Bucket) {
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a/.b", "a b", "ä", "a\x00", "a?b", "a#b", `a\b`, string(bytes.Repeat([]byte("a"), 300))} {
		for what, err := range map[string]error{
			"put":     b.Put(t.Context(), name, nil),
			"put new": b.PutNew(t.Context(), name, nil),
			"delete":  b.Delete(t.Context(), name),
		} {
			if !cdcerr.InvalidArgument.Is(err) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

func cancelled(t *testing.T, b objstore.Bucket) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Put(ctx, "cancelled/a", nil) == nil || b.PutNew(ctx, "cancelled/a", nil) == nil || b.Delete(ctx, "cancelled/a") == nil {
		t.Fatal("something was done for who had given up")
	}
	if _, err := b.Get(ctx, "cancelled/a", 0, 1); err == nil {
		t.Fatal("something was read for who had given up")
	}
}

func probe(t *testing.T, b objstore.Bucket) {
	must(t, objstore.Probe(t.Context(), b, "probe-of-a-test"))
	got, err := objstore.All(t.Context(), b, "probe", "")
	must(t, err)
	if len(got) != 0 {
		t.Fatalf("%v is left of it", got)
	}
}
