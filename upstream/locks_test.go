package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/lock"
)

// The puppet's PD counts from this millisecond, one a timestamp.
const puppetNow = 1_700_000_000_000

func longAgo(ms int64) uint64 { return uint64(tso.New(puppetNow-ms, 0)) }

// lockKeeper answers for the locks of both stores, and writes down what it is asked.
type lockKeeper struct {
	p        *puppet
	locks    []*kvrpcpb.LockInfo
	status   func(*kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse
	second   func(*kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse
	keyErr   *kvrpcpb.KeyError                // to what ends locks
	stumble  map[string]*errorpb.Error        // by kind of request: its first answer
	asked    []string                         // without questions that stumbled
	requests []*kvrpcpb.CheckTxnStatusRequest // as they came
}

func keepLocks(p *puppet, locks ...*kvrpcpb.LockInfo) *lockKeeper {
	k := &lockKeeper{p: p, locks: locks, stumble: map[string]*errorpb.Error{}}
	for _, s := range p.kv {
		s.locks = k.answer
	}
	return k
}

// region is the region of a request, nil when its epoch is not the present one.
func (k *lockKeeper) region(in *kvrpcpb.Context) *span.Span {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	for _, r := range k.p.regions {
		if r.Region.Id == in.RegionId && r.Region.RegionEpoch.Version == in.RegionEpoch.Version {
			return &span.Span{Start: span.Key(r.Region.StartKey), End: span.Key(r.Region.EndKey)}
		}
	}
	return nil
}

// refuse is the region error of a request, if it meets one.
func (k *lockKeeper) refuse(kind string, in *kvrpcpb.Context, keys ...[]byte) *errorpb.Error {
	if e := k.stumble[kind]; e != nil {
		delete(k.stumble, kind)
		return e
	}
	r := k.region(in)
	if r == nil {
		return &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}
	}
	for _, key := range keys {
		if !r.Contains(span.EncodeKey(key)) {
			return &errorpb.Error{KeyNotInRegion: &errorpb.KeyNotInRegion{Key: key}}
		}
	}
	return nil
}

func (k *lockKeeper) note(format string, args ...any) {
	k.asked = append(k.asked, fmt.Sprintf(format, args...))
}

func joined(keys [][]byte) string {
	var s []string
	for _, key := range keys {
		s = append(s, string(key))
	}
	return strings.Join(s, ",")
}

func (k *lockKeeper) answer(req any) any {
	k.p.locking.Lock()
	defer k.p.locking.Unlock()
	switch q := req.(type) {
	case *kvrpcpb.ScanLockRequest:
		if e := k.refuse("scan", q.Context); e != nil {
			return &kvrpcpb.ScanLockResponse{RegionError: e}
		}
		return k.scan(q)
	case *kvrpcpb.CheckTxnStatusRequest:
		if e := k.refuse("status", q.Context, q.PrimaryKey); e != nil {
			return &kvrpcpb.CheckTxnStatusResponse{RegionError: e}
		}
		k.requests = append(k.requests, q)
		k.note("status %s", q.PrimaryKey)
		return k.status(q)
	case *kvrpcpb.CheckSecondaryLocksRequest:
		if e := k.refuse("secondaries", q.Context, q.Keys...); e != nil {
			return &kvrpcpb.CheckSecondaryLocksResponse{RegionError: e}
		}
		k.note("secondaries %s", joined(q.Keys))
		return k.second(q)
	case *kvrpcpb.ResolveLockRequest:
		if e := k.refuse("resolve", q.Context, q.Keys...); e != nil {
			return &kvrpcpb.ResolveLockResponse{RegionError: e}
		}
		return k.resolve(q)
	case *kvrpcpb.PessimisticRollbackRequest:
		if e := k.refuse("pessimistic", q.Context, q.Keys...); e != nil {
			return &kvrpcpb.PessimisticRollbackResponse{RegionError: e}
		}
		k.note("pessimistic %s", joined(q.Keys))
		k.drop(func(l *kvrpcpb.LockInfo) bool { return l.LockForUpdateTs <= q.ForUpdateTs && has(q.Keys, l.Key) })
		return &kvrpcpb.PessimisticRollbackResponse{}
	}
	return nil
}

func has(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == string(key) })
}

