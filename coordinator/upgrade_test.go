package coordinator_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/meta"
)

// In the midst of a rolling upgrade a server of the release before is elected: it goes on
// with a changefeed that the newer one has written, keys that it does not know included,
// and they are there when the next one is of the newer release again.
func TestAnOlderOwnerKeepsWhatANewerOneWrote(t *testing.T) {
	s := newSite(t)
	c := s.captures(2, "blackhole://")
	newer, ctx := c.owner(), t.Context()
	c.caught()
	kept, err := newer.store.Changefeed(ctx, meta.ChangefeedID{Namespace: feed.Keyspace, Name: feed.Name})
	must(t, err)
	text := string(kept.Info)
	for _, edit := range [][2]string{{`{`, `{"later":{"a":1},`}, {`"mounter":{`, `"mounter":{"later_too":2,`}} {
		text = strings.Replace(text, edit[0], edit[0]+strings.TrimPrefix(edit[1], edit[0]), 1)
	}
	s.until("it is written", func() bool { // the owner saves its checkpoint meanwhile
		kept, err = newer.store.Changefeed(ctx, kept.ID)
		must(t, err)
		_, err = newer.store.Put(ctx, meta.Fence{}, kept, json.RawMessage(text), kept.Status)
		return err == nil
	})
	c.gone(newer)
	newer.end(s)

	older := c.owner()
	c.caught()
	holds := func(when string) {
		t.Helper()
		kept, err := older.store.Changefeed(ctx, kept.ID)
		must(t, err)
		if !strings.Contains(string(kept.Info), `"later":{"a":1}`) || !strings.Contains(string(kept.Info), `"later_too":2`) {
			t.Errorf("%s: lost: %s", when, kept.Info)
		}
	}
	must(t, older.Pause(ctx, feed))
	_, err = older.Update(ctx, feed, api.Change{Config: json.RawMessage(`{"mounter":{"worker_num":3}}`)})
	must(t, err)
	holds("updated")
	must(t, older.Resume(ctx, feed, 0))
	c.caught()
	if f := s.get(older); f.State != "normal" || f.Error != nil || f.Warning != nil {
		t.Errorf("%s: %+v, %+v", f.State, f.Error, f.Warning)
	}
	holds("resumed")
}
