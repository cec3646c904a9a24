package strict_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/strict"
)

type shared struct {
	Force bool `toml:"force-replicate" json:"force_replicate"`
}

type rule struct {
	Matcher []string `toml:"matcher" json:"matcher"`
}

type span struct{ time.Duration }

// UnmarshalText makes a span read itself: what is below it is its own affair.
func (s *span) UnmarshalText(text []byte) (err error) {
	s.Duration, err = time.ParseDuration(string(text))
	return err
}

type file struct {
	shared
	Quota  uint64 `toml:"memory-quota" json:"memory_quota"`
	Filter struct {
		Rules  []string `toml:"rules" json:"rules"`
		Events []rule   `toml:"event-filters" json:"event_filters"`
	} `toml:"filter" json:"filter"`
	Sink *struct {
		Protocol string `toml:"protocol" json:"protocol"`
		Every    span   `toml:"every" json:"every"`
	} `toml:"sink" json:"sink"`
	Debug  map[string]rule `toml:"debug" json:"debug"`
	Hidden string          `toml:"-" json:"-"`
}

func TestTOML(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"memory-quota = 5\nforce-replicate = true\n[filter]\nrules = ['a.*']\n[[filter.event-filters]]\nmatcher = ['x']\n[sink]\nevery = '3s'", ""},
		{"memory-qouta = 5", `unknown key "memory-qouta" in line 1, did you mean "memory-quota"?`},
		{"\n[filter]\nrule = ['a.*']", `unknown key "filter.rule" in line 3, did you mean "filter.rules"?`},
		{"rules = ['a.*']", `unknown key "rules" in line 1, did you mean "filter.rules"?`},
		{"Hidden = 'a'", `unknown key "Hidden" in line 1`},
		{"[[filter.event-filters]]\nmacther = ['x']", `unknown key "filter.event-filters.macther" in line 2, did you mean "filter.event-filters.matcher"?`},
		{"banana = 1\nzebra = 2", `unknown key "banana" in line 1; unknown key "zebra" in line 2`},
		{"memory-quota = 'x'", `line 1, column 16: key "memory-quota": string given, a whole number from 0 wanted`},
		{"memory-quota = = 1", `line 1, column 16: `},
		{"\uFEFFmemory-quota = 5", ""},
		{"memory = 5", `unknown key "memory" in line 1, did you mean "memory-quota"?`},
		{"[debug.anything]\nmatcher = ['x']", ""},
	} {
		check(t, c.text, strict.TOML([]byte(c.text), new(file)), c.want)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"memory_quota":5,"force_replicate":true,"filter":{"rules":["a"],"event_filters":[{"matcher":["x"]}]},"sink":{"every":"3s"}}`, ""},
		{`{"memory-quota":5}`, `unknown key "memory-quota", did you mean "memory_quota"?`},
		{`{"Memory_Quota":5}`, `unknown key "Memory_Quota", did you mean "memory_quota"?`},
		{`{"filter":{"event_filters":[{"matchr":[]}]}}`, `unknown key "filter.event_filters.matchr", did you mean "filter.event_filters.matcher"?`},
		{`{"protocol":"x"}`, `unknown key "protocol", did you mean "sink.protocol"?`},
		{`{"debug":{"a":{"matcher":[]},"b":{"mather":[]}}}`, `unknown key "debug.b.mather"`},
		{`{"memory_quota":"5"}`, `key "memory_quota": a string is not a whole number from 0`},
		{`{"filter":{"rules":"a"}}`, `key "filter.rules": a string is not a list`},
		{`{"memory_quota":5`, "not JSON: it ends too early"},
		{"{\n  memory}", "not JSON: line 2, column 3"},
		{"\uFEFF" + `{"memory_quota":5}`, ""},
		{`{"memory_quota":5,"memory_quota":6}`, `key "memory_quota" is given twice`},
		{`{"filter":{"event_filters":[{"matcher":["matcher"]},{"matcher":[],"matcher":[]}]}}`, `key "filter.event_filters.matcher" is given twice`},
		{`{} {}`, "not one JSON value"},
		{``, "not JSON: it ends too early"},
	} {
		check(t, c.text, strict.JSON([]byte(c.text), new(file)), c.want)
	}
}

func check(t *testing.T, text string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%q: %v", text, err)
	case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
		t.Errorf("%q:\n got %v\nwant %s", text, err, want)
	}
}

func TestRename(t *testing.T) {
	var tree map[string]any
	text := "memory-quota = 5\nforce-replicate = true\n[filter]\nrules = ['a']\n[[filter.event-filters]]\nmatcher = ['x']\n[sink]\nevery = '3s'\n[debug.my-own]\nmatcher = ['y']"
	if err := strict.TOML([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(strict.Rename(tree, reflect.TypeFor[file](), "toml", "json"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"debug":{"my-own":{"matcher":["y"]}},"filter":{"event_filters":[{"matcher":["x"]}],"rules":["a"]},"force_replicate":true,"memory_quota":5,"sink":{"every":"3s"}}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if err := strict.JSON(got, new(file)); err != nil {
		t.Fatal(err)
	}
}

// A word with one slip is still found among words that are not like it.
func TestNearestForgivesASlip(t *testing.T) {
	known := []string{"changefeed", "capture", "processor", "unsafe"}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom(known).Draw(t, "word")
		i := rapid.IntRange(0, len(word)-2).Draw(t, "at")
		slip := rapid.SampledFrom([]string{
			word[:i] + word[i+1:],
			word[:i] + "q" + word[i:],
			word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:],
			strings.ToUpper(word[:i]) + word[i:],
		}).Draw(t, "slip")
		if got := strict.Nearest(slip, known); got != word {
			t.Fatalf("%q: got %q, want %q", slip, got, word)
		}
	})
	if got := strict.Nearest("banana", known); got != "" {
		t.Errorf("banana is near %q", got)
	}
}