func (k *lockKeeper) scan(q *kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
	k.note("scan %s-%s", q.StartKey, q.EndKey)
	r := k.region(q.Context)
	resp := &kvrpcpb.ScanLockResponse{}
	for _, l := range k.locks {
		if string(l.Key) >= string(q.StartKey) && (len(q.EndKey) == 0 || string(l.Key) < string(q.EndKey)) &&
			r.Contains(span.EncodeKey(l.Key)) && l.LockVersion <= q.MaxVersion && len(resp.Locks) < int(q.Limit) {
			resp.Locks = append(resp.Locks, l)
		}
	}
	return resp
}

func (k *lockKeeper) resolve(q *kvrpcpb.ResolveLockRequest) *kvrpcpb.ResolveLockResponse {
	if len(q.TxnInfos) == 0 {
		k.note("resolve %s at %d", joined(q.Keys), q.CommitVersion)
		k.drop(func(l *kvrpcpb.LockInfo) bool { return l.LockVersion == q.StartVersion && has(q.Keys, l.Key) })
		return &kvrpcpb.ResolveLockResponse{Error: k.keyErr}
	}
	r := k.region(q.Context)
	for _, t := range q.TxnInfos {
		k.note("resolve the region at %d", t.Status)
		k.drop(func(l *kvrpcpb.LockInfo) bool { return l.LockVersion == t.Txn && r.Contains(span.EncodeKey(l.Key)) })
	}
	return &kvrpcpb.ResolveLockResponse{Error: k.keyErr}
}

func (k *lockKeeper) drop(gone func(*kvrpcpb.LockInfo) bool) {
	k.locks = slices.DeleteFunc(k.locks, gone)
}

// took is what was asked since the last call, in order.
func (k *lockKeeper) took() string {
	k.p.locking.Lock()
	defer k.p.locking.Unlock()
	s := strings.Join(k.asked, "; ")
	k.asked = nil
	return s
}

func wantTook(t *testing.T, k *lockKeeper, want string) {
	t.Helper()
	if got := k.took(); got != want {
		t.Errorf("asked\n\t%s\nwant\n\t%s", got, want)
	}
}

func written(key, primary string, start uint64) *kvrpcpb.LockInfo {
	return &kvrpcpb.LockInfo{Key: []byte(key), PrimaryLock: []byte(primary), LockVersion: start, LockTtl: 3000, TxnSize: 2}
}

// split cuts the puppet's keys at m: region 1 on store 1, region 2 on store 2.
func split(p *puppet) {
	border := span.EncodeKey([]byte("m"))
	p.setRegions(puppetRegion(1, 1, 1, "", border), puppetRegion(2, 1, 2, border, ""))
}

func visit(t *testing.T, c *Client, from, to string) error {
	t.Helper()
	s := span.Span{Start: span.EncodeKey([]byte(from)), End: span.EncodeKey([]byte(to))}
	return c.visit(t.Context(), lock.Visit{Region: 1, Span: s, Target: tso.New(puppetNow-1000, 0)})
}

