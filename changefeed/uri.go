package changefeed

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
)

// schemes are those of sink URIs, with the kind of sink.
var schemes = map[string]string{
	"mysql": kindMySQL, "mysql+ssl": kindMySQL, "tidb": kindMySQL, "tidb+ssl": kindMySQL,
	"blackhole": kindBlackhole,
	"kafka":     "kafka", "kafka+ssl": "kafka",
	"pulsar": "pulsar", "pulsar+ssl": "pulsar", "pulsar+http": "pulsar", "pulsar+https": "pulsar",
	"s3": kindStorage, "gcs": kindStorage, "gs": kindStorage, "azblob": kindStorage, "azure": kindStorage, "file": kindStorage, "noop": kindStorage,
}

// kindOf is the kind of sink that a URI names. No error holds the URI's text.
func kindOf(u URI) (string, *url.URL, error) {
	scheme, _, ok := strings.Cut(u.Reveal(), "://")
	if !ok {
		return "", nil, cdcerr.SinkURIInvalid.New("no scheme: a sink URI begins with mysql://, tidb:// or blackhole://")
	}
	if strings.Contains(u.Reveal(), masked) {
		return "", nil, cdcerr.SinkURIInvalid.New("%q in the sink URI stands for a secret that is not known: write the secret itself", masked)
	}
	kind, known := schemes[strings.ToLower(scheme)]
	if !known {
		if wrong(strings.ReplaceAll(scheme, "+", "-")) != "" {
			return "", nil, cdcerr.SinkURIInvalid.New("the sink URI has no scheme that can be read")
		}
		names := slices.Sorted(maps.Keys(schemes))
		if near := strict.Nearest(scheme, names); near != "" {
			return "", nil, cdcerr.SinkURIInvalid.New("scheme %q is none of a sink, did you mean %s?", scheme, near)
		}
		return "", nil, cdcerr.SinkURIInvalid.New("scheme %q is none of a sink: there are mysql, mysql+ssl, tidb, tidb+ssl and blackhole", scheme)
	}
	parsed, err := url.Parse(u.Reveal())
	if err != nil {
		return "", nil, cdcerr.SinkURIInvalid.New("the sink URI is no URI: want %s://user:password@host:port/?key=value, with : / ? # [ ] @ %% in user and password percent-encoded", scheme)
	}
	if _, err := url.ParseQuery(parsed.RawQuery); err != nil {
		return "", nil, cdcerr.SinkURIInvalid.New("the parameters after ? of the sink URI cannot be read: want key=value&key=value, percent-encoded")
	}
	return kind, parsed, nil
}

// uriNames are parameters of a sink URI that the file calls otherwise.
var uriNames = map[string]string{
	"enable-batch-dml": "batch-dml-enable", "enable-multi-statement": "multi-stmt-enable",
}

// Handed is the sink URI with the keys of the configuration that belong into it,
// for sink/downstream. What stands in the URI comes first; notes say where the
// two differ.
func (c *Config) Handed(u URI) (out URI, notes []string, err error) {
	kind, parsed, err := kindOf(u)
	if err != nil || kind != kindMySQL {
		return u, nil, err
	}
	query := parsed.Query()
	keys, initial := keysByPath(), defaults()
	for _, l := range leaves(c) {
		if k := keys[l.path]; k.Effect != Handed || l.value == nil || reflect.DeepEqual(l.value, initial[l.path]) || l.value == "" {
			continue
		}
		if l.path == "sink.safe-mode" && l.value == false {
			continue // it is what TiCDC's files say of nothing; sinks know their own default
		}
		name := l.path[strings.LastIndexByte(l.path, '.')+1:]
		if other, ok := uriNames[name]; ok {
			name = other
		}
		value := fmt.Sprint(l.value)
		switch {
		case !query.Has(name):
			query.Set(name, value)
		case query.Get(name) != value:
			notes = append(notes, fmt.Sprintf("%s = %s is not used: the sink URI says %s=%s", l.place, value, name, query.Get(name)))
		}
	}
	// With a redo log a downstream that is away is waited for by the sink alone: were the
	// run to end, the log would stand too, and what an upstream's loss costs would grow.
	if c.Consistent.On() && !query.Has("reconnect-timeout") {
		query.Set("reconnect-timeout", c.ErrorStuckDuration.String())
	}
	notes = append(notes, clamp(query)...)
	parsed.RawQuery = query.Encode()
	return URI(parsed.String()), notes, nil
}

