package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"golang.org/x/sync/errgroup"
)

// kvRegion sends write requests for the region of one key.
type kvRegion struct {
	t    *testing.T
	ctx  context.Context
	kv   tikvpb.TikvClient
	head *kvrpcpb.Context
}

func writesTo(t *testing.T, cl *client, key string) *kvRegion {
	r := cl.regionOf(t, key)
	return &kvRegion{t: t, ctx: within(t, guard), kv: cl.kv(r), head: kvContext(r)}
}

func bytesOf(keys string) [][]byte {
	var out [][]byte
	for k := range strings.FieldsSeq(keys) {
		out = append(out, []byte(k))
	}
	return out
}

// mutations reads "t1=a del:t2 lock:t3 insert:t4=b".
func mutations(text string) []*kvrpcpb.Mutation {
	ops := map[string]kvrpcpb.Op{
		"del": kvrpcpb.Op_Del, "lock": kvrpcpb.Op_Lock, "insert": kvrpcpb.Op_Insert, "check": kvrpcpb.Op_CheckNotExists,
	}
	var out []*kvrpcpb.Mutation
	for w := range strings.FieldsSeq(text) {
		op, rest, ok := strings.Cut(w, ":")
		if !ok {
			op, rest = "", w
		}
		key, value, _ := strings.Cut(rest, "=")
		out = append(out, &kvrpcpb.Mutation{Op: ops[op], Key: []byte(key), Value: []byte(value)})
	}
	return out
}

// regionErr and keyErr are what a client is told, in one word or two.
func regionErr(e *errorpb.Error) string { return e.GetMessage() }

func keyErr(e *kvrpcpb.KeyError) string {
	switch {
	case e == nil:
		return "ok"
	case e.Locked != nil:
		return fmt.Sprintf("locked %s by %d ttl %d", e.Locked.Key, e.Locked.LockVersion, e.Locked.LockTtl)
	case e.Conflict != nil:
		return fmt.Sprintf("conflict %s with %d %v", e.Conflict.Key, e.Conflict.ConflictCommitTs, e.Conflict.Reason)
	case e.AlreadyExist != nil:
		return fmt.Sprintf("%s exists", e.AlreadyExist.Key)
	case e.Deadlock != nil:
		return fmt.Sprintf("deadlock on %s with %d, chain of %d", e.Deadlock.LockKey, e.Deadlock.LockTs, len(e.Deadlock.WaitChain))
	case e.CommitTsExpired != nil:
		return fmt.Sprintf("commit-ts below %d", e.CommitTsExpired.MinCommitTs)
	case e.TxnNotFound != nil:
		return fmt.Sprintf("no transaction %d", e.TxnNotFound.StartTs)
	case e.TxnLockNotFound != nil:
		return fmt.Sprintf("no lock on %s", e.TxnLockNotFound.Key)
	case e.AssertionFailed != nil:
		return fmt.Sprintf("assertion on %s", e.AssertionFailed.Key)
	case e.PrimaryMismatch != nil:
		return fmt.Sprintf("the primary is %s", e.PrimaryMismatch.LockInfo.PrimaryLock)
	case e.Retryable != "":
		return "retry: " + e.Retryable
	}
	return "abort: " + e.Abort
}

func (r *kvRegion) prewrite(start uint64, text string, edit func(*kvrpcpb.PrewriteRequest)) string {
	r.t.Helper()
	req := &kvrpcpb.PrewriteRequest{Context: r.head, Mutations: mutations(text), StartVersion: start, LockTtl: 3000}
	req.PrimaryLock = req.Mutations[0].Key
	if edit != nil {
		edit(req)
	}
	resp, err := r.kv.KvPrewrite(r.ctx, req)
	must(r.t, err)
	if resp.RegionError != nil {
		return regionErr(resp.RegionError)
	}
	var out []string
	for _, e := range resp.Errors {
		out = append(out, keyErr(e))
	}
	if len(out) == 0 {
		out = append(out, "ok")
	}
	if resp.MinCommitTs != 0 {
		out = append(out, "async")
	}
	if resp.OnePcCommitTs != 0 {
		out = append(out, "one phase")
	}
	return strings.Join(out, ", ")
}

func (r *kvRegion) commit(start, commit uint64, keys string) string {
	r.t.Helper()
	resp, err := r.kv.KvCommit(r.ctx, &kvrpcpb.CommitRequest{Context: r.head, StartVersion: start, CommitVersion: commit, Keys: bytesOf(keys)})
	must(r.t, err)
	if resp.RegionError != nil {
		return regionErr(resp.RegionError)
	}
	if (resp.Error == nil) != (resp.CommitVersion == commit) {
		r.t.Errorf("commit-ts %d", resp.CommitVersion)
	}
	return keyErr(resp.Error)
}

