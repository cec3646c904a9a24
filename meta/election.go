package meta

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Leadership is the time as owner of one session. It ends with the session, or
// when the key is taken away; its Fence then opens nothing any more.
type Leadership struct {
	Fence
	session *Session
}

// Campaign waits until this capture is the owner. Captures become owner in the
// order in which they came; whoever leads, leads until its session ends or it
// resigns. Who does not come to lead stands back: nobody waits for an owner that will
// be none. A revision leads once: who has resigned in vain resigns first.
func (s *Session) Campaign(ctx context.Context) (l *Leadership, err error) {
	st := s.store
	own := st.keys.owner(int64(s.lease))
	defer func() {
		if err != nil && s.Left() > 0 {
			s.standBack(context.WithoutCancel(ctx), own)
		}
	}()
	if err := s.StandDown(ctx); err != nil {
		return nil, err
	}
	res, err := st.txn(ctx, "standing for election", []clientv3.Cmp{absent(own)},
		[]clientv3.Op{clientv3.OpPut(own, string(s.id), clientv3.WithLease(s.lease))},
		[]clientv3.Op{clientv3.OpGet(own)})
	if err != nil {
		return nil, err
	}
	created := res.Header.Revision
	if !res.Succeeded {
		created = res.Responses[0].GetResponseRange().Kvs[0].CreateRevision
	}
	for {
		before, err := st.get(ctx, "looking who leads", st.keys.owners(), append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(created-1))...)
		if err != nil {
			return nil, err
		}
		if len(before.Kvs) == 0 {
			l := &Leadership{Fence: Fence{key: own, revision: created}, session: s}
			if err := l.Check(ctx); err != nil {
				return nil, err
			}
			s.mu.Lock()
			s.led = l.Fence
			s.mu.Unlock()
			return l, nil
		}
		if err := st.gone(ctx, string(before.Kvs[0].Key), before.Header.Revision+1, s.lost); err != nil {
			return nil, err
		}
	}
}

// standBack takes the session's word back that it would lead. Where etcd does not take
// it the key ends with the session.
func (s *Session) standBack(ctx context.Context, own string) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if _, err := s.store.client.Delete(ctx, own); err != nil {
		s.store.log.Info("a capture that leads no more stands for election until its session ends", "capture", s.id, "error", err)
	}
}

// gone waits for a key to be deleted.
func (s *Store) gone(ctx context.Context, key string, from int64, lost <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := s.client.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithRev(from), clientv3.WithFilterPut())
	for {
		select {
		case res, ok := <-changes:
			switch err := res.Err(); {
			case ctx.Err() != nil:
				return ctx.Err()
			case !ok:
				return cdcerr.MetaUnreachable.New("waiting for %s: the watch ended", key)
			case err == rpctypes.ErrCompacted: //nolint:errorlint // etcd compares its own errors so
				return nil // it is asked again who stands before
			case err != nil:
				return s.failure(err, "waiting for "+key)
			case len(res.Events) > 0:
				return nil
			}
		case <-lost:
			return cdcerr.SessionLost.New("waiting for %s", key)
		}
	}
}

// Check asks etcd whether this capture is the owner still.
func (l *Leadership) Check(ctx context.Context) error {
	res, err := l.session.store.get(ctx, "looking who leads", l.key)
	if err != nil {
		return err
	}
	if len(res.Kvs) == 0 || res.Kvs[0].CreateRevision != l.revision {
		return cdcerr.NotOwner.New("capture %s of revision %d is not the owner any more", l.session.id, l.revision)
	}
	return nil
}

// Resign lets the next one lead.
func (l *Leadership) Resign(ctx context.Context) error { return l.session.resign(ctx, l.Fence) }

// StandDown resigns for a leadership that is over while etcd may still have it: nobody
// else is elected until then. It is nothing where there is none.
func (s *Session) StandDown(ctx context.Context) error {
	s.mu.Lock()
	led := s.led
	s.mu.Unlock()
	if led.key == "" {
		return nil
	}
	return s.resign(ctx, led)
}

// resign takes the key away, if it is the one of that leadership.
func (s *Session) resign(ctx context.Context, f Fence) error {
	_, err := s.store.txn(ctx, "resigning", f.conditions(), []clientv3.Op{clientv3.OpDelete(f.key)}, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.led == f {
		s.led = Fence{}
	}
	return nil
}

// Owner is who leads, and the revision of its Fence; empty while nobody does.
func (s *Store) Owner(ctx context.Context) (capture.ID, int64, error) {
	res, err := s.get(ctx, "looking who leads", s.keys.owners(), clientv3.WithFirstCreate()...)
	if err != nil || len(res.Kvs) == 0 {
		return "", 0, err
	}
	return capture.ID(res.Kvs[0].Value), res.Kvs[0].CreateRevision, nil
}

// Candidates are those who stand for election, who leads first, and the others in the
// order in which they would follow.
func (s *Store) Candidates(ctx context.Context) ([]capture.ID, error) {
	res, err := s.get(ctx, "looking who stands for election", s.keys.owners(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	var out []capture.ID
	for _, kv := range res.Kvs {
		out = append(out, capture.ID(kv.Value))
	}
	return out, nil
}

// Captures are the members of the cluster whose sessions live, by id.
func (s *Store) Captures(ctx context.Context) ([]capture.Info, error) {
	res, err := s.get(ctx, "listing captures", s.keys.captures(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	var out []capture.Info
	for _, kv := range res.Kvs {
		if k := s.keys.parse(string(kv.Key)); k.kind != captureKey {
			continue
		}
		info, err := parseCapture(kv)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

func parseCapture(kv *mvccpb.KeyValue) (capture.Info, error) {
	var c captureInfo
	if err := json.Unmarshal(kv.Value, &c); err != nil || c.ID == "" {
		return capture.Info{}, corrupted(kv, err)
	}
	info := capture.Info{ID: capture.ID(c.ID), Address: c.Address, Version: c.Version, NoUpstream: c.NoUpstream}
	if c.Since != 0 {
		info.Since = time.Unix(c.Since, 0)
	}
	if c.Stopping {
		info.Liveness = capture.Stopping
	}
	if i := slices.Index(sightWords[:], c.Upstream); i > 0 { // a word of a later release is none
		info.Upstream = capture.Sight(i) //nolint:gosec // there are three
	}
	return info, nil
}
