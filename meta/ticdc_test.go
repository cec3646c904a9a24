package meta_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
)

// TiCDC's keys are read, cluster by cluster, and nothing is written.
func TestReadTiCDC(t *testing.T) {
	s := open(t, embedded(t.TempDir()))
	client, ctx := raw(t, s), t.Context()
	cfg := meta.Default()
	cfg.Endpoints = s.Endpoints()
	_, err := meta.ReadTiCDC(ctx, cfg, "default")
	refused(t, err, cdcerr.InvalidArgument, "there are no keys of TiCDC below /tidb/cdc/")

	put := func(key, value string) {
		t.Helper()
		_, err := client.Put(ctx, key, value)
		must(t, err)
	}
	put("/tidb/cdc/__backup__/changefeed/info/a", "{}")
	put("/tidb/cdc/changefeed/info/a", "{}")
	_, err = meta.ReadTiCDC(ctx, cfg, "default")
	refused(t, err, cdcerr.NotInRelease, "TiCDC 6.1 or older")

	put("/tidb/cdc/east/__cdc_meta__/meta/meta-version", "2")
	_, err = client.Delete(ctx, "/tidb/cdc/changefeed/info/a")
	must(t, err)
	_, err = meta.ReadTiCDC(ctx, cfg, "default")
	refused(t, err, cdcerr.InvalidArgument, `no cluster "default" there, but east`)
	empty, err := meta.ReadTiCDC(ctx, cfg, "east")
	must(t, err)
	if len(empty.Captures) != 0 || len(empty.Feeds) != 0 {
		t.Errorf("%+v", empty)
	}

	put("/tidb/cdc/default/__cdc_meta__/owner/22317526c4fc9a37", "id-1")
	put("/tidb/cdc/default/__cdc_meta__/capture/id-1", `{"id":"id-1"}`)
	put("/tidb/cdc/default/default/changefeed/info/b", "info b")
	put("/tidb/cdc/default/default/changefeed/status/b", "status b")
	put("/tidb/cdc/default/default/changefeed/info/a", "info a")
	put("/tidb/cdc/default/other/changefeed/status/a", "status of another a")
	put("/tidb/cdc/default/default/task/position/id-1/b", "{}")
	put("/tidb/cdc/default/default/upstream/7", "{}")
	before, err := client.Get(ctx, "x")
	must(t, err)
	got, err := meta.ReadTiCDC(ctx, cfg, "default")
	must(t, err)
	var lines []string
	for _, f := range got.Feeds {
		lines = append(lines, f.ID.String()+": "+string(f.Info)+", "+string(f.Status))
	}
	want := []string{"default/a: info a, ", "default/b: info b, status b", "other/a: , status of another a"}
	if !slices.Equal(lines, want) || !slices.Equal(got.Captures, []string{"id-1"}) {
		t.Errorf("%q, %q", lines, got.Captures)
	}
	after, err := client.Get(ctx, "x")
	must(t, err)
	if before.Header.Revision != after.Header.Revision {
		t.Error("something was written")
	}
	_, err = meta.ReadTiCDC(ctx, cfg, "a/b")
	refused(t, err, cdcerr.InvalidArgument, "TiCDC's cluster")
}
