package changefeed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"github.com/pelletier/go-toml/v2"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
)

// ParseTOML reads a changefeed's file. What it does not say has its default.
func ParseTOML(text []byte) (Config, error) {
	c := Default()
	if err := strict.TOML(text, &c); err != nil {
		return Config{}, cdcerr.ConfigInvalid.Wrap(err, "the changefeed's configuration")
	}
	c.fill()
	return c, nil
}

// ParseJSON reads a changefeed's configuration as the API takes it, over another
// one: Default for a new changefeed, its own for one that is changed. Objects are
// put together key by key, lists and everything else are replaced, and null gives
// the default back. An empty text changes nothing.
func ParseJSON(text []byte, over Config) (Config, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" {
		return over, nil
	}
	given, err := decode(text)
	if err != nil {
		return Config{}, err
	}
	if text, err = json.Marshal(tiCDCNames(given)); err != nil {
		return Config{}, cdcerr.Bug("%v", err)
	}
	// Once for the errors, which name the place in what was sent.
	if err := strict.JSON(text, &Config{}); err != nil {
		return Config{}, cdcerr.ConfigInvalid.Wrap(err, "the changefeed's configuration")
	}
	base, err := inClear(over)
	if err != nil {
		return Config{}, err
	}
	initial, err := inClear(Default())
	if err != nil {
		return Config{}, err
	}
	c, err := parseClear(overlay(base, given, initial))
	if err != nil {
		return Config{}, err
	}
	if lost := keepMasked(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&over).Elem(), ""); lost != "" {
		return Config{}, cdcerr.ConfigInvalid.New("%s: %q stands for a secret that is not known: write the secret itself", lost, masked)
	}
	c.fill()
	return c, nil
}

// plainNames are keys by the rule "_ for -" that TiCDC's API calls otherwise.
var plainNames = map[string]string{
	"file_index_digit": "file_index_width", "advance_timeout_in_sec": "advance_timeout",
	"target_schema": "target-schema", "target_table": "target-table",
}

// tiCDCNames takes both names of such a key.
func tiCDCNames(t any) any {
	switch t := t.(type) {
	case map[string]any:
		for plain, name := range plainNames {
			if v, ok := t[plain]; ok {
				delete(t, plain)
				t[name] = v
			}
		}
		for _, v := range t {
			tiCDCNames(v)
		}
	case []any:
		for _, v := range t {
			tiCDCNames(v)
		}
	}
	return t
}

// overlay puts given over base; initial is what null gives back.
func overlay(base, given, initial any) any {
	over, ok := given.(map[string]any)
	if !ok {
		return given
	}
	was, _ := base.(map[string]any)
	first, _ := initial.(map[string]any)
	out := map[string]any{}
	for name, v := range was {
		out[name] = v
	}
	for name, v := range over {
		if v == nil {
			delete(out, name)
			if v, ok := first[name]; ok {
				out[name] = v
			}
			continue
		}
		out[name] = overlay(was[name], v, first[name])
	}
	return out
}

// inClear is a configuration as a tree of JSON, secrets in clear.
func inClear(c Config) (any, error) {
	text, err := json.Marshal(tree(reflect.ValueOf(&c)))
	if err != nil {
		return nil, cdcerr.Bug("a configuration is no JSON: %v", err)
	}
	return decode(text)
}

func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a timestamp is no float
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, cdcerr.ConfigInvalid.Wrap(err, "the changefeed's configuration")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, cdcerr.ConfigInvalid.New("the changefeed's configuration: something follows it at byte %d", d.InputOffset())
	}
	return out, nil
}

// parseClear is the inverse of inClear.
func parseClear(t any) (Config, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return Config{}, cdcerr.Bug("a configuration is no JSON: %v", err)
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return Config{}, cdcerr.ConfigInvalid.Wrap(err, "the changefeed's configuration")
	}
	return c, nil
}

// fill gives keys their default whose 0 stands for it.
func (c *Config) fill() {
	d := Default()
	if c.MemoryQuota == 0 {
		c.MemoryQuota = d.MemoryQuota
	}
	if c.Mounter.WorkerNum == 0 {
		c.Mounter.WorkerNum = d.Mounter.WorkerNum
	}
	if len(c.Filter.Rules) == 0 {
		c.Filter.Rules = d.Filter.Rules
	}
	for i := range c.Sink.Dispatchers {
		if p := &c.Sink.Dispatchers[i]; p.Partition == "" {
			p.Partition, p.Dispatcher = p.Dispatcher, ""
		}
	}
}

// TOML is the configuration as a file, with its secrets masked.
func (c *Config) TOML() ([]byte, error) {
	kept, err := inClear(*c)
	if err != nil {
		return nil, err
	}
	shown, err := parseClear(kept)
	if err != nil {
		return nil, err
	}
	// The encoder asks only structs and pointers for their text.
	for _, l := range leaves(&shown) {
		switch v := l.value.(type) {
		case Secret:
			l.field.SetString(v.String())
		case URI:
			l.field.SetString(v.String())
		}
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.SetIndentTables(false)
	if err := e.Encode(shown); err != nil {
		return nil, cdcerr.Bug("a configuration is no TOML: %v", err)
	}
	return b.Bytes(), nil
}

// Reveal is the configuration as the API takes it, with its secrets in clear: for
// a client that sends a file on. ParseJSON reads it.
func (c *Config) Reveal() (json.RawMessage, error) {
	t, err := inClear(*c)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(t)
	if err != nil {
		return nil, cdcerr.Bug("a configuration is no JSON: %v", err)
	}
	return out, nil
}

// JSON is the configuration as the API shows it, with its secrets masked.
func (c *Config) JSON() (json.RawMessage, error) {
	out, err := json.Marshal(c)
	if err != nil {
		return nil, cdcerr.Bug("a configuration is no JSON: %v", err)
	}
	return out, nil
}
