package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/strict"
)

// settings are what a file and flags say of a changefeed, in the API's words,
// and only what they say: the rest has the server's defaults.
type settings struct {
	clear map[string]any // for the server
	shown map[string]any // for a person: secrets are masked
}

func (s settings) empty() bool { return len(s.clear) == 0 }

// request is what the API takes.
func (s settings) request() (json.RawMessage, error) {
	if s.empty() {
		return nil, nil
	}
	text, err := json.Marshal(s.clear)
	return text, cdcerr.InvalidArgument.Wrap(err, "--config")
}

// settings reads the file and the flags of a command. The file is held to what a
// changefeed's may say before anybody is asked.
func (t *terminal) settings(c *cobra.Command) (settings, error) {
	s := settings{clear: map[string]any{}}
	if path := str(c, "config"); path != "" {
		text, err := server.ReadFile(path)
		if err != nil {
			return s, cdcerr.InvalidArgument.Wrap(err, "--config")
		}
		if s.clear, err = fileSettings(path, text); err != nil {
			return s, err
		}
	}
	if registry := str(c, "schema-registry"); registry != "" {
		sink, ok := s.clear["sink"].(map[string]any)
		if !ok {
			sink = map[string]any{}
			s.clear["sink"] = sink
		}
		sink["schema_registry"] = registry
	}
	if str(c, "disable-gc-check") == "true" {
		s.clear["check_gc_safe_point"] = false
	}
	if err := s.mask(); err != nil {
		if path := str(c, "config"); path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return s, err
	}
	return s, nil
}

// fileSettings reads a changefeed's file into the API's words.
func fileSettings(path string, text []byte) (map[string]any, error) {
	config, err := changefeed.ParseTOML(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err = config.Validate(changefeed.Limits{SyncPointIntervalMin: 1}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tree := map[string]any{}
	if err := strict.TOML(text, &tree); err != nil {
		return nil, cdcerr.ConfigInvalid.Wrap(err, "%s", path)
	}
	out, _ := strict.Rename(tree, reflect.TypeFor[changefeed.Config](), "toml", "json").(map[string]any)
	return out, nil
}

// config is the changefeed's configuration, with defaults for what is not said.
func (s settings) config() (changefeed.Config, error) {
	text, err := s.request()
	if err != nil {
		return changefeed.Config{}, err
	}
	return changefeed.ParseJSON(text, changefeed.Default())
}

// warnIdle says what the server told, and names what of the settings changes
// nothing: keys without effect with this sink, and, where the tables are known, rules that match none of them.
func (t *terminal) warnIdle(s settings, sinkURI string, told []string, tables *api.Tables) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	notes, err := config.Check(changefeed.URI(sinkURI))
	if err != nil {
		return err
	}
	var said []string
	for _, note := range append(told, notes...) {
		if !slices.Contains(said, note) {
			said = append(said, note)
			t.warn("%s", note)
		}
	}
	if tables == nil {
		return nil
	}
	idle, err := config.RulesWithout(func(matches func(schema, table string) bool) bool {
		return slices.ContainsFunc(tables.All, func(b api.Table) bool { return matches(b.Schema, b.Table) })
	})
	for _, rule := range idle {
		t.warn("filter.rules: %q matches no table that there is at the start-ts", rule)
	}
	return err
}

// mask fills shown.
func (s *settings) mask() error {
	config, err := s.config()
	if err != nil {
		return err
	}
	masked, err := config.JSON()
	if err != nil {
		return err
	}
	whole, err := treeOf(masked)
	if err != nil {
		return err
	}
	s.shown = within(whole, s.clear)
	return nil
}

// treeOf is an object of JSON, its numbers as they are written.
func treeOf(text []byte) (map[string]any, error) {
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, cdcerr.ServerUnreachable.New("the server's answer holds no configuration")
	}
	return out, nil
}

// within is of a tree what another one has keys of.
func within(whole, keys map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range keys {
		below, ok := v.(map[string]any)
		tree, ok2 := whole[key].(map[string]any)
		if ok && ok2 {
			out[key] = within(tree, below)
		} else {
			out[key] = whole[key]
		}
	}
	return out
}

// changes are what an update would change, key by key. Secrets are not compared:
// nobody shows what they were.
func changes(was api.FeedInfo, in api.UpdateFeed, s settings) ([]string, error) {
	var out []string
	if in.SinkURI != nil {
		out = append(out, fmt.Sprintf("sink_uri: %s -> %s", was.SinkURI, changefeed.URI(*in.SinkURI)))
	}
	if in.TargetTS != nil {
		next := *in.TargetTS
		if next == api.NoTarget {
			next = 0
		}
		if next != was.TargetTS {
			out = append(out, fmt.Sprintf("target_ts: %d -> %d", was.TargetTS, next))
		}
	}
	tree, err := treeOf(was.Config)
	return append(out, differences("", tree, s.shown, s.clear)...), err
}

// differences lists what now says otherwise than was, and where it says a secret.
func differences(place string, was, now, clear map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(now)) {
		below, ok := now[key].(map[string]any)
		said, _ := clear[key].(map[string]any)
		if before, same := was[key].(map[string]any); ok && (same || was[key] == nil) {
			out = append(out, differences(place+key+".", before, below, said)...)
			continue
		}
		a, b := inJSON(was[key]), inJSON(now[key])
		if a != b || hidden(now[key], clear[key]) {
			out = append(out, fmt.Sprintf("%s%s: %s -> %s", place, key, a, b))
		}
	}
	return out
}

// hidden tells whether a value is shown with something masked in it.
func hidden(shown, clear any) bool {
	a, is := shown.(string)
	b, was := clear.(string)
	return is && was && a != b && bytes.Contains([]byte(a), []byte("xxxxx"))
}

func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