// TestVisit ends the locks of a committed transaction, of one whose time is over,
// and leaves one alone that lives; its primaries are in the other region.
func TestVisit(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	k := keepLocks(p, written("a", "x", longAgo(9000)), written("b", "y", longAgo(8000)), written("c", "z", longAgo(7000)), written("d", "z", longAgo(500)))
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		switch string(q.PrimaryKey) {
		case "x":
			return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: longAgo(8900)}
		case "y":
			return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpireRollback}
		}
		return &kvrpcpb.CheckTxnStatusResponse{LockTtl: 60_000, Action: kvrpcpb.Action_MinCommitTSPushed}
	}
	c := open(t, p.config())
	if err := visit(t, c, "a", "k"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, fmt.Sprintf("scan a-k; status x; status y; status z; resolve a at %d; resolve b at 0", longAgo(8900)))
	q := k.requests[0]
	if q.LockTs != longAgo(9000) || q.CallerStartTs != longAgo(1000) || q.CurrentTs < uint64(tso.New(puppetNow, 0)) ||
		!q.VerifyIsPrimary || q.RollbackIfNotExist || q.ForceSyncCommit || q.ResolvingPessimisticLock {
		t.Errorf("asked %v", q)
	}
	// What has ended is not asked about again; who lived is.
	k.locks = append(k.locks, written("e", "x", longAgo(9000)))
	if err := visit(t, c, "a", "k"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, fmt.Sprintf("scan a-k; status z; resolve e at %d", longAgo(8900)))
	n := c.Counts()
	if n.LockSearches != 2 || n.LocksFound != 5 || n.LocksEnded != 3 || n.Transactions["alive"] != 2 || n.Transactions["committed"] != 1 || n.Transactions["rolled back"] != 1 {
		t.Errorf("%+v", n)
	}
}

// TestResolveLocks searches a region by its id.
func TestResolveLocks(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	k := keepLocks(p, written("a", "a", longAgo(9000)), written("x", "x", longAgo(9000)))
	k.status = func(*kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		return &kvrpcpb.CheckTxnStatusResponse{}
	}
	c := open(t, p.config())
	if err := c.ResolveLocks(t.Context(), 2, tso.New(puppetNow, 0)); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, "scan m-; status x; resolve x at 0")
	if err := c.ResolveLocks(t.Context(), 9, tso.New(puppetNow, 0)); !cdcerr.InvalidArgument.Is(err) {
		t.Errorf("got %v", err)
	}
}

// TestVisitAsync judges an asynchronous commit by its secondaries in two regions.
func TestVisitAsync(t *testing.T) {
	start := longAgo(9000)
	for _, r := range []struct {
		name   string
		second func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse
		want   string
	}{
		{"all there", func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse {
			resp := &kvrpcpb.CheckSecondaryLocksResponse{}
			for i, key := range q.Keys {
				resp.Locks = append(resp.Locks, &kvrpcpb.LockInfo{Key: key, LockVersion: start, UseAsyncCommit: true, MinCommitTs: start + uint64(len(key)+i)})
			}
			return resp
		}, fmt.Sprintf("scan a-z; status a; secondaries b,c; secondaries x; resolve a,b at %d; scan m-z", start+5)},
		{"one missing", func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse {
			return &kvrpcpb.CheckSecondaryLocksResponse{}
		}, "scan a-z; status a; secondaries b,c; resolve a,b at 0; scan m-z"},
		{"committed", func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse {
			return &kvrpcpb.CheckSecondaryLocksResponse{CommitTs: start + 7}
		}, fmt.Sprintf("scan a-z; status a; secondaries b,c; resolve a,b at %d; scan m-z", start+7)},
		{"fell back", func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse {
			return &kvrpcpb.CheckSecondaryLocksResponse{Locks: []*kvrpcpb.LockInfo{{Key: q.Keys[0], LockVersion: start}}}
		}, "scan a-z; status a; secondaries b,c; status a; resolve a,b at 0; scan m-z"},
		{"refused", func(q *kvrpcpb.CheckSecondaryLocksRequest) *kvrpcpb.CheckSecondaryLocksResponse {
			return &kvrpcpb.CheckSecondaryLocksResponse{Error: &kvrpcpb.KeyError{Abort: "no"}}
		}, "scan a-z; status a; secondaries b,c; scan m-z"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := startPuppet(t, nil)
			split(p)
			k := keepLocks(p, written("a", "a", start), written("b", "a", start))
			k.second = r.second
			k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
				if q.ForceSyncCommit {
					return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpireRollback}
				}
				return &kvrpcpb.CheckTxnStatusResponse{LockTtl: 3000, LockInfo: &kvrpcpb.LockInfo{UseAsyncCommit: true,
					MinCommitTs: start + 5, Secondaries: [][]byte{[]byte("b"), []byte("x"), []byte("c")}}}
			}
			c := open(t, p.config())
			if err := visit(t, c, "a", "z"); err != nil {
				t.Fatal(err)
			}
			wantTook(t, k, strings.Replace(r.want, "scan a-z", "scan a-m", 1))
		})
	}
}

