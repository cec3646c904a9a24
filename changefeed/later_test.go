package changefeed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// whole is a changefeed of which everything is said.
func whole(t *testing.T) Info {
	t.Helper()
	fault := &Fault{Time: base, Addr: "10.0.0.1:8301", Code: "CDC:ErrX", Message: "x"}
	return Info{
		Namespace: "default", Name: "x", UpstreamID: 18446744073709551615, SinkURI: "mysql://root:pw@h/", CreateTime: base, CreatorVersion: "1.0.0",
		StartTS: 18446744073709551614, TargetTS: 18446744073709551615, Config: full(t), Error: fault, Warning: fault,
		Trouble:   &Trouble{Since: base, Attempts: 3, RetryAt: base.Add(time.Second), From: 7, Away: true},
		RedoTurns: 2, Upstream: &Addresses{PD: []string{"10.0.0.1:2379"}, Stores: []string{"10.0.0.2:20160"}},
		Loss: &Loss{At: base, Addr: "10.0.0.1:8301", AppliedTS: 9},
	}
}

// What etcd holds of a changefeed is what the release before wrote there, and the next
// one reads: a change of it is a change of the format.
func TestStoredGolden(t *testing.T) {
	info := whole(t)
	for i, v := 0, reflect.ValueOf(info); i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.IsExported() && v.Field(i).IsZero() {
			t.Errorf("%s is not said", f.Name)
		}
	}
	stored, err := info.Stored()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, stored, "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	golden(t, "stored.json", text.Bytes())
	again, err := ParseInfo(read(t, "stored.json"))
	if err != nil || !reflect.DeepEqual(*again, info) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, again, info)
	}
}

// A server of the release before leads what one of the next has written: it says which
// keys it does not know, and whatever it writes of the changefeed leaves them there.
func TestLaterKeysAreKept(t *testing.T) {
	info := whole(t)
	stored, err := info.Stored()
	if err != nil {
		t.Fatal(err)
	}
	later := string(stored)
	insert := func(after, text string) {
		t.Helper()
		if strings.Count(later, after) != 1 {
			t.Fatalf("%q stands %d times in %s", after, strings.Count(later, after), later)
		}
		later = strings.Replace(later, after, after+text, 1)
	}
	later = `{"mode":{"of":["later"]},` + later[1:]
	insert(`"config":{`, `"later_quota":18446744073709551615,`)
	insert(`"mounter":{`, `"later_secret":"hush",`)
	insert(`"trouble":{`, `"later":1,`)
	insert(`"event_filters":[{`, `"later":true,`)
	got, err := ParseInfo([]byte(later))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"config.filter.event_filters.later", "config.later_quota", "config.mounter.later_secret", "mode", "trouble.later"}; !slices.Equal(got.Later(), want) {
		t.Errorf("%q", got.Later())
	}
	shown, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if all := string(shown) + fmt.Sprintf("%v %+v", got, *got); strings.Contains(all, "hush") {
		t.Errorf("what may be a secret is shown: %s", all)
	}
	holds := func(what string, i Info, keys, not []string) { t.Helper(); stays(t, what, i, keys, not) }
	always := []string{`"mode":{"of":["later"]}`, `"later_quota":18446744073709551615`, `"later_secret":"hush"`}
	rule, trouble := `"later":true`, `"later":1`
	holds("as it was", *got, append(always, rule, trouble), nil)
	other := *got
	other.Trouble = &Trouble{Since: base.Add(time.Hour), Attempts: 1}
	holds("another trouble", other, append(always, rule), []string{trouble})
	other.Trouble = nil
	holds("no trouble", other, append(always, rule), []string{trouble})
	other = *got
	other.Config.Mounter.WorkerNum, other.StartTS = 99, 5
	holds("another configuration", other, append(always, rule, trouble), nil)
	other.Config.Filter.EventFilters = slices.Clone(other.Config.Filter.EventFilters)
	other.Config.Filter.EventFilters[0].Matcher = []string{"other.*"}
	holds("other event filters", other, append(always, trouble), []string{rule})

	// An operator's update goes through the same.
	other = *got
	other.Loss = nil
	l, err := New(other, Status{CheckpointTS: at(5), ResolvedTS: at(5), State: Stopped}, Options{}, base)
	if err != nil {
		t.Fatal(err)
	}
	uri := URI("mysql://root:pw@elsewhere/")
	config := Default()
	if _, err := l.Update(Change{SinkURI: &uri, Config: &config}); err != nil {
		t.Fatal(err)
	}
	holds("an update", l.Info(), always, nil)
}

// stays holds what is written of a changefeed against the keys that it has, and has not.
func stays(t *testing.T, what string, i Info, keys, not []string) {
	t.Helper()
	out, err := i.Stored()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseInfo(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !strings.Contains(string(out), k) {
			t.Errorf("%s: %s is lost", what, k)
		}
	}
	for _, k := range not {
		if strings.Contains(string(out), k) {
			t.Errorf("%s: %s stays", what, k)
		}
	}
	again.later, i.later = nil, nil
	if !reflect.DeepEqual(*again, i) {
		t.Errorf("%s: read  %+v\nwrote %+v", what, *again, i)
	}
}