func (r *kvRegion) locks(upTo uint64, limit uint32) string {
	r.t.Helper()
	resp, err := r.kv.KvScanLock(r.ctx, &kvrpcpb.ScanLockRequest{Context: r.head, MaxVersion: upTo, Limit: limit})
	must(r.t, err)
	var out []string
	for _, l := range resp.Locks {
		s := fmt.Sprintf("%s %v by %d of %s", l.Key, l.LockType, l.LockVersion, l.PrimaryLock)
		if l.UseAsyncCommit {
			s += fmt.Sprintf(" async %s", l.Secondaries)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func (r *kvRegion) lock(start, forUpdate uint64, keys string, wait int64) string {
	r.t.Helper()
	req := &kvrpcpb.PessimisticLockRequest{
		Context: r.head, StartVersion: start, ForUpdateTs: forUpdate, LockTtl: 3000, WaitTimeout: wait, ReturnValues: true,
	}
	for _, k := range bytesOf(keys) {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: k})
	}
	req.PrimaryLock = req.Mutations[0].Key
	resp, err := r.kv.KvPessimisticLock(r.ctx, req)
	if err != nil {
		return err.Error()
	}
	if len(resp.Errors) > 0 {
		return keyErr(resp.Errors[0])
	}
	var out []string
	for i, v := range resp.Values {
		if resp.NotFounds[i] {
			v = []byte("none")
		}
		out = append(out, string(v))
	}
	return strings.Join(out, " ")
}

// unlock gives pessimistic locks back: those of keys, or all.
func (r *kvRegion) unlock(start uint64, keys string) {
	r.t.Helper()
	resp, err := r.kv.KVPessimisticRollback(r.ctx, &kvrpcpb.PessimisticRollbackRequest{
		Context: r.head, StartVersion: start, ForUpdateTs: start, Keys: bytesOf(keys),
	})
	must(r.t, err)
	if resp.RegionError != nil || len(resp.Errors) > 0 {
		r.t.Error(resp)
	}
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTransactionsOverTheWire(t *testing.T) {
	c, cl := calm(t)
	r := writesTo(t, cl, "t1")
	expect(t, r.prewrite(10, "t1=a t2=b", nil), "ok")
	expect(t, r.prewrite(11, "t3=a t2=b t1=c", nil), "locked t2 by 10 ttl 3000, locked t1 by 10 ttl 3000")
	expect(t, r.locks(99, 0), "t1 Put by 10 of t1, t2 Put by 10 of t1")
	expect(t, r.locks(99, 1), "t1 Put by 10 of t1")
	expect(t, r.locks(9, 0), "")
	expect(t, r.commit(10, 10, "t1"), "abort: a commit-ts that is not above the start-ts")
	expect(t, r.commit(10, 20, "t1 t2"), "ok")
	expect(t, r.commit(12, 20, "t1"), "no lock on t1")
	expect(t, r.prewrite(15, "t3=a t1=c", nil), "conflict t1 with 20 Optimistic")
	expect(t, r.prewrite(25, "t3=a insert:t1=c", nil), "t1 exists")
	expect(t, r.prewrite(25, "t3=a", func(q *kvrpcpb.PrewriteRequest) {
		q.AssertionLevel, q.Mutations[0].Assertion = kvrpcpb.AssertionLevel_Strict, kvrpcpb.Assertion_Exist
	}), "assertion on t3")
	expect(t, r.prewrite(25, "t3=a", func(q *kvrpcpb.PrewriteRequest) { q.Mutations[0].Op = kvrpcpb.Op_Rollback }),
		"abort: a prewrite cannot do Rollback")
	expect(t, r.prewrite(25, "t3=a t4=b", func(q *kvrpcpb.PrewriteRequest) {
		q.UseAsyncCommit, q.Secondaries = true, bytesOf("t4")
	}), "ok, async")
	expect(t, r.locks(99, 0), "t3 Put by 25 of t3 async [t4], t4 Put by 25 of t3 async []")
	expect(t, r.commit(25, 26, "t3"), fmt.Sprintf("commit-ts below %d", minCommit(t, r)))

	// What the store chooses lies above every promise.
	before := c.TS()
	expect(t, r.prewrite(30, "t5=a del:t6", func(q *kvrpcpb.PrewriteRequest) { q.TryOnePc = true }), "ok, one phase")
	var at uint64
	if _, err := fmt.Sscanf(cl.get(t, cl.regionOf(t, "t5"), "t5", uint64(1)<<63), "a at %d", &at); err != nil || at <= uint64(before) {
		t.Errorf("%v: committed at %d, promised %d", err, at, before)
	}

	// Another region, another epoch, another store: nothing is written.
	expect(t, r.prewrite(40, "a=1", nil), "key not in region")
	expect(t, r.commit(40, 41, "u1"), "key not in region")
	c.Split([]byte("t2"))
	expect(t, r.prewrite(40, "t1=1", nil), "epoch not match")
	expect(t, r.commit(40, 41, "t1"), "epoch not match")
	left := writesTo(t, cl, "t1")
	expect(t, left.prewrite(40, "t1=1 t3=1", nil), "key not in region")
	expect(t, left.prewrite(40, "t1=1", nil), "ok")
	must(t, c.Lead(left.head.RegionId, left.head.Peer.StoreId%3+1))
	expect(t, left.commit(40, 41, "t1"), "not leader")
	left.head.Peer = &metapb.Peer{StoreId: 77}
	expect(t, left.commit(40, 41, "t1"), "store id does not match")
}

// minCommit is the least commit-ts of the region's first lock.
func minCommit(t *testing.T, r *kvRegion) uint64 {
	resp, err := r.kv.KvScanLock(r.ctx, &kvrpcpb.ScanLockRequest{Context: r.head, MaxVersion: 99, Limit: 1})
	must(t, err)
	return resp.Locks[0].MinCommitTs
}

// fate asks for a transaction's state at its primary.
func (r *kvRegion) fate(key string, start uint64, edit func(*kvrpcpb.CheckTxnStatusRequest)) string {
	r.t.Helper()
	req := &kvrpcpb.CheckTxnStatusRequest{Context: r.head, PrimaryKey: []byte(key), LockTs: start, VerifyIsPrimary: true}
	if edit != nil {
		edit(req)
	}
	resp, err := r.kv.KvCheckTxnStatus(r.ctx, req)
	must(r.t, err)
	return fmt.Sprintf("%s ttl %d commit %d %v", keyErr(resp.Error), resp.LockTtl, resp.CommitVersion, resp.Action)
}

// late is a time at which everything has expired.
func late(q *kvrpcpb.CheckTxnStatusRequest) { q.CurrentTs = 9000 << 18 }

func (r *kvRegion) resolve(edit func(*kvrpcpb.ResolveLockRequest)) string {
	r.t.Helper()
	req := &kvrpcpb.ResolveLockRequest{Context: r.head}
	edit(req)
	resp, err := r.kv.KvResolveLock(r.ctx, req)
	must(r.t, err)
	return keyErr(resp.Error)
}

func (r *kvRegion) heartbeat(start uint64, key string) string {
	r.t.Helper()
	resp, err := r.kv.KvTxnHeartBeat(r.ctx, &kvrpcpb.TxnHeartBeatRequest{
		Context: r.head, PrimaryLock: []byte(key), StartVersion: start, AdviseLockTtl: 9000,
	})
	must(r.t, err)
	return fmt.Sprintf("%s ttl %d", keyErr(resp.Error), resp.LockTtl)
}

func (r *kvRegion) rollback(start uint64, keys string) string {
	r.t.Helper()
	resp, err := r.kv.KvBatchRollback(r.ctx, &kvrpcpb.BatchRollbackRequest{Context: r.head, StartVersion: start, Keys: bytesOf(keys)})
	must(r.t, err)
	return keyErr(resp.Error)
}

func TestLiveAndResolvedOverTheWire(t *testing.T) {
	_, cl := calm(t)
	r := writesTo(t, cl, "t1")
	expect(t, r.prewrite(10, "t1=a t2=b", func(q *kvrpcpb.PrewriteRequest) { q.MinCommitTs = 11 }), "ok")
	expect(t, r.fate("t1", 10, nil), "ok ttl 3000 commit 0 NoAction")
	expect(t, r.fate("t2", 10, nil), "the primary is t1 ttl 0 commit 0 NoAction")
	expect(t, r.fate("t1", 10, func(q *kvrpcpb.CheckTxnStatusRequest) { q.CallerStartTs, q.CurrentTs = 20, 30 }), "ok ttl 3000 commit 0 MinCommitTSPushed")
	expect(t, r.commit(10, 29, "t1"), "commit-ts below 30")
	expect(t, r.heartbeat(10, "t1"), "ok ttl 9000")
	expect(t, r.fate("t1", 10, late), "ok ttl 9000 commit 0 NoAction")
	expect(t, r.commit(10, 30, "t1"), "ok")
	expect(t, r.fate("t1", 10, late), "ok ttl 0 commit 30 NoAction")
	expect(t, r.heartbeat(10, "t1"), "no transaction 10 ttl 0")

	// The secondary is left: it is resolved by name, lightly.
	expect(t, r.resolve(func(q *kvrpcpb.ResolveLockRequest) { q.StartVersion, q.CommitVersion, q.Keys = 10, 30, bytesOf("t2") }), "ok")
	expect(t, cl.get(t, cl.regionOf(t, "t2"), "t2", 99), "b at 30")
	expect(t, r.resolve(func(q *kvrpcpb.ResolveLockRequest) { q.StartVersion, q.CommitVersion, q.Keys = 10, 30, bytesOf("t9") }), "no lock on t9")
	expect(t, r.resolve(func(q *kvrpcpb.ResolveLockRequest) { q.StartVersion, q.Keys = 10, bytesOf("t2") }),
		"abort: key 7432: the transaction is committed at 30")

	// Several transactions, wherever they have locks.
	for _, start := range []uint64{40, 41, 42} {
		expect(t, r.prewrite(start, fmt.Sprintf("t1%d=a t2%d=b", start, start), nil), "ok")
	}
	expect(t, r.resolve(func(q *kvrpcpb.ResolveLockRequest) { q.TxnInfos = []*kvrpcpb.TxnInfo{{Txn: 40, Status: 50}, {Txn: 41}} }), "ok")
	expect(t, r.locks(99, 0), "t142 Put by 42 of t142, t242 Put by 42 of t142")
	expect(t, r.resolve(func(q *kvrpcpb.ResolveLockRequest) { q.StartVersion, q.CommitVersion = 42, 51 }), "ok")
	expect(t, r.locks(99, 0), "")
}

func TestDeadOnesOverTheWire(t *testing.T) {
	_, cl := calm(t)
	r := writesTo(t, cl, "t1")
	expect(t, r.prewrite(10, "t1=a", nil), "ok")
	expect(t, r.commit(10, 30, "t1"), "ok")
	expect(t, r.prewrite(60, "t1=z", nil), "ok")
	expect(t, r.fate("t1", 60, late), "ok ttl 0 commit 0 TTLExpireRollback")
	expect(t, r.fate("t1", 60, nil), "ok ttl 0 commit 0 NoAction")
	expect(t, r.fate("t1", 61, nil), "no transaction 61 ttl 0 commit 0 NoAction")
	expect(t, r.fate("t1", 61, func(q *kvrpcpb.CheckTxnStatusRequest) { q.RollbackIfNotExist = true }), "ok ttl 0 commit 0 LockNotExistRollback")
	expect(t, r.prewrite(61, "t1=z", nil), "conflict t1 with 0 SelfRolledBack")

	cleanup := func(start uint64, key string, now uint64) string {
		t.Helper()
		resp, err := r.kv.KvCleanup(r.ctx, &kvrpcpb.CleanupRequest{Context: r.head, Key: []byte(key), StartVersion: start, CurrentTs: now})
		must(t, err)
		return fmt.Sprintf("%s %d", keyErr(resp.Error), resp.CommitVersion)
	}
	expect(t, cleanup(10, "t1", 0), "ok 30")
	expect(t, r.prewrite(70, "t1=y", nil), "ok")
	expect(t, cleanup(70, "t1", 1<<18), "locked t1 by 70 ttl 3000 0")
	expect(t, cleanup(70, "t1", 9000<<18), "ok 0")

	// An async commit is decided by its secondaries.
	expect(t, r.prewrite(80, "t1=x t2=x", func(q *kvrpcpb.PrewriteRequest) { q.UseAsyncCommit, q.Secondaries = true, bytesOf("t2 t3") }), "ok, async")
	expect(t, r.fate("t1", 80, late), "ok ttl 3000 commit 0 NoAction")
	secondaries := func(keys string) string {
		t.Helper()
		resp, err := r.kv.KvCheckSecondaryLocks(r.ctx, &kvrpcpb.CheckSecondaryLocksRequest{Context: r.head, StartVersion: 80, Keys: bytesOf(keys)})
		must(t, err)
		return fmt.Sprintf("%d locks, commit %d", len(resp.Locks), resp.CommitTs)
	}
	expect(t, secondaries("t2"), "1 locks, commit 0")
	expect(t, secondaries("t2 t3"), "0 locks, commit 0")
	expect(t, r.rollback(80, "t1 t2 t3"), "ok")
	expect(t, r.rollback(10, "t5 t1"), "abort: key 7431: the transaction is committed at 30")
	expect(t, r.locks(99, 0), "")
}

func TestPessimisticLocksOverTheWire(t *testing.T) {
	_, cl := calm(t)
	r := writesTo(t, cl, "t1")
	expect(t, r.prewrite(5, "t1=a", nil), "ok")
	expect(t, r.commit(5, 6, "t1"), "ok")
	expect(t, r.lock(10, 10, "t1 t2", -1), "a none")
	expect(t, r.lock(11, 11, "t1", -1), "locked t1 by 10 ttl 3000")
	start := time.Now()
	expect(t, r.lock(11, 11, "t1", 30), "locked t1 by 10 ttl 3000")
	if waited := time.Since(start); waited < 30*time.Millisecond {
		t.Errorf("waited %v", waited)
	}

	// Whoever waits is woken: by a commit to a conflict, by an unlock to the lock.
	expect(t, r.prewrite(10, "t1=b", func(q *kvrpcpb.PrewriteRequest) {
		q.ForUpdateTs, q.PessimisticActions = 10, []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK}
	}), "ok")
	var waiters errgroup.Group
	got := make([]string, 2)
	for i, key := range []string{"t1", "t2"} {
		waiters.Go(func() error {
			got[i] = r.lock(12, 12, key, 10000)
			return nil
		})
	}
	expect(t, r.commit(10, 20, "t1"), "ok")
	r.unlock(10, "")
	must(t, waiters.Wait())
	expect(t, strings.Join(got, "; "), "conflict t1 with 20 PessimisticRetry; none")
	expect(t, r.locks(99, 0), "t2 PessimisticLock by 12 of t2")
	expect(t, r.lock(12, 20, "t1", -1), "b")

	// Two that wait for each other: one of them, whoever came second, is told.
	expect(t, r.lock(30, 30, "t3", -1), "none")
	expect(t, r.lock(31, 31, "t4", -1), "none")
	answers := make(chan string, 2)
	for _, w := range []struct {
		start uint64
		key   string
	}{{30, "t4"}, {31, "t3"}} {
		waiters.Go(func() error {
			answers <- fmt.Sprintf("%d: %s", w.start, r.lock(w.start, w.start, w.key, 10000))
			return nil
		})
	}
	told, other := <-answers, "30: none"
	switch told {
	case "30: deadlock on t4 with 31, chain of 1":
		other = "31: none"
		r.unlock(30, "t3")
	case "31: deadlock on t3 with 30, chain of 1":
		r.unlock(31, "t4")
	default:
		t.Fatal(told)
	}
	must(t, waiters.Wait())
	expect(t, <-answers, other)

	// A client that goes away waits no longer.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	gone := *r
	gone.ctx = ctx
	if s := gone.lock(40, 40, "t3", 60000); !strings.Contains(s, "DeadlineExceeded") {
		t.Error(s)
	}
}

// What the stream shows of requests over the wire, and how far resolved-ts goes
// meanwhile.
func TestStreamOfWireTransactions(t *testing.T) {
	_, cl := calm(t)
	r := writesTo(t, cl, "t1")
	at := cl.regionOf(t, "t1")
	f := openFeed(t, cl, at.Leader.StoreId, multiplexed)
	f.send(cl.request(at, 1, 1))
	f.want("1: INITIALIZED")
	long := strings.Repeat("x", 300)
	expect(t, r.prewrite(10, "t1=a t2="+long, func(q *kvrpcpb.PrewriteRequest) { q.MinCommitTs = 11 }), "ok")
	f.want("1: PREWRITE PUT t1 value=a 10", "1: PREWRITE PUT t2 value=300 bytes 10")
	_, err := r.kv.KvTxnHeartBeat(r.ctx, &kvrpcpb.TxnHeartBeatRequest{Context: r.head, PrimaryLock: []byte("t1"), StartVersion: 10, AdviseLockTtl: 9000})
	must(t, err)
	f.want("1: PREWRITE PUT t1 value=a 10")
	expect(t, r.lock(20, 20, "t3", -1), "none")
	expect(t, r.commit(10, 30, "t1 t2"), "ok")
	f.want("1: COMMIT PUT t1 value=a 10-30", "1: COMMIT PUT t2 10-30")
	expect(t, r.prewrite(40, "t5=b lock:t6", func(q *kvrpcpb.PrewriteRequest) {
		q.TryOnePc, q.Context = true, &kvrpcpb.Context{RegionId: r.head.RegionId, RegionEpoch: r.head.RegionEpoch, Peer: r.head.Peer, TxnSource: 1}
	}), "ok, one phase")
	ev := f.next()
	if !strings.HasPrefix(ev, "1: COMMITTED PUT t5 value=b 40-") || !strings.HasSuffix(ev, " source=1") {
		t.Errorf("one phase shows %s", ev)
	}
}
