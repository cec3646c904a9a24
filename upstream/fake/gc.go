package fake

import (
	"fmt"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/sluice-cdc/sluice/tso"
)

// gcWorker is the service that moves the txn safe point; TiDB runs it.
const gcWorker = "gc_worker"

// barrierBehind opens the error of a barrier below the txn safe point; clients
// of a real PD recognise it by this code.
const barrierBehind = "[PD:gc:ErrGCBarrierTSBehindTxnSafePoint]"

// gcState is what PD knows about garbage collection: nothing below the txn safe
// point may be read any more, and barriers keep it from rising. gc safe point ≤
// txn safe point ≤ every barrier, and neither safe point ever falls.
type gcState struct {
	txnSafePoint tso.TS
	gcSafePoint  tso.TS
	barriers     map[string]barrier
}

type barrier struct {
	ts      tso.TS
	expires time.Time // zero = never
}

// advance raises the txn safe point towards target, as far as the barriers let it.
func (g *gcState) advance(target tso.TS, now time.Time) {
	for id, b := range g.barriers {
		if b.expired(now) {
			delete(g.barriers, id)
			continue
		}
		target = min(target, b.ts)
	}
	g.txnSafePoint = max(g.txnSafePoint, target)
}

// set puts a barrier for ttl seconds (MaxInt64 = for ever).
func (g *gcState) set(id string, ts tso.TS, ttl int64, now time.Time) *pdpb.Error {
	if id == gcWorker || id == "" || ttl <= 0 {
		return &pdpb.Error{Type: pdpb.ErrorType_INVALID_VALUE, Message: fmt.Sprintf("barrier %q with ttl %d: not allowed", id, ttl)}
	}
	if ts < g.txnSafePoint {
		return &pdpb.Error{Type: pdpb.ErrorType_UNKNOWN, Message: fmt.Sprintf(
			"%s barrier %q at %d lies behind the txn safe point %d", barrierBehind, id, ts, g.txnSafePoint)}
	}
	b := barrier{ts: ts}
	if ttl < math.MaxInt64/int64(time.Second) {
		b.expires = now.Add(time.Duration(ttl) * time.Second)
	}
	g.barriers[id] = b
	return nil
}

func (b barrier) expired(now time.Time) bool { return !b.expires.IsZero() && !now.Before(b.expires) }

func (b barrier) info(id string, now time.Time) *pdpb.GCBarrierInfo {
	ttl := int64(math.MaxInt64)
	if !b.expires.IsZero() {
		ttl = int64(math.Ceil(b.expires.Sub(now).Seconds()))
	}
	return &pdpb.GCBarrierInfo{BarrierId: id, BarrierTs: uint64(b.ts), TtlSeconds: ttl}
}

// service is the older interface to the same state: gc_worker moves the txn
// safe point, all others are barriers. A barrier that comes too late is not
// stored and not an error: the caller has to compare what comes back.
func (g *gcState) service(id string, ts tso.TS, ttl int64, now time.Time) (minimum tso.TS) {
	switch {
	case id == gcWorker:
		g.advance(ts, now)
	case ttl <= 0:
		delete(g.barriers, id)
	default:
		_ = g.set(id, ts, ttl, now) // refused ones show in the minimum
	}
	return g.txnSafePoint
}
