package meta

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// ValueMax bounds a value. Etcd refuses requests beyond 1.5 MiB, and one request
// may write two values.
const ValueMax = 512 << 10

// Fence is an owner's leave to write: with it a write takes effect only while that
// owner is the owner (P1). The zero Fence asks for nothing.
type Fence struct {
	key      string
	revision int64
}

// Revision grows from owner to owner; 0 for the zero Fence.
func (f Fence) Revision() int64 { return f.revision }

func (f Fence) conditions() []clientv3.Cmp {
	if f.key == "" {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.revision)}
}

func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}

// unchanged: a key that was read at a revision, 0 where it was not there.
func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// txn is one request, within the time that one may take.
func (s *Store) txn(ctx context.Context, doing string, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	res, err := s.client.Txn(ctx).If(conditions...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return nil, s.failure(err, doing)
	}
	return res, nil
}

// set writes under a fence and conditions; wanted are the keys that they speak of,
// which are looked at again to say what was in the way. It returns the revision of
// the write.
func (s *Store) set(ctx context.Context, doing string, f Fence, conditions []clientv3.Cmp, ops []clientv3.Op) (int64, error) {
	otherwise := []clientv3.Op{}
	if f.key != "" {
		otherwise = append(otherwise, clientv3.OpGet(f.key, clientv3.WithKeysOnly()))
	}
	res, err := s.txn(ctx, doing, append(f.conditions(), conditions...), ops, otherwise)
	switch {
	case err != nil:
		return 0, err
	case res.Succeeded:
		return res.Header.Revision, nil
	case f.key != "":
		kvs := res.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != f.revision {
			return 0, cdcerr.NotOwner.New("%s: the owner of revision %d is not the owner any more", doing, f.revision)
		}
	}
	return 0, cdcerr.MetaConflict.New("%s: somebody else has written it", doing)
}

// get reads one key, or all that begin with it.
func (s *Store) get(ctx context.Context, doing, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	res, err := s.client.Get(ctx, key, opts...)
	if err != nil {
		return nil, s.failure(err, doing)
	}
	return res, nil
}

// failure gives an error of etcd its code. What the caller's own ctx ended, or its
// deadline, is one too: nobody knows whether the request was carried out.
func (s *Store) failure(err error, doing string) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return cdcerr.SessionLost.Wrap(err, "%s", doing)
	case errors.Is(err, context.Canceled):
		return err
	}
	return cdcerr.MetaUnreachable.Wrap(err, "%s (etcd %v)", doing, s.endpoint)
}

// corrupted is about a value that cannot be read.
func corrupted(kv *mvccpb.KeyValue, err error) error {
	const shown = 80
	value := kv.Value
	if len(value) > shown {
		value = value[:shown]
	}
	if err == nil {
		err = errors.New("something is missing in it")
	}
	return cdcerr.MetaCorrupted.Wrap(err, "key %s of revision %d holds %q", kv.Key, kv.ModRevision, value)
}
