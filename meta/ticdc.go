package meta

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// ticdcRoot is before every key of every cluster of TiCDC.
const ticdcRoot = "/tidb/cdc/"

// TiCDC is what a cluster of TiCDC keeps in PD's etcd, as of one revision.
type TiCDC struct {
	// Captures are the ids of its servers that are alive.
	Captures []string
	Feeds    []TiCDCFeed // by namespace and name
}

// TiCDCFeed is one of its changefeeds; a value that is not there is nil.
type TiCDCFeed struct {
	ID           ChangefeedID
	Info, Status []byte
}

// ReadTiCDC reads what the cluster of TiCDC of this name keeps. It writes nothing:
// the keys are TiCDC's. Of cfg, which is as for the backend that PD is, Prefix and
// Cluster do not count.
func ReadTiCDC(ctx context.Context, cfg Config, cluster string) (*TiCDC, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := checkWord("TiCDC's cluster", cluster); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	defer s.Close()
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	all, err := s.get(ctx, "reading TiCDC's keys", ticdcRoot, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	out := &TiCDC{}
	found := map[string]bool{}
	for _, kv := range all.Kvs {
		found[out.take(string(kv.Key), kv.Value, cluster)] = true
	}
	slices.SortFunc(out.Feeds, func(a, b TiCDCFeed) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	switch {
	case found[cluster]:
		return out, nil
	case found[ticdcOld]:
		return nil, cdcerr.NotInRelease.New("the keys below %s are those of TiCDC 6.1 or older: start a newer TiCDC once, which moves them", ticdcRoot)
	}
	delete(found, "")
	if len(found) == 0 {
		return nil, cdcerr.InvalidArgument.New("there are no keys of TiCDC below %s in the etcd at %s", ticdcRoot, strings.Join(s.endpoint, ","))
	}
	return nil, cdcerr.InvalidArgument.New("TiCDC has no cluster %q there, but %s", cluster, strings.Join(slices.Sorted(maps.Keys(found)), ", "))
}

// ticdcOld stands for the layout without clusters; no cluster may have such a name.
const ticdcOld = "changefeed"

// take reads a key if it belongs to the cluster, and says whose it is.
func (t *TiCDC) take(key string, value []byte, cluster string) (owner string) {
	parts := strings.Split(strings.TrimPrefix(key, ticdcRoot), "/")
	switch {
	case parts[0] == ticdcOld:
		return ticdcOld
	case len(parts) < 4 || strings.HasPrefix(parts[0], "__"):
		return "" // a backup, or of the layout without clusters
	case parts[0] != cluster:
		return parts[0]
	}
	switch at := strings.Join(parts[1:len(parts)-1], "/"); {
	case at == "__cdc_meta__/capture":
		t.Captures = append(t.Captures, parts[3])
	case len(parts) == 5 && parts[2] == "changefeed" && (parts[3] == "info" || parts[3] == "status"):
		f := t.feed(ChangefeedID{Namespace: parts[1], Name: parts[4]})
		if parts[3] == "info" {
			f.Info = value
		} else {
			f.Status = value
		}
	}
	return cluster
}

// feed is the changefeed of this name, which is there afterwards.
func (t *TiCDC) feed(id ChangefeedID) *TiCDCFeed {
	if i := slices.IndexFunc(t.Feeds, func(f TiCDCFeed) bool { return f.ID == id }); i >= 0 {
		return &t.Feeds[i]
	}
	t.Feeds = append(t.Feeds, TiCDCFeed{ID: id})
	return &t.Feeds[len(t.Feeds)-1]
}
