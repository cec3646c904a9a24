package meta

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Reset removes every key of this cluster, and says how many there were. It is
// refused while captures are alive: they would write on, under keys that nobody
// knows of. The Store is of no use afterwards.
func (s *Store) Reset(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	nobody := clientv3.Compare(clientv3.CreateRevision(s.keys.captures()).WithPrefix(), "=", 0)
	answer, err := s.client.Txn(ctx).If(nobody).
		Then(clientv3.OpDelete(s.keys.root, clientv3.WithPrefix())).
		Else(clientv3.OpGet(s.keys.captures(), clientv3.WithPrefix(), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return 0, s.failure(err, "removing every key")
	}
	if answer.Succeeded {
		return answer.Responses[0].GetResponseDeleteRange().Deleted, nil
	}
	var alive []string
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		alive = append(alive, strings.TrimPrefix(string(kv.Key), s.keys.captures()))
	}
	return 0, cdcerr.InvalidArgument.New("captures are alive, stop every server first: %s", strings.Join(alive, ", "))
}
