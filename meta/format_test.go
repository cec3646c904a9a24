package meta_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/meta"
)

var rewrite = flag.Bool("rewrite-golden", false, "write testdata/keys.txt from what the code gives")

// All that etcd holds of a cluster is what the release before wrote there, and the next
// one reads: a change of it is a change of the format, and of design/0006.
func TestKeysGolden(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	owner, _ := session(t, s, "owner", 5*time.Second)
	must(t, owner.Register(ctx, capture.Info{ID: "owner", Address: "10.0.0.1:8301", Version: "v1.2.3", Since: time.Unix(1_700_000_000, 0)}))
	l, err := owner.Campaign(ctx)
	must(t, err)
	other, _ := session(t, s, "other", 5*time.Second)
	must(t, other.Register(ctx, capture.Info{ID: "other", Address: "10.0.0.2:8301", Version: "v1.2.3", Since: time.Unix(1_700_000_001, 0), Liveness: capture.Stopping, Upstream: capture.Unreached, NoUpstream: true}))
	must(t, s.Drain(ctx, l.Fence, "other"))
	_, err = s.CreateChangefeed(ctx, l.Fence, feed, info, meta.Status{CheckpointTS: 440000000000000000, ResolvedTS: 440000000000000001, Epoch: 2, Run: 7, State: "normal"})
	must(t, err)

	res, err := raw(t, s).Get(ctx, "/", clientv3.WithPrefix())
	must(t, err)
	var text strings.Builder
	for _, kv := range res.Kvs {
		fmt.Fprintf(&text, "%s = %s\n", kv.Key, kv.Value)
	}
	got := regexp.MustCompile(`"id":"[0-9a-f]{32}","founded":[^}]+`).ReplaceAllString(text.String(), `"id":"(128 bits)","founded":(when)`)
	got = regexp.MustCompile(`/owner/[0-9a-f]{16} `).ReplaceAllString(got, "/owner/(lease) ")
	const file = "testdata/keys.txt"
	if *rewrite {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("etcd holds\n%swant\n%s(-rewrite-golden writes it)", got, want)
	}
}

// What a later release adds to a key, or beside it, is no error, and stays where this one
// writes the key again.
func TestLaterKeys(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(10, 10))
	must(t, err)
	all, _ := session(t, s, "one", 5*time.Second)
	must(t, all.Register(ctx, capture.Info{ID: "one", Address: "10.0.0.1:8301"}))
	etcd := raw(t, s)
	put := func(key, value string) {
		t.Helper()
		_, err := etcd.Put(ctx, "/sluice/default/"+key, value)
		must(t, err)
	}
	put("capture/two", `{"id":"two","address":"10.0.0.2:8301","version":"v9","zone":{"of":["later"]}}`)
	put("changefeed/default/orders/status", `{"checkpoint-ts":20,"resolved-ts":25,"epoch":1,"state":"normal","pace":{"rows":18446744073709551615}}`)
	put("changefeed/default/orders/extent", `of a later release`)
	put("pool/default", `of a later release`)
	if _, err := s.PutStatus(ctx, meta.Fence{}, made, at(30, 35)); err == nil {
		t.Fatal("what was read before is written over it")
	}
	captures, err := s.Captures(ctx)
	must(t, err)
	if len(captures) != 2 || captures[1].Address != "10.0.0.2:8301" {
		t.Errorf("%+v", captures)
	}
	f, err := s.Changefeed(ctx, feed)
	must(t, err)
	if f.Err != nil || f.Status != at(20, 25) {
		t.Fatalf("%+v", f)
	}
	for next := range 2 {
		f, err = s.Put(ctx, meta.Fence{}, f, json.RawMessage(`{"paused":true}`), at(30, 35))
		must(t, err)
		res, err := etcd.Get(ctx, "/sluice/default/changefeed/default/orders/status")
		must(t, err)
		if got := string(res.Kvs[0].Value); got != `{"checkpoint-ts":30,"epoch":1,"pace":{"rows":18446744073709551615},"resolved-ts":35,"state":"normal"}` {
			t.Errorf("write %d: %s", next, got)
		}
	}
	f, err = s.Changefeed(ctx, feed)
	must(t, err)
	must(t, s.RemoveChangefeed(ctx, meta.Fence{}, f))
}
