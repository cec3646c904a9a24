package changefeed

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

func TestFromTiCDC(t *testing.T) {
	info := `{"upstream-id":7381,"namespace":"default","changefeed-id":"feed","sink-uri":"mysql://root:pw@h:3306/","create-time":"2024-01-02T03:04:05+08:00",
		"start-ts":447000000000000001,"target-ts":0,"admin-job-type":0,"sort-engine":"unified","sort-dir":"","state":"failed","error":{"time":"2024-01-02T03:04:05Z","addr":"a:1","code":"CDC:ErrX","message":"why"},"creator-version":"v6.5.2","epoch":447000000000000002,
		"config":{"memory-quota":536870912,"force-replicate":true,"enable-sync-point":null,"sync-point-interval":60000000000,"a-later-key":1,
			"filter":{"rules":["a.*"],"ignore-txn-start-ts":[447000000000000003],"event-filters":[{"matcher":["a.b"],"ignore-event":["delete"],"odd":2}]},
			"mounter":{"worker-num":16},"sink":{"protocol":"","file-index-digit":20,"safe-mode":false,"dispatchers":null,"mysql-config":{"worker-count":8}},
			"consistent":{"level":"none","flush-interval":2000},"scheduler":{"enable-table-across-nodes":false,"region-per-span":0}}}`
	f, err := FromTiCDC(ID{"default", "feed"}, []byte(info), []byte(`{"checkpoint-ts":447000000000000009,"min-table-barrier-ts":447000000000000010,"admin-job-type":0}`))
	if err != nil {
		t.Fatal(err)
	}
	got := f.Info
	c := got.Config
	if got.SinkURI.Reveal() != "mysql://root:pw@h:3306/" || got.StartTS != 447000000000000001 || got.UpstreamID != 7381 || got.CreatorVersion != "v6.5.2" ||
		c.MemoryQuota != 536870912 || !c.ForceReplicate || c.SyncPointInterval != Duration(60e9) || c.Filter.Rules[0] != "a.*" || c.Filter.IgnoreTxnStartTS[0] != 447000000000000003 ||
		c.Filter.EventFilters[0].IgnoreEvent[0] != "delete" || *c.Sink.MySQL.WorkerCount != 8 || c.ErrorStuckDuration != Default().ErrorStuckDuration {
		t.Errorf("%+v", got)
	}
	if !c.CaseSensitive {
		t.Error("letter case counted in 6.5.2")
	}
	if f.Checkpoint != 447000000000000009 || f.State != Failed || f.Trouble != "[CDC:ErrX] why" {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.Unknown, []string{"a-later-key", "filter.event-filters[0].odd"}) {
		t.Errorf("%q", f.Unknown)
	}
	if err := c.Validate(Limits{}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][2]string{{"[", "{}"}, {"{}", "["}, {"{}", "{}"}, {"{}", ""}} {
		if _, err := FromTiCDC(ID{"default", "feed"}, []byte(bad[0]), []byte(bad[1])); !cdcerr.ConfigInvalid.Is(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	plain, err := FromTiCDC(ID{"default", "feed"}, []byte(`{"creator-version":"v8.5.0"}`), []byte(`{"checkpoint-ts":5}`))
	if err != nil || !reflect.DeepEqual(plain.Info.Config, Default()) {
		t.Error(plain, err)
	}
}

// Where a changefeed stands in TiCDC, and how far it is.
func TestTiCDCState(t *testing.T) {
	for _, c := range []struct {
		info, status string
		state        State
		at           tso.TS
	}{
		{`{"start-ts":7}`, "", Normal, 7}, // created, and never run
		{`{"start-ts":7,"state":"normal","admin-job-type":0}`, `{"checkpoint-ts":9}`, Normal, 9},
		{`{"state":"normal","admin-job-type":1}`, `{"checkpoint-ts":9}`, Stopped, 9}, // the order is not carried out yet
		{`{"admin-job-type":4}`, `{"checkpoint-ts":9}`, Finished, 9},                 // written by an old version
		{`{"state":"removed","admin-job-type":3}`, `{"checkpoint-ts":9}`, Removed, 9},
		{`{"state":"failed","admin-job-type":1}`, `{"checkpoint-ts":9}`, Failed, 9},
		{`{"state":"warning"}`, `{"checkpoint-ts":9}`, Warning, 9},
	} {
		f, err := FromTiCDC(ID{"default", "feed"}, []byte(c.info), []byte(c.status))
		if err != nil || f.State != c.state || f.Checkpoint != c.at {
			t.Errorf("%s %s: %s at %d, %v", c.info, c.status, f.State, f.Checkpoint, err)
		}
	}
}

func TestOldCaseSensitive(t *testing.T) {
	for version, want := range map[string]bool{
		"v5.4.0": true, "v6.5.5": true, "v6.5.6": false, "v6.6.0": true, "v7.0.0": true, "v7.1.2": true, "7.1.3": false, "v7.2.0": true, "v7.4.0": true,
		"v7.5.0": false, "v8.5.1-alpha": false, "v9.0.0": false, "": false, "nightly": false,
	} {
		if got := oldCaseSensitive(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"filter":{"rules":["a.*"]},"sync_point_interval":"1m","memory_quota":null}`))
	f.Add([]byte(`{"sink":{"dispatchers":[{"matcher":["a.b"],"target_schema":"x"}],"kafka_config":{"sasl_password":"xxxxx"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseJSON(text, Default())
		if err != nil {
			if cdcerr.Of(err) == nil {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		_ = c.Validate(Limits{})
		sent, err := c.Reveal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseJSON(sent, Default()); err != nil && !strings.Contains(err.Error(), masked) {
			t.Fatalf("%s does not read back: %v", sent, err)
		}
	})
}
