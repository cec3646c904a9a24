package live

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Options are how a transaction goes about it.
type Options struct {
	Pessimistic bool // Lock takes locks as it is called
	AsyncCommit bool // committed as soon as it is prewritten, if the stores agree
	OnePhase    bool // … and at once where all keys are in one region

	TTL       time.Duration // of its locks without heartbeats; default 3 s
	LockWait  time.Duration // for pessimistic locks of others; default 1 s
	TxnSource uint64        // who writes: see TiDB's tidb_cdc_write_source
}

// write is what a transaction does to one key.
type write struct {
	op     kvrpcpb.Op
	value  []byte
	locked bool // a pessimistic lock is held
}

// Txn is a transaction. Its methods are for one goroutine at a time.
type Txn struct {
	client      *Client
	opts        Options
	startTS     tso.TS
	forUpdateTS tso.TS
	commitTS    tso.TS
	primary     []byte
	writes      map[string]*write
	prewritten  bool // some of it, perhaps
	decided     bool // its locks, or one phase, have committed it
}

// Begin starts a transaction that reads what is committed by now.
func (c *Client) Begin(ctx context.Context, o Options) (*Txn, error) {
	start, err := c.cluster.Timestamp(ctx)
	if err != nil {
		return nil, err
	}
	if o.TTL == 0 {
		o.TTL = 3 * time.Second
	}
	if o.LockWait == 0 {
		o.LockWait = time.Second
	}
	return &Txn{client: c, opts: o, startTS: start, writes: map[string]*write{}}, nil
}

// StartTS is the ts that the transaction reads at.
func (t *Txn) StartTS() tso.TS { return t.startTS }

// CommitTS is the ts that it was committed at, 0 if it was not (yet).
func (t *Txn) CommitTS() tso.TS { return t.commitTS }

// Get reads a key; nil where it does not exist.
func (t *Txn) Get(ctx context.Context, key []byte) ([]byte, error) {
	if w := t.writes[string(key)]; w != nil && w.op != kvrpcpb.Op_Lock {
		return w.value, nil // nil where it is deleted
	}
	return t.client.Get(ctx, t.startTS, key)
}

// Scan reads the committed keys of [start, end), without what the transaction
// itself has written.
func (t *Txn) Scan(ctx context.Context, start, end []byte, fn func(Pair) bool) error {
	return t.client.Scan(ctx, t.startTS, start, end, fn)
}

// Put writes a key, whether it exists or not.
func (t *Txn) Put(key, value []byte) { t.write(key, kvrpcpb.Op_Put, value) }

// Insert writes a key that must not exist: Prewrite says ExistsError if it does.
func (t *Txn) Insert(key, value []byte) { t.write(key, kvrpcpb.Op_Insert, value) }

// Delete takes a key away.
func (t *Txn) Delete(key []byte) { t.write(key, kvrpcpb.Op_Del, nil) }

func (t *Txn) write(key []byte, op kvrpcpb.Op, value []byte) {
	if value == nil && op != kvrpcpb.Op_Del {
		value = []byte{}
	}
	w := t.writes[string(key)]
	if w == nil {
		w = &write{}
		t.writes[string(key)] = w
	}
	if w.op == kvrpcpb.Op_Insert && op == kvrpcpb.Op_Put {
		op = kvrpcpb.Op_Insert
	}
	w.op, w.value = op, value
}

// Lock keeps others from writing keys until the transaction is over. A
// pessimistic one waits for the locks here, and returns the newest values in
// the order of keys, nil for what does not exist; an optimistic one finds
// conflicts in Prewrite.
func (t *Txn) Lock(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if !t.opts.Pessimistic {
		for _, k := range keys {
			if t.writes[string(k)] == nil {
				t.writes[string(k)] = &write{op: kvrpcpb.Op_Lock}
			}
		}
		return nil, nil
	}
	if t.primary == nil && len(keys) > 0 {
		t.primary = keys[0]
	}
	for {
		var err error
		if t.forUpdateTS, err = t.client.cluster.Timestamp(ctx); err != nil {
			return nil, err
		}
		values, err := t.lock(ctx, keys)
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			continue // newer data: read it
		}
		if err != nil {
			return nil, err
		}
		out := make([][]byte, len(keys))
		for i, k := range keys {
			out[i] = values[string(k)]
		}
		return out, nil
	}
}