// TestVisitLarge ends what has many keys by a walk over the region, pessimistic
// locks as such, and each holder of a shared lock.
func TestVisitLarge(t *testing.T) {
	p := startPuppet(t, nil)
	big, small := longAgo(9000), longAgo(8000)
	locks := []*kvrpcpb.LockInfo{
		{Key: []byte("b"), LockType: kvrpcpb.Op_SharedLock, SharedLockInfos: []*kvrpcpb.LockInfo{written("b", "p", small), written("b", "q", longAgo(7000))}},
		{Key: []byte("c"), PrimaryLock: []byte("p"), LockVersion: small, LockTtl: 3000, LockType: kvrpcpb.Op_PessimisticLock, LockForUpdateTs: small + 1},
	}
	for i := range 2*visitLocks - 100 {
		locks = append(locks, written(fmt.Sprintf("k%05d", i), "big", big))
	}
	k := keepLocks(p, locks...)
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		if string(q.PrimaryKey) == "q" {
			return &kvrpcpb.CheckTxnStatusResponse{LockTtl: 60_000}
		}
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: q.LockTs + 10}
	}
	c := open(t, p.config())
	if err := visit(t, c, "a", "z"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, fmt.Sprintf("scan a-z; status p; status q; status big; pessimistic c; resolve b at %d; resolve the region at %d; scan k01021\x00-z", small+10, big+10))
}

// TestVisitMoves meets a region error at every question: places are looked up
// again, and what was one region may be two.
func TestVisitMoves(t *testing.T) {
	p := startPuppet(t, nil)
	start := longAgo(9000)
	k := keepLocks(p, written("a", "p", start), written("x", "p", start))
	elsewhere := func() *errorpb.Error {
		return &errorpb.Error{NotLeader: &errorpb.NotLeader{Leader: &metapb.Peer{Id: 12, StoreId: 2}}}
	}
	k.stumble["scan"] = &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 1}}
	k.stumble["status"] = elsewhere()
	k.stumble["resolve"] = &errorpb.Error{StoreNotMatch: &errorpb.StoreNotMatch{}}
	k.stumble["pessimistic"] = &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}
	k.locks = append(k.locks, &kvrpcpb.LockInfo{Key: []byte("y"), PrimaryLock: []byte("p"), LockVersion: start, LockTtl: 1, LockType: kvrpcpb.Op_PessimisticLock})
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		split(p) // while it is asked
		p.regions[0].Region.RegionEpoch.Version, p.regions[1].Region.RegionEpoch.Version = 2, 2
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: start + 10}
	}
	c := open(t, p.config())
	if err := visit(t, c, "a", "z"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, fmt.Sprintf("scan a-z; status p; pessimistic y; resolve a at %d; resolve x at %d", start+10, start+10))
}

