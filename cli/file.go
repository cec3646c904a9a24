package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
)

// fileSettings reads a changefeed's file into the API's words.
func fileSettings(path string, text []byte) (map[string]any, error) {
	var tree map[string]any
	if err := strict.TOML(text, &tree); err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "%s", path)
	}
	out := map[string]any{}
	for key, v := range tree {
		out[underscored(key)] = inWords(key, v)
	}
	return out, nil
}

func underscored(key string) string { return strings.ReplaceAll(key, "-", "_") }

func inWords(below string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			name := underscored(key)
			if below == "pulsar-config" || below == "oauth2" {
				name = key
			}
			out[name] = inWords(key, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = inWords(below, e)
		}
		return out
	}
	return v
}

// changes are what an update would change, key by key.
func (t *terminal) changes(was api.FeedInfo, in api.UpdateFeed, config map[string]any) ([]string, error) {
	var out []string
	if in.SinkURI != nil {
		out = append(out, "sink_uri: another one")
	}
	if in.TargetTS != nil && *in.TargetTS != was.TargetTS {
		out = append(out, fmt.Sprintf("target_ts: %d -> %d", was.TargetTS, *in.TargetTS))
	}
	var tree map[string]any
	if err := json.Unmarshal(was.Config, &tree); err != nil {
		return nil, cdcerr.ServerUnreachable.New("the server's answer holds no configuration")
	}
	return append(out, differences("", tree, config)...), nil
}

// differences lists what now says otherwise than was.
func differences(place string, was, now map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(now)) {
		below, ok := now[key].(map[string]any)
		before, ok2 := was[key].(map[string]any)
		if ok && (ok2 || was[key] == nil) {
			out = append(out, differences(place+key+".", before, below)...)
			continue
		}
		a, b := shown(was[key]), shown(now[key])
		if a != b {
			out = append(out, fmt.Sprintf("%s%s: %s -> %s", place, key, a, b))
		}
	}
	return out
}

func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
