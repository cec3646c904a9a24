package live

import (
	"context"
	"errors"
	"slices"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/sluice-cdc/sluice/tso"
)

// Commit writes everything, and returns the commit-ts. Of an error that is not
// a cancelled ctx nothing remains: the transaction is rolled back. A
// transaction without writes has nothing to commit: its ts is 0.
func (t *Txn) Commit(ctx context.Context) (tso.TS, error) {
	err := t.Prewrite(ctx)
	if err == nil {
		_, err = t.CommitPrimary(ctx)
	}
	if err != nil {
		if ctx.Err() == nil && !t.decided {
			err = errors.Join(err, t.Rollback(ctx))
		}
		return 0, err
	}
	return t.commitTS, t.CommitSecondaries(ctx)
}

// Prewrite is the first phase: every key is locked, with its value. An async
// commit or one phase has committed the transaction when Prewrite returns; else
// it is still open, and its locks are in everybody's way.
func (t *Txn) Prewrite(ctx context.Context) error {
	keys := t.keys()
	if len(keys) == 0 {
		return nil
	}
	if t.primary == nil || t.writes[string(t.primary)] == nil {
		t.primary = keys[0]
	}
	// Whoever begins from now on is to see it, whatever ts the stores choose.
	asked, err := t.client.cluster.Timestamp(ctx)
	if err != nil {
		return err
	}
	t.prewritten = true
	p := &prewriting{txn: t, keys: keys, async: t.opts.AsyncCommit, least: asked.Next()}
	p.settling.client = t.client
	if err := t.client.send(ctx, keys, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		return p.do(ctx, kv, head, keys)
	}); err != nil {
		return err
	}
	switch {
	case p.onePhase != 0:
		t.commitTS, t.decided = p.onePhase, true
		t.prewritten = false
		clear(t.writes)
	case p.async:
		t.commitTS, t.decided = p.chosen, true
	}
	return nil
}

// prewriting is a first phase under way, over as many requests as it takes.
type prewriting struct {
	txn      *Txn
	keys     [][]byte
	settling settling
	async    bool   // as long as every store agrees
	least    tso.TS // commit-ts
	chosen   tso.TS // by the stores, for an async commit
	onePhase tso.TS // commit-ts, where it is done
}

func (p *prewriting) do(ctx context.Context, kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
	req := p.request(head, keys)
	for {
		resp, err := kv.KvPrewrite(ctx, req)
		if err != nil || resp.RegionError != nil {
			return resp.GetRegionError(), err
		}
		if len(resp.Errors) == 0 {
			p.async = p.async && (resp.MinCommitTs != 0 || resp.OnePcCommitTs != 0)
			p.chosen = max(p.chosen, tso.TS(resp.MinCommitTs))
			p.onePhase = tso.TS(resp.OnePcCommitTs)
			return nil, nil
		}
		for _, e := range resp.Errors {
			if e.Locked == nil {
				return nil, keyError(e)
			}
			if err := p.settling.settle(ctx, e.Locked); err != nil {
				return nil, err
			}
		}
	}
}

func (p *prewriting) request(head *kvrpcpb.Context, keys [][]byte) *kvrpcpb.PrewriteRequest {
	t := p.txn
	head.TxnSource = t.opts.TxnSource
	req := &kvrpcpb.PrewriteRequest{
		Context: head, PrimaryLock: t.primary, StartVersion: uint64(t.startTS), ForUpdateTs: uint64(t.forUpdateTS),
		LockTtl: t.ttl(), TxnSize: uint64(len(keys)), MinCommitTs: uint64(p.least),
		UseAsyncCommit: p.async, TryOnePc: t.opts.OnePhase && len(keys) == len(p.keys),
	}
	for _, k := range keys {
		w := t.writes[string(k)]
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: w.op, Key: k, Value: w.value})
		if t.forUpdateTS != 0 {
			action := kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK
			if w.locked {
				action = kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
			}
			req.PessimisticActions = append(req.PessimisticActions, action)
		}
	}
	if p.async && slices.ContainsFunc(keys, t.isPrimary) {
		req.Secondaries = slices.DeleteFunc(slices.Clone(p.keys), t.isPrimary)
	}
	return req
}

// CommitPrimary decides the transaction: once its primary is committed, it is.
// What is prewritten beside follows in CommitSecondaries, or when somebody
// comes across it.
func (t *Txn) CommitPrimary(ctx context.Context) (tso.TS, error) {
	if len(t.writes) == 0 {
		return t.commitTS, nil
	}
	for {
		if !t.decided {
			ts, err := t.client.cluster.Timestamp(ctx)
			if err != nil {
				return 0, err
			}
			t.commitTS = ts
		}
		tooEarly, err := t.commit(ctx, [][]byte{t.primary})
		if tooEarly {
			continue // a reader has pushed it meanwhile
		}
		if err != nil {
			t.commitTS = 0
			return 0, err
		}
		t.decided = true
		return t.commitTS, nil
	}
}

// CommitSecondaries commits the rest.
func (t *Txn) CommitSecondaries(ctx context.Context) error {
	_, err := t.commit(ctx, slices.DeleteFunc(t.keys(), t.isPrimary))
	return err
}

func (t *Txn) commit(ctx context.Context, keys [][]byte) (tooEarly bool, err error) {
	err = t.client.send(ctx, keys, func(kv tikvpb.TikvServer, head *kvrpcpb.Context, keys [][]byte) (*errorpb.Error, error) {
		resp, err := kv.KvCommit(ctx, &kvrpcpb.CommitRequest{
			Context: head, StartVersion: uint64(t.startTS), CommitVersion: uint64(t.commitTS), Keys: keys, PrimaryKey: t.primary,
		})
		if err != nil || resp.RegionError != nil {
			return resp.GetRegionError(), err
		}
		if resp.Error.GetCommitTsExpired() != nil {
			tooEarly = true
			return nil, nil
		}
		return nil, keyError(resp.Error)
	})
	return tooEarly, err
}
