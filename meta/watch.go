package meta

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Update is what has changed in a cluster. It is whole: nothing of a revision comes
// in a later one.
type Update struct {
	Revision int64
	// All says that the update holds everything that stands: what it does not name is
	// not there. The first one of a watch is such, and one after a gap.
	All bool
	// Captures and Changefeeds that are new, changed or gone, by id.
	Captures    []CaptureChange
	Changefeeds []ChangefeedChange
	// OwnerMoved says that Owner and OwnerRevision are new; empty: there is none.
	OwnerMoved    bool
	Owner         capture.ID
	OwnerRevision int64
}

// CaptureChange is a capture that has come, changed or gone.
type CaptureChange struct {
	ID   capture.ID
	Info capture.Info
	Gone bool
	Err  error // its value cannot be read
}

// ChangefeedChange is a changefeed as it is now.
type ChangefeedChange struct {
	ID   ChangefeedID
	Now  *Changefeed // nil when Gone
	Gone bool
}

// watchPause is how long a watch waits after etcd has failed it.
const watchPause = 200 * time.Millisecond

// Watch hands on what stands in the cluster and then every change of it, in order,
// until ctx ends or fn fails. A change that is overtaken by a later one before fn
// is ready may be left out, the later one never. Where etcd fails it goes on as
// soon as etcd does; where etcd has thrown away what it had to say, it begins anew
// with everything that stands.
func (s *Store) Watch(ctx context.Context, fn func(Update) error) error {
	w := &watcher{store: s, fn: fn}
	for {
		err := w.once(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRefused):
			return w.refused
		case err != nil:
			s.log.Info("the watch of metadata broke; beginning anew", "revision", w.revision, "error", err)
			timer := time.NewTimer(watchPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
	}
}

// errRefused: fn has failed.
var errRefused = errors.New("the update was refused")

// watcher is one watch, with the cluster as it was told last.
type watcher struct {
	store    *Store
	fn       func(Update) error
	revision int64
	feeds    map[ChangefeedID]*Changefeed
	owners   map[string]owner // who stands for election, by key
	owner    owner
	refused  error
}

type owner struct {
	id       capture.ID
	revision int64
}

// once lists what stands and follows it until something breaks.
func (w *watcher) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := w.store
	res, err := s.get(ctx, "reading metadata", s.keys.root, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	// A list may come from a member that lags: what was told is not told back (P3).
	if res.Header.Revision < w.revision {
		return cdcerr.MetaUnreachable.New("etcd is at revision %d, it was at %d", res.Header.Revision, w.revision)
	}
	w.feeds, w.owners = map[ChangefeedID]*Changefeed{}, map[string]owner{}
	events := make([]*clientv3.Event, len(res.Kvs))
	for i, kv := range res.Kvs {
		events[i] = &clientv3.Event{Type: mvccpb.PUT, Kv: kv}
	}
	u := w.apply(events)
	u.All, u.OwnerMoved = true, true
	if err := w.hand(u, res.Header.Revision); err != nil {
		return err
	}
	changes := s.client.Watch(clientv3.WithRequireLeader(ctx), s.keys.root, clientv3.WithPrefix(), clientv3.WithRev(res.Header.Revision+1))
	for res := range changes {
		if err := res.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				s.log.Info("the watch of metadata fell behind what etcd keeps; reading all of it", "revision", w.revision)
				return nil
			}
			return err
		}
		if len(res.Events) == 0 {
			continue
		}
		if err := w.hand(w.apply(res.Events), res.Header.Revision); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}

func (w *watcher) hand(u Update, revision int64) error {
	w.revision, u.Revision = revision, revision
	if !u.All && len(u.Captures)+len(u.Changefeeds) == 0 && !u.OwnerMoved {
		return nil // of keys that are not ours to read
	}
	if w.refused = w.fn(u); w.refused != nil {
		return errRefused
	}
	return nil
}

// apply takes events in and says what they change.
func (w *watcher) apply(events []*clientv3.Event) Update {
	var u Update
	var touched []ChangefeedID
	for _, e := range events {
		k := w.store.keys.parse(string(e.Kv.Key))
		gone := e.Type == mvccpb.DELETE
		switch k.kind {
		case captureKey:
			c := CaptureChange{ID: k.capture, Gone: gone}
			if !gone {
				c.Info, c.Err = parseCapture(e.Kv)
			}
			u.Captures = append(slices.DeleteFunc(u.Captures, func(o CaptureChange) bool { return o.ID == k.capture }), c)
		case ownerKey:
			if delete(w.owners, string(e.Kv.Key)); !gone {
				w.owners[string(e.Kv.Key)] = owner{capture.ID(e.Kv.Value), e.Kv.CreateRevision}
			}
		case infoKey, statusKey:
			w.change(k, e.Kv, gone)
			if !slices.Contains(touched, k.changefeed) {
				touched = append(touched, k.changefeed)
			}
		}
	}
	for _, id := range touched {
		u.Changefeeds = append(u.Changefeeds, w.told(id))
	}
	if now := w.leader(); now != w.owner {
		w.owner, u.OwnerMoved = now, true
	}
	u.Owner, u.OwnerRevision = w.owner.id, w.owner.revision
	return u
}

// change takes in one key of a changefeed. What was handed on is not changed.
func (w *watcher) change(k key, kv *mvccpb.KeyValue, gone bool) {
	now := &Changefeed{ID: k.changefeed}
	if was := w.feeds[k.changefeed]; was != nil {
		*now = *was
	}
	w.feeds[k.changefeed] = now
	switch {
	case !gone:
		now.take(k, kv)
	case k.kind == infoKey:
		now.Info, now.infoRevision, now.infoErr = nil, 0, nil
	default:
		now.Status, now.status, now.statusRevision, now.statusErr = Status{}, Status{}, 0, nil
	}
}

func (w *watcher) told(id ChangefeedID) ChangefeedChange {
	now := w.feeds[id]
	if now.infoRevision == 0 && now.statusRevision == 0 {
		delete(w.feeds, id)
		return ChangefeedChange{ID: id, Gone: true}
	}
	now.whole()
	out := *now
	return ChangefeedChange{ID: id, Now: &out}
}

// leader is who came first of those that stand for election.
func (w *watcher) leader() owner {
	var first owner
	for _, o := range w.owners {
		if first.revision == 0 || o.revision < first.revision {
			first = o
		}
	}
	return first
}