func (t *Txn) lock(ctx context.Context, keys [][]byte) (map[string][]byte, error) {
	values := map[string][]byte{}
	s := settling{client: t.client}
	err := t.client.send(ctx, keys, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		req := &kvrpcpb.PessimisticLockRequest{
			Context: head, PrimaryLock: t.primary, StartVersion: uint64(t.startTS), ForUpdateTs: uint64(t.forUpdateTS),
			LockTtl: t.ttl(), WaitTimeout: max(t.opts.LockWait.Milliseconds(), 1), ReturnValues: true,
		}
		for _, k := range keys {
			req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: k})
		}
		for {
			resp, err := kv.KvPessimisticLock(ctx, req)
			if err != nil || resp.RegionError != nil {
				return resp.GetRegionError(), err
			}
			if len(resp.Errors) == 0 {
				for i, k := range keys {
					if !resp.NotFounds[i] {
						values[string(k)] = append([]byte{}, resp.Values[i]...)
					}
					t.hold(k)
				}
				return nil, nil
			}
			l := resp.Errors[0].GetLocked()
			if l == nil {
				return nil, keyError(resp.Errors[0])
			}
			if err := s.settle(ctx, l); err != nil {
				return nil, err
			}
		}
	})
	return values, err
}

// hold notes a pessimistic lock.
func (t *Txn) hold(key []byte) {
	w := t.writes[string(key)]
	if w == nil {
		w = &write{op: kvrpcpb.Op_Lock}
		t.writes[string(key)] = w
	}
	w.locked = true
}

// ttl is the time to live of locks, counted by the stores from the start-ts.
func (t *Txn) ttl() uint64 {
	age := max(t.client.cluster.TS().Sub(t.startTS), 0)
	return uint64((age + t.opts.TTL).Milliseconds())
}

// keys are those that the transaction writes or locks, in order.
func (t *Txn) keys() [][]byte {
	var out [][]byte
	for _, k := range slices.Sorted(maps.Keys(t.writes)) {
		out = append(out, []byte(k))
	}
	return out
}

// Heartbeat gives the transaction as much time again as Options.TTL says, from
// now on. It has to be called before the old time is up.
func (t *Txn) Heartbeat(ctx context.Context) error {
	return t.client.one(ctx, t.primary, func(kv tikvpb.TikvServer, head *kvrpcpb.Context) (*errorpb.Error, error) {
		resp, err := kv.KvTxnHeartBeat(ctx, &kvrpcpb.TxnHeartBeatRequest{
			Context: head, PrimaryLock: t.primary, StartVersion: uint64(t.startTS), AdviseLockTtl: t.ttl(),
		})
		if err != nil || resp.RegionError != nil {
			return resp.GetRegionError(), err
		}
		return nil, keyError(resp.Error)
	})
}

// Rollback ends the transaction without a trace in the data.
func (t *Txn) Rollback(ctx context.Context) error {
	if t.decided {
		return cdcerr.InvalidArgument.New("transaction of start-ts %d: committed, so it cannot be rolled back", t.startTS)
	}
	if !t.prewritten {
		return t.unlock(ctx)
	}
	return t.client.send(ctx, t.keys(), func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		resp, err := kv.KvBatchRollback(ctx, &kvrpcpb.BatchRollbackRequest{Context: head, StartVersion: uint64(t.startTS), Keys: keys})
		if err != nil || resp.RegionError != nil {
			return resp.GetRegionError(), err
		}
		return nil, keyError(resp.Error)
	})
}

// unlock gives the pessimistic locks back.
func (t *Txn) unlock(ctx context.Context) error {
	held := slices.DeleteFunc(t.keys(), func(k []byte) bool { return !t.writes[string(k)].locked })
	return t.client.send(ctx, held, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		resp, err := kv.KVPessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
			Context: head, StartVersion: uint64(t.startTS), ForUpdateTs: uint64(tso.Max), Keys: keys,
		})
		return resp.GetRegionError(), err
	})
}

// isPrimary tells whether k is the transaction's primary key.
func (t *Txn) isPrimary(k []byte) bool { return bytes.Equal(k, t.primary) }
