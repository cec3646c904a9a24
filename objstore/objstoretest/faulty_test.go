package objstoretest_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is gone with the test that asked for it.
func TestServersEnd(t *testing.T) {
	var uri string
	t.Run("while it runs", func(t *testing.T) {
		uri = objstoretest.S3(t)
		b, err := objstore.Open(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := objstore.Probe(t.Context(), b, "probe"); err != nil {
			t.Fatal(err)
		}
	})
	b, err := objstore.Open(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := objstore.Probe(t.Context(), b, "probe"); !cdcerr.StorageAPI.Is(err) {
		t.Fatalf("it still answers: %v", err)
	}
}

func TestFaulty(t *testing.T) {
	ctx := t.Context()
	var fault objstoretest.Fault
	f := &objstoretest.Faulty{Bucket: objstore.NewMemory(), Decide: func(context.Context, objstoretest.Call) objstoretest.Fault { return fault }}
	there := func() string {
		got, err := f.Bucket.Get(ctx, "a", 0, objstore.ToEnd)
		if err != nil {
			return "none"
		}
		return string(got)
	}
	for _, tt := range []struct {
		fault objstoretest.Fault
		want  string
	}{{objstoretest.Fail, "none"}, {objstoretest.Tear, "1234"}, {objstoretest.Lost, "12345678"}, {objstoretest.Kill, "12345678"}} {
		if err := f.Bucket.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		fault = tt.fault
		if err := f.PutNew(ctx, "a", []byte("12345678")); !cdcerr.StorageAPI.Is(err) || there() != tt.want {
			t.Errorf("%v: %v, and there is %s", tt.fault, err, there())
		}
	}
	fault = objstoretest.None
	if err := f.Put(ctx, "b", nil); err == nil || !f.Killed() || f.Calls() != 5 {
		t.Errorf("after the end: %v, %d calls", err, f.Calls())
	}
}
