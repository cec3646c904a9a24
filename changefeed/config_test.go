package changefeed

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
)

var rewrite = flag.Bool("rewrite-golden", false, "write testdata/config from what the code gives")

const dir = "testdata/config/"

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(dir + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden holds got against a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(dir+name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(read(t, name)); want != string(got) {
		t.Errorf("%s%s is not what the code gives: look at the diff after -rewrite-golden; now\n%s", dir, name, got)
	}
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// full is every-key.toml with what it excludes.
func full(t *testing.T) Config {
	t.Helper()
	c, err := ParseTOML(read(t, "every-key.toml"))
	if err != nil {
		t.Fatal(err)
	}
	glue, err := ParseTOML(read(t, "glue.toml"))
	if err != nil || glue.Validate(Limits{}) != nil {
		t.Fatal(err, glue.Validate(Limits{}))
	}
	c.Sink.Kafka.GlueSchemaRegistry = glue.Sink.Kafka.GlueSchemaRegistry
	return c
}

// every-key.toml has every key of TiCDC's, at a value that is not the default.
func TestEveryKeyIsAccepted(t *testing.T) {
	c, err := ParseTOML(read(t, "every-key.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(Limits{}); err != nil {
		t.Fatal(err)
	}
	// These two exclude others, at any value but their default.
	initial, found := defaults(), map[string]bool{"consistent.level": true, "integrity.integrity-check-level": true}
	whole := full(t)
	for _, l := range leaves(&whole) {
		if !found[l.path] && (l.value == nil || reflect.DeepEqual(l.value, initial[l.path])) && !strings.HasPrefix(l.path, "sink.dispatchers") {
			t.Errorf("%s is not set, or to its default", l.place)
		}
		found[l.path] = true
	}
	for _, k := range Keys() {
		if !found[k.Path] {
			t.Errorf("%s is not in every-key.toml", k.Path)
		}
	}
	golden(t, "every-key.json", indented(t, c))
	text, err := c.TOML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "every-key.masked.toml", text)
}

func TestDefaults(t *testing.T) {
	c, err := ParseTOML(nil)
	if err != nil || c.Validate(Limits{}) != nil {
		t.Fatal(err, c.Validate(Limits{}))
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Error("an empty file is not the default")
	}
	golden(t, "default.json", indented(t, c))
	text, err := c.TOML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "default.toml", text)
	again, err := ParseTOML(text)
	if err != nil || string(indented(t, again)) != string(indented(t, c)) {
		t.Errorf("the default as TOML reads back as another one: %v", err)
	}
	if notes, err := c.Check("mysql://root@h:1/"); err != nil || len(notes) > 0 {
		t.Error(notes, err)
	}
}

// Every key has a row, and every row a key.
func TestKeysAreTheStructs(t *testing.T) {
	whole := full(t)
	rows := map[string]bool{}
	for _, k := range Keys() {
		if rows[k.Path] {
			t.Errorf("%s has two rows", k.Path)
		}
		rows[k.Path] = true
		if (k.Effect == Lacking || k.Effect == Nothing) && k.Why == "" || k.Meaning == "" {
			t.Errorf("%s does not say what it means, or why it does nothing", k.Path)
		}
	}
	fields := map[string]bool{}
	for _, l := range leaves(&whole) {
		if fields[l.path] = true; !rows[l.path] {
			t.Errorf("%s has no row", l.path)
		}
	}
	for path := range rows {
		if !fields[path] {
			t.Errorf("%s has a row and no field", path)
		}
	}
}

// Every bound refuses something, and says the key.
func TestBoundsRefuse(t *testing.T) {
	bad := []any{-7, int64(-7), int16(-7), int32(-7), uint(1 << 40), uint64(1 << 40), -0.5, Duration(-1), "bad bad", URI("bad://x"), []string{"!"}, []string{},
		1 << 40, int64(1 << 40), 2.5, 0, int32(0), uint(0)}
	keys := keysByPath()
	text := read(t, "every-key.toml")
	c, err := ParseTOML(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leaves(&c) {
		if keys[l.path].bound.ok == nil || l.path == "sink.advance-timeout-in-sec" { // from 0, and unsigned
			continue
		}
		refused := false
		for _, v := range bad {
			d, err := ParseTOML(text)
			if err != nil {
				t.Fatal(err)
			}
			at := leaves(&d)[i]
			if at.field.Type() != reflect.TypeOf(v) {
				continue
			}
			at.field.Set(reflect.ValueOf(v))
			err = d.Validate(Limits{})
			refused = refused || cdcerr.ConfigInvalid.Is(err) && strings.Contains(err.Error(), l.place+" = ") && strings.Contains(err.Error(), "want "+keys[l.path].bound.says)
		}
		if !refused {
			t.Errorf("%s: nothing is refused of %s (%v)", l.place, keys[l.path].bound.says, l.field.Type())
		}
	}
}

func TestRefused(t *testing.T) {
	for text, says := range map[string]string{
		"memory_quota = 1":                                                                 `unknown key "memory_quota" in line 1, did you mean "memory-quota"?`,
		"[filter]\nrule = ['*.*']":                                                         `unknown key "filter.rule" in line 2, did you mean "filter.rules"?`,
		"rules = ['*.*']":                                                                  `did you mean "filter.rules"?`,
		"[consistent]\nlevel = 'banana'":                                                   `consistent.level = "banana": want none, eventual`,
		"[consistent]\nlevel = 'eventual'":                                                 "consistent.storage is empty",
		"[consistent]\nmax-log-size = 0":                                                   "consistent.max-log-size = 0: want 1 to 1024",
		"[consistent]\nflush-interval = 10":                                                "consistent.flush-interval = 10: want 50 to 600000",
		"[consistent]\nflush-worker-num = 1000":                                            "consistent.flush-worker-num = 1000: want 0 to 128",
		"[consistent]\ncompression = 'gzip'":                                               `consistent.compression = "gzip": want nothing, none, lz4, zstd`,
		"[consistent]\non-upstream-loss = 'wait'":                                          `consistent.on-upstream-loss = "wait": want nothing, none, apply`,
		"[consistent]\nupstream-loss-grace = '1s'":                                         `consistent.upstream-loss-grace = "1s": want nothing, or from 30s`,
		"[consistent]\non-upstream-loss = 'apply'":                                         `consistent.on-upstream-loss = "apply": there is no redo log to apply: want consistent.level = "eventual"`,
		"[consistent]\nlevel = 'eventual'\nstorage = 'blackhole://'":                       "it keeps nothing",
		"memory-quota = 10485760\n[consistent]\nlevel = 'eventual'\nstorage = 'file:///r'": "of memory-quota = 10485760 is less than one file of consistent.max-log-size = 64 MiB",
		"sync-point-interval = '29s'":                                                      `sync-point-interval = "29s": want from 30s`,
		"sync-point-retention = '59m'":                                                     `sync-point-retention = "59m0s": want from 1h`,
		"sync-point-interval = '48h'":                                                      `want at least sync-point-interval, which is "48h0m0s"`,
		"sync-point-interval = 30":                                                         `sync-point-interval = 30: it has no unit: want text such as "30s", from 30s`,
		"[sink.mysql-config]\nread-timeout = 5":                                            "read-timeout = 5: it has no unit",
		"[sink]\nfile-index-width = 6":                                                     `did you mean "sink.file-index-digit"?`,
		"[[sink.dispatchers]]\nmatcher=['a.b']\ncolumns='x'":                               `key "sink.dispatchers.columns": string given, a list of strings wanted`,
		"sync-point-interval = '30'":                                                       "is no duration",
		"changefeed-error-stuck-duration = '10m'":                                          "want from 30m",
		"memory-quota = -1":                                                                "line 1",
		"[filter]\nrules = ['a']":                                                          "rule 1",
		"[[filter.event-filters]]\nmatcher = ['a.b']\nignore-event=['x']":                  "ignore-event",
		"[[filter.event-filters]]\nignore-event=['insert']":                                "filter.event-filters[0].matcher = []: want table rules",
		"[[sink.dispatchers]]\nmatcher=['a.b']\npartition='x'":                             `sink.dispatchers[0].partition = "x"`,
		"[[sink.dispatchers]]\nmatcher=['a.b']\nindex='x'":                                 "index-value",
		"[[sink.dispatchers]]\nmatcher=['a.b']\npartition='columns'":                       "want columns with it",
		"[[sink.dispatchers]]\nmatcher=['a.b']\ncolumns=['x']":                             `want partition = "columns"`,
		"[[sink.dispatchers]]\npartition='ts'":                                             "sink.dispatchers[0].matcher",
		"[sink]\nprotocol='canaljson'":                                                     "sink.protocol",
		"force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true":     "want one of them",
		"[sink]\nprotocol='csv'\ndelete-only-output-handle-key-columns = true":             "CSV",
		"[sink.csv]\ndelimiter = ''":                                                       "1 to 3 characters",
		"[integrity]\nintegrity-check-level='correctness'\n[[sink.column-selectors]]\nmatcher=['a.b']\ncolumns=['x']": "a checksum is over all columns",
		"enable-active-active = true\n[consistent]\nlevel='eventual'\nstorage='s3://x'":                               "want one of them",
		"[scheduler]\nenable-table-across-nodes = true\nregion-count-per-span = 20000":                                "want at most scheduler.region-threshold",
		"[sink]\nschema-registry='http://x'\n[sink.kafka-config.glue-schema-registry-config]\nregion='x'":             "want one of them",
	} {
		c, err := ParseTOML([]byte(text))
		if err == nil {
			err = c.Validate(Limits{})
		}
		if err == nil || cdcerr.Of(err) == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\n\t%v\n\twant %q", text, err, says)
		}
	}
	c := Default()
	c.SyncPointInterval = Duration(5e9)
	if err := c.Validate(Limits{SyncPointIntervalMin: 5e9}); err != nil {
		t.Error("a server's own bound:", err)
	}
	if err := c.Validate(Limits{SyncPointIntervalMin: 6e9}); err == nil || !strings.Contains(err.Error(), "from 6s") {
		t.Error(err)
	}
}

func TestJSONOverAnother(t *testing.T) {
	base := Default()
	base.ForceReplicate, base.MemoryQuota = true, 5<<30
	base.Filter.Rules = []string{"a.*", "b.*"}
	c, err := ParseJSON([]byte(`{"filter":{"rules":["c.*"],"ignore_txn_start_ts":[18446744073709551615]},"memory_quota":null,"sync_point_interval":"1m",
		"changefeed_error_stuck_duration":3600000000000,"sink":{"dispatchers":[{"matcher":["a.b"],"dispatcher":"ts"}]}}`), base)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.ForceReplicate = true
	want.Filter.Rules, want.Filter.IgnoreTxnStartTS = []string{"c.*"}, []uint64{18446744073709551615}
	want.SyncPointInterval, want.ErrorStuckDuration = Duration(60e9), Duration(3600e9)
	want.Sink.Dispatchers = []Dispatcher{{Matcher: []string{"a.b"}, Partition: "ts"}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%s\nwant\n%s", indented(t, c), indented(t, want))
	}
	if len(base.Filter.Rules) != 2 || base.Filter.Rules[0] != "a.*" {
		t.Error("what it was put over has changed")
	}
	for _, nothing := range []string{"", " ", "null", "{}"} {
		if same, err := ParseJSON([]byte(nothing), base); err != nil || !reflect.DeepEqual(same, base) {
			t.Errorf("%q changed something: %v", nothing, err)
		}
	}
	plain, err := ParseJSON([]byte(`{"sink":{"file_index_digit":8,"advance_timeout_in_sec":9,"dispatchers":[{"matcher":["a.b"],"target_schema":"x","target_table":"y"}]}}`), Default())
	if d := plain.Sink.Dispatchers; err != nil || plain.Sink.FileIndexDigit != 8 || plain.Sink.AdvanceTimeoutInSec != 9 || len(d) != 1 || d[0].TargetSchema != "x" || d[0].TargetTable != "y" {
		t.Errorf("the plain names: %+v, %v", plain.Sink, err)
	}
	for text, says := range map[string]string{
		`{"filter":{"rule":[]}}`:       `unknown key "filter.rule", did you mean "filter.rules"?`,
		`{"memory-quota":1}`:           `did you mean "memory_quota"?`,
		`{"sync_point_interval":true}`: "is no duration",
		`[]`:                           "not an object",
		`{} {}`:                        "something follows it",
		`{`:                            "the changefeed's configuration: unexpected EOF",
	} {
		if _, err := ParseJSON([]byte(text), base); !cdcerr.ConfigInvalid.Is(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}

// secrets is every place of every-key.toml that holds a secret, made one that is
// not found by chance.
func secrets(t *testing.T) (Config, []string) {
	t.Helper()
	c := full(t)
	var all []string
	for i, l := range leaves(&c) {
		word := fmt.Sprintf("hush%dhush", i)
		switch l.value.(type) {
		case Secret:
			l.field.SetString(word)
		case URI:
			l.field.SetString("s3://u:" + word + "@h/p?secret-access-key=" + word + "2")
			all = append(all, word+"2")
		default:
			continue
		}
		all = append(all, word)
	}
	if len(all) < 15 {
		t.Fatalf("%d secrets only", len(all))
	}
	return c, all
}

// tiflow 7182, 12309 and their kin: no way to print a configuration shows a secret.
func TestNoPrintShowsASecret(t *testing.T) {
	c, all := secrets(t)
	toml, err := c.TOML()
	if err != nil {
		t.Fatal(err)
	}
	printed := string(indented(t, c)) + string(toml) + fmt.Sprintf("%v %+v %#v %s %q %x", c, c, c, c.Sink.SchemaRegistry, c.Sink.SchemaRegistry, c.Sink.SchemaRegistry)
	for _, l := range leaves(&c) {
		printed += printValue(l.value)
	}
	for _, s := range all {
		if strings.Contains(printed, s) {
			t.Errorf("%s is shown", s)
		}
	}
	kept, err := inClear(c)
	if err != nil {
		t.Fatal(err)
	}
	text := string(indented(t, kept))
	for _, s := range all {
		if !strings.Contains(text, s) {
			t.Errorf("%s is not kept", s)
		}
	}
	again, err := parseClear(kept)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("what is kept reads back as another configuration: %v", err)
	}
}

// Who reads a configuration and sends it back has not changed its secrets.
func TestMaskedSecretsComeBack(t *testing.T) {
	c, _ := secrets(t)
	sent, err := c.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := ParseJSON(sent, Default()); err != nil || !reflect.DeepEqual(same, c) {
		t.Errorf("a file that is sent on: %v", err)
	}
	shown, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseJSON(shown, c)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("changed: %v", err)
	}
	_, err = ParseJSON([]byte(`{"sink":{"kafka_config":{"sasl_password":"xxxxx"}}}`), Default())
	if !cdcerr.ConfigInvalid.Is(err) || !strings.Contains(err.Error(), "sink.kafka-config.sasl-password") {
		t.Error(err)
	}
}

func TestAnyConfigurationReadsBack(t *testing.T) {
	text := read(t, "every-key.toml")
	rapid.Check(t, func(t *rapid.T) {
		c, err := ParseTOML(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leaves(&c) {
			switch l.field.Kind() {
			case reflect.Bool:
				l.field.SetBool(rapid.Bool().Draw(t, l.path))
			case reflect.Int, reflect.Int64:
				l.field.SetInt(rapid.Int64Range(1, 1<<40).Draw(t, l.path))
			case reflect.Uint64:
				l.field.SetUint(rapid.Uint64Min(1).Draw(t, l.path))
			case reflect.String:
				l.field.SetString(rapid.StringMatching(`[a-z"'\\ä ]{1,9}`).Draw(t, l.path))
			default:
			}
		}
		kept, err := inClear(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseClear(kept)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("etcd: %v", err)
		}
	})
}