// TestVisitTrouble: an answer that cannot be used ends nothing, and the others go on.
func TestVisitTrouble(t *testing.T) {
	p := startPuppet(t, nil)
	k := keepLocks(p, written("a", "x", longAgo(9000)), written("b", "y", longAgo(8000)))
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		if string(q.PrimaryKey) == "x" {
			return &kvrpcpb.CheckTxnStatusResponse{Error: &kvrpcpb.KeyError{Abort: "cannot"}}
		}
		return &kvrpcpb.CheckTxnStatusResponse{}
	}
	c := open(t, p.config())
	if err := visit(t, c, "a", "z"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, "scan a-z; status x; status y; resolve b at 0")
	k.locks = append(k.locks, written("b", "y", longAgo(8000)))
	k.keyErr = &kvrpcpb.KeyError{Abort: "not now"}
	if err := visit(t, c, "a", "z"); !cdcerr.LockResolve.Is(err) || !strings.Contains(err.Error(), "not now") {
		t.Errorf("got %v", err)
	}
	k.took()
	// Nothing known of the transaction: asked again with the order to roll back,
	// unless its time is not over.
	k.locks = []*kvrpcpb.LockInfo{written("a", "x", longAgo(9000)), written("b", "z", longAgo(2000))}
	k.keyErr = nil
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		if q.RollbackIfNotExist {
			return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_LockNotExistRollback}
		}
		return &kvrpcpb.CheckTxnStatusResponse{Error: &kvrpcpb.KeyError{TxnNotFound: &kvrpcpb.TxnNotFound{StartTs: q.LockTs}}}
	}
	if err := visit(t, c, "a", "z"); err != nil {
		t.Fatal(err)
	}
	wantTook(t, k, "scan a-z; status x; status x; status z; resolve a at 0")
}

// TestReadEndsLocks: a read gets past what was left behind, past what will commit
// later, and waits for what lives.
func TestReadEndsLocks(t *testing.T) {
	p := startPuppet(t, nil)
	at := longAgo(1000)
	k := keepLocks(p, written("b", "p", longAgo(9000)), written("c", "q", longAgo(2000)))
	lives := 2
	k.status = func(q *kvrpcpb.CheckTxnStatusRequest) *kvrpcpb.CheckTxnStatusResponse {
		if q.CallerStartTs != at {
			t.Errorf("asked %v", q)
		}
		switch string(q.PrimaryKey) {
		case "p":
			return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpireRollback}
		case "q":
			return &kvrpcpb.CheckTxnStatusResponse{LockTtl: 60_000, Action: kvrpcpb.Action_MinCommitTSPushed}
		}
		if lives--; lives > 0 {
			return &kvrpcpb.CheckTxnStatusResponse{LockTtl: 60_000}
		}
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: at - 1}
	}
	all := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
	p.kv[1].answers(all, map[uint64]span.Span{1: {}})
	after := p.kv[1].scan
	lockAt := func(key string, in *kvrpcpb.Context) *kvrpcpb.KeyError {
		p.locking.Lock()
		defer p.locking.Unlock()
		for _, l := range k.locks {
			if string(l.Key) == key && !slices.Contains(in.ResolvedLocks, l.LockVersion) {
				return &kvrpcpb.KeyError{Locked: l}
			}
		}
		return nil
	}
	p.kv[1].scan = func(q *kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse {
		resp := after(q)
		for i, kv := range resp.Pairs {
			if e := lockAt(string(kv.Key), q.Context); e != nil {
				resp.Pairs[i] = &kvrpcpb.KvPair{Error: e}
			}
		}
		return resp
	}
	p.kv[1].get = func(q *kvrpcpb.GetRequest) *kvrpcpb.GetResponse {
		return &kvrpcpb.GetResponse{Error: lockAt(string(q.Key), q.Context), Value: []byte(all[string(q.Key)])}
	}
	c := open(t, p.config())
	var got []string
	err := c.Scan(t.Context(), nil, nil, tso.TS(at), func(key, value []byte) error {
		got = append(got, string(key)+string(value))
		return nil
	})
	if err != nil || strings.Join(got, " ") != "a1 b2 c3 d4" {
		t.Errorf("got %v, %v", got, err)
	}
	wantTook(t, k, "status p; resolve b at 0; status q")

	k.locks = append(k.locks, written("d", "r", longAgo(2000)))
	began := time.Now()
	if v, err := c.Get(t.Context(), []byte("d"), tso.TS(at)); err != nil || string(v) != "4" {
		t.Errorf("got %q, %v", v, err)
	}
	wantTook(t, k, fmt.Sprintf("status r; status r; resolve d at %d", at-1))
	if time.Since(began) < 2*callPauseMin {
		t.Error("a lock that lives was not waited for")
	}
}
