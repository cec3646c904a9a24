package meta

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// Drain notes that an operator wants a capture empty, whoever leads. The note ends with
// the capture's session, as its own key does, or by Undrain.
func (s *Store) Drain(ctx context.Context, f Fence, id capture.ID) error {
	doing := "draining capture " + string(id)
	own := s.keys.capture(id)
	res, err := s.get(ctx, doing, own)
	if err != nil {
		return err
	}
	if len(res.Kvs) == 0 {
		return cdcerr.CaptureNotFound.New("%s", id)
	}
	_, err = s.set(ctx, doing, f, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(own), "=", res.Kvs[0].CreateRevision)},
		[]clientv3.Op{clientv3.OpPut(s.keys.drain(id), "", clientv3.WithLease(clientv3.LeaseID(res.Kvs[0].Lease)))})
	if cdcerr.SessionLost.Is(err) { // the capture's, since it was looked for
		return cdcerr.CaptureNotFound.New("%s", id)
	}
	return err
}

// Undrain takes the note back. It is nothing where there is none.
func (s *Store) Undrain(ctx context.Context, f Fence, id capture.ID) error {
	_, err := s.set(ctx, "ending the drain of capture "+string(id), f, nil, []clientv3.Op{clientv3.OpDelete(s.keys.drain(id))})
	return err
}

// Drained are the captures that are to be empty, by id.
func (s *Store) Drained(ctx context.Context) (out []capture.ID, err error) {
	res, err := s.get(ctx, "looking who is drained", s.keys.drains(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range res.Kvs {
		if k := s.keys.parse(string(kv.Key)); k.kind == drainKey {
			out = append(out, k.capture)
		}
	}
	return out, nil
}
