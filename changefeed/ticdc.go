package changefeed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// ticdcInfo is a changefeed as TiCDC keeps it in etcd, as far as it is about one here.
type ticdcInfo struct {
	UpstreamID     uint64    `json:"upstream-id"`
	SinkURI        URI       `json:"sink-uri"`
	CreateTime     time.Time `json:"create-time"`
	StartTS        tso.TS    `json:"start-ts"`
	TargetTS       tso.TS    `json:"target-ts"`
	CreatorVersion string    `json:"creator-version"`
	State          State     `json:"state"`
	AdminJob       int       `json:"admin-job-type"`
	Error          *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// TiCDCFeed is a changefeed as TiCDC keeps it, in the terms that are used here.
type TiCDCFeed struct {
	Info       Info
	Checkpoint tso.TS
	// State is where it stands in TiCDC, and Trouble the error that it has there.
	State   State
	Trouble string
	// Unknown are the keys of its configuration that are not known here, in TOML's
	// spelling. They are not taken over.
	Unknown []string
}

// state is where TiCDC has it: what its orders leave behind counts where an older
// version wrote none, or wrote it before it carried out the order.
func (i *ticdcInfo) state() State {
	for _, s := range []State{Finished, Removed, Stopped} {
		if i.AdminJob != 0 && i.AdminJob == s.AdminJob() && (i.State == "" || i.State == Normal) {
			return s
		}
	}
	if i.State == "" {
		return Normal
	}
	return i.State
}

// FromTiCDC reads a changefeed that TiCDC keeps: the values of its info and status
// keys. Keys that are not said have the defaults of the TiCDC that created it.
// Whether this release can replicate it, Check says.
func FromTiCDC(id ID, info, status []byte) (TiCDCFeed, error) {
	fail := func(err error) (TiCDCFeed, error) { return TiCDCFeed{}, err }
	var kept ticdcInfo
	if err := json.Unmarshal(info, &kept); err != nil {
		return fail(cdcerr.ConfigInvalid.Wrap(err, "TiCDC's changefeed %s", id))
	}
	checkpoint, err := ticdcCheckpoint(id, &kept, status)
	if err != nil {
		return fail(err)
	}
	config, unknown, err := ticdcConfig(info, kept.CreatorVersion)
	if err != nil {
		return fail(err)
	}
	out := TiCDCFeed{
		Info: Info{
			Namespace: id.Namespace, Name: id.Name, UpstreamID: kept.UpstreamID, SinkURI: kept.SinkURI, CreateTime: kept.CreateTime,
			CreatorVersion: kept.CreatorVersion, StartTS: kept.StartTS, TargetTS: kept.TargetTS, Config: config,
		},
		Checkpoint: checkpoint, State: kept.state(), Unknown: unknown,
	}
	if kept.Error != nil {
		out.Trouble = "[" + kept.Error.Code + "] " + kept.Error.Message
	}
	return out, id.Validate()
}

// ticdcCheckpoint is up to where TiCDC's changefeed has everything downstream. One
// that never ran has no status, and is at its start-ts.
func ticdcCheckpoint(id ID, kept *ticdcInfo, status []byte) (tso.TS, error) {
	if len(status) == 0 {
		if kept.StartTS == 0 {
			return 0, cdcerr.ConfigInvalid.New("TiCDC's changefeed %s has neither a status nor a start-ts", id)
		}
		return kept.StartTS, nil
	}
	var reached struct {
		CheckpointTS tso.TS `json:"checkpoint-ts"`
	}
	if err := json.Unmarshal(status, &reached); err != nil {
		return 0, cdcerr.ConfigInvalid.Wrap(err, "the status of TiCDC's changefeed %s", id)
	}
	if reached.CheckpointTS == 0 {
		return 0, cdcerr.ConfigInvalid.New("the status of TiCDC's changefeed %s has no checkpoint-ts", id)
	}
	return reached.CheckpointTS, nil
}

// ticdcConfig reads the configuration out of an info of TiCDC's, and what of it is
// not known here.
func ticdcConfig(info []byte, version string) (Config, []string, error) {
	fail := func(err error) (Config, []string, error) { return Config{}, nil, err }
	whole, err := decode(info) // numbers to the digit
	if err != nil {
		return fail(err)
	}
	given := any(map[string]any{})
	if top, ok := whole.(map[string]any); ok && top["config"] != nil {
		given = top["config"]
	}
	var unknown []string
	renamed := apiNames(given, reflect.TypeFor[Config](), "", &unknown)
	initial := Default()
	initial.CaseSensitive = oldCaseSensitive(version)
	base, err := inClear(initial)
	if err != nil {
		return fail(err)
	}
	config, err := parseClear(overlay(base, renamed, base))
	if err != nil {
		return fail(err)
	}
	config.fill()
	slices.Sort(unknown)
	return config, unknown, nil
}

// apiNames gives the keys of TiCDC's etcd, which are TOML's, the names of the API.
func apiNames(v any, t reflect.Type, place string, unknown *[]string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return v
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = apiNames(e, t.Elem(), fmt.Sprintf("%s[%d]", place, i), unknown)
		}
		return out
	case map[string]any:
		if !isTable(t) {
			return v
		}
		out := map[string]any{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
			inAPI, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if e, ok := v[name]; ok && name != "-" {
				out[inAPI] = apiNames(e, f.Type, join(place, name), unknown)
			}
		}
		for key := range v {
			if _, known := fieldOf(t, key); !known {
				*unknown = append(*unknown, join(place, key))
			}
		}
		return out
	}
	return v
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ","); name == key && name != "-" {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

// oldCaseSensitive is the default of case-sensitive in the TiCDC of this version:
// true until 6.5.6, 7.1.3 and 7.5.0.
func oldCaseSensitive(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return false // nobody knows: as it is now
	}
	at := func(M, m, p int) bool {
		return major > M || major == M && (minor > m || minor == m && patch >= p)
	}
	switch {
	case at(7, 5, 0):
		return false
	case major == 7 && minor == 1:
		return patch < 3
	case major == 6 && minor == 5:
		return patch < 6
	}
	return true
}
