package changefeed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

func TestInfoIsKeptInClearAndShownMasked(t *testing.T) {
	c, words := secrets(t)
	info := Info{
		Namespace: "default", Name: "x", UpstreamID: 18446744073709551615, SinkURI: "mysql://root:hush-hush@h/", CreateTime: base, CreatorVersion: "1.0.0",
		StartTS: 18446744073709551614, Config: c, Error: &Fault{Time: base, Addr: "a:1", Code: "CDC:ErrX", Message: "x"},
		Trouble: &Trouble{Since: base, Attempts: 3, RetryAt: base.Add(time.Second), From: 7},
	}
	words = append(words, "hush-hush")
	stored, err := info.Stored()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	printed := string(shown) + fmt.Sprintf("%v %+v", info, info)
	for _, w := range words {
		if !strings.Contains(string(stored), w) {
			t.Errorf("%s is not kept", w)
		}
		if strings.Contains(printed, w) {
			t.Errorf("%s is shown", w)
		}
	}
	again, err := ParseInfo(stored)
	if err != nil || !reflect.DeepEqual(*again, info) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, again, info)
	}
}

func TestParseInfo(t *testing.T) {
	short, err := ParseInfo([]byte(`{"namespace":"default","changefeed-id":"x","sink-uri":"blackhole://","config":{"filter":{"rules":["a.*"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := Default(); short.Config.MemoryQuota != want.MemoryQuota || short.Config.Filter.Rules[0] != "a.*" || short.ID().String() != "default/x" {
		t.Errorf("%+v", short)
	}
	for text, code := range map[string]*cdcerr.Code{
		`{"namespace":"default","changefeed-id":"x","config":{"mounter":{"worker_num":"later"},"new_key":1}}`: cdcerr.ConfigInvalid,
		`{"namespace":"default","changefeed-id":"x","name":1,"name":2}`:                                       cdcerr.ConfigInvalid,
		`{"namespace":"default"}`: cdcerr.ChangefeedIDInvalid,
		`[`:                       cdcerr.ConfigInvalid,
	} {
		if _, err := ParseInfo([]byte(text)); !code.Is(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCreate(t *testing.T) {
	ok := Creation{ID: ID{"default", "x"}, SinkURI: "mysql://root:pw@h/", Config: Default(), Now: base, Present: at(100), Safepoint: at(50), Version: "1"}
	for _, c := range []struct {
		change func(*Creation)
		code   *cdcerr.Code
		says   string
	}{
		{func(c *Creation) { c.ID.Name = "a b" }, cdcerr.ChangefeedIDInvalid, ""},
		{func(c *Creation) { c.SinkURI = "kafka://root:pw@h/t" }, cdcerr.NotInRelease, "kafka"},
		{func(c *Creation) { c.SinkURI = "root:pw@h" }, cdcerr.SinkURIInvalid, ""},
		{func(c *Creation) { c.Config.SyncPointInterval = 1 }, cdcerr.ConfigInvalid, "sync-point-interval"},
		{func(c *Creation) { c.Config.Filter.Rules = []string{"a"} }, cdcerr.FilterRuleInvalid, ""},
		{func(c *Creation) { c.StartTS = at(101) }, cdcerr.InvalidArgument, "is in the future"},
		{func(c *Creation) { c.StartTS = at(50) }, cdcerr.StartTSBeforeGC, "GC safepoint"},
		{func(c *Creation) { c.StartTS, c.TargetTS = at(60), at(60) }, cdcerr.TargetTSInvalid, ""},
		{func(c *Creation) { c.StartTS, c.Config.CheckGCSafePoint = at(50), false }, nil, ""},
		{func(c *Creation) { c.StartTS, c.TargetTS = at(51), at(52) }, nil, ""},
	} {
		one := ok
		one.Config = Default()
		c.change(&one)
		_, _, _, err := Create(one)
		if c.code == nil && err != nil || c.code != nil && (!c.code.Is(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%v, want %v %s", err, c.code, c.says)
		}
	}
	info, status, notes, err := Create(ok)
	if err != nil || len(notes) != 0 || info.StartTS != at(100) || status != (Status{CheckpointTS: at(100) - 1, ResolvedTS: at(100) - 1, State: Normal}) {
		t.Errorf("%+v %+v %v %v", info, status, notes, err)
	}
}

func TestUpdate(t *testing.T) {
	info, status, _, err := Create(Creation{ID: ID{"default", "x"}, SinkURI: "mysql://root:pw@h/", Config: Default(), Now: base, Present: at(100)})
	if err != nil {
		t.Fatal(err)
	}
	status.State = Stopped
	l, err := New(info, status, Options{}, base)
	if err != nil {
		t.Fatal(err)
	}
	masked, kafka, other := URI("mysql://root:xxxxx@h/"), URI("kafka://h/t"), URI("tidb://root:pw2@h/")
	config := Default()
	config.Filter.Rules = []string{"a.*"}
	target := tso.TS(0)
	if _, err := l.Update(Change{SinkURI: &masked, Config: &config, TargetTS: &target}); err != nil || l.Info().SinkURI.Reveal() != "mysql://root:pw@h/" || l.Info().Config.Filter.Rules[0] != "a.*" {
		t.Error(l.Info(), err)
	}
	elsewhere := URI("mysql://root:xxxxx@elsewhere/")
	if _, err := l.Update(Change{SinkURI: &elsewhere}); !cdcerr.SinkURIInvalid.Is(err) || !strings.Contains(err.Error(), "stands for a secret") {
		t.Error(err)
	}
	if _, err := l.Update(Change{SinkURI: &kafka}); !cdcerr.NotInRelease.Is(err) {
		t.Error(err)
	}
	if _, err := l.Update(Change{SinkURI: &other}); err != nil || l.Info().SinkURI != other {
		t.Error(err)
	}
	for turns, storage := range []URI{"s3://a", "s3://a", "s3://b", "", "s3://b"} {
		config.Consistent.Level, config.Consistent.Storage = "none", storage
		if storage != "" {
			config.Consistent.Level = "eventual"
		}
		if _, err := l.Update(Change{Config: &config}); err != nil || l.Info().RedoTurns != []uint64{1, 1, 2, 3, 4}[turns] {
			t.Errorf("%d: %d turns, %v", turns, l.Info().RedoTurns, err)
		}
	}
	config.SyncPointInterval = 1
	if _, err := l.Update(Change{Config: &config}); !cdcerr.ConfigInvalid.Is(err) {
		t.Error(err)
	}
	if r := l.Tick(View{Now: base}); r.Info == nil || r.Info.SinkURI != other || r.Start != nil {
		t.Errorf("%+v", r)
	}
}