// most are parameters that more of is asked for than sinks take. TiCDC takes its bound
// in their place, so that its files say such things.
var most = []struct {
	name string
	max  int64
}{{"max-multi-update-row", 256}, {"max-multi-update-row-size", 8192}, {"max-txn-row", 2048}, {"worker-count", 1024}}

// clamp takes the bound in place of what is above it.
func clamp(query url.Values) (notes []string) {
	for _, m := range most {
		if n, err := strconv.ParseInt(query.Get(m.name), 10, 64); err == nil && n > m.max && len(query[m.name]) == 1 {
			notes = append(notes, fmt.Sprintf("%s = %d is more than there may be: %d is used", m.name, n, m.max))
			query.Set(m.name, strconv.FormatInt(m.max, 10))
		}
	}
	return notes
}

// Check tells whether this release has what the configuration asks for with this
// sink, and notes which keys that were set do nothing. The configuration has
// passed Validate.
func (c *Config) Check(u URI) (notes []string, err error) {
	kind, _, err := kindOf(u)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "kafka", "pulsar", kindStorage:
		scheme, _, _ := strings.Cut(u.Reveal(), "://")
		return nil, cdcerr.NotInRelease.New("sink URI with scheme %q: there are mysql, mysql+ssl, tidb, tidb+ssl and blackhole", scheme)
	}
	keys, initial := keysByPath(), defaults()
	var lacking []string
	for _, l := range leaves(c) {
		k := keys[l.path]
		if l.unsaid(initial) {
			continue
		}
		switch {
		case k.sinks != "" && !slices.Contains(strings.Split(k.sinks, ", "), kind):
			notes = append(notes, fmt.Sprintf("%s does nothing: it is about sinks of kind %s", l.place, k.sinks))
		case k.Effect == Lacking && l.value == "none": // what is not asked for need not be there
		case k.Effect == Lacking:
			lacking = append(lacking, fmt.Sprintf("%s = %s (%s)", l.place, printValue(l.value), k.Why))
		case k.Effect == Nothing:
			notes = append(notes, fmt.Sprintf("%s does nothing: %s", l.place, k.Why))
		}
	}
	if len(lacking) > 0 {
		return notes, cdcerr.NotInRelease.New("%s", strings.Join(lacking, "; "))
	}
	handed, more, err := c.Handed(u)
	if err == nil && c.EnableSyncPoint && kind != kindMySQL {
		err = cdcerr.ConfigInvalid.New("enable-sync-point: sync points are rows in a database, and %s has none", handed)
	}
	if err == nil && c.Consistent.On() && kind == kindMySQL && recordsNoDDL(handed) {
		err = cdcerr.ConfigInvalid.New("consistent.level = %q with enable-ddl-ts = false: the redo log is applied from where the downstream's record of DDLs says; want enable-ddl-ts left out, or level \"none\"", c.Consistent.Level)
	}
	if err == nil {
		err = c.checkSplit(handed)
	}
	return append(notes, more...), err
}

// recordsNoDDL tells whether a sink is told to keep no record of DDLs.
func recordsNoDDL(u URI) bool {
	_, parsed, err := kindOf(u)
	if err != nil {
		return false
	}
	on, err := strconv.ParseBool(parsed.Query().Get("enable-ddl-ts"))
	return err == nil && !on
}
