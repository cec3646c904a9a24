package fake

import (
	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// Break is a promise of TiKV that the cluster breaks when it is told to: what a
// subscriber believes, and has to notice when it is not so.
type Break uint8

// The promises that can be broken.
const (
	// CommitWithoutPrewrite: a COMMIT follows its PREWRITE. The PREWRITE is left out.
	CommitWithoutPrewrite Break = iota + 1
	// RepeatedCommit: a COMMIT comes once for each PREWRITE. It comes twice.
	RepeatedCommit
	// LostRow: whatever is committed is told. One row is not told at all.
	LostRow
	// LateRow: after a resolved-ts no row at or below it comes. One does.
	LateRow
	// RegressingResolved: the resolved-ts of a registration never falls. It does.
	RegressingResolved
	// EarlyResolved: there is no resolved-ts before a scan is over. There is.
	EarlyResolved
	// RowAfterError: after an error nothing of a registration comes. A row does.
	RowAfterError
)

// breaks is which promises are to be broken next, and what of that is under
// way. Under Cluster.mu.
type breaks struct {
	armed  map[Break]int // how often
	struck map[Break]int
	victim map[startKey]Break // transactions whose rows are tampered with
	late   []lateRow
}

type startKey struct {
	key   string
	start tso.TS
}

// lateRow waits for the promise that it will break.
type lateRow struct {
	sub *subscription
	row *cdcpb.Event_Row
}

// Break breaks a promise once, at the next occasion: towards a registration
// whose scan is over, but for EarlyResolved.
func (c *Cluster) Break(b Break) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.breaks.armed == nil {
		c.breaks = breaks{armed: map[Break]int{}, struck: map[Break]int{}, victim: map[startKey]Break{}}
	}
	c.breaks.armed[b]++
}

// Broken is how often a promise has been broken.
func (c *Cluster) Broken(b Break) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.breaks.struck[b]
}

// strike breaks b now if it is to be broken.
func (k *breaks) strike(b Break) bool {
	if k.armed[b] == 0 {
		return false
	}
	k.armed[b]--
	k.struck[b]++
	return true
}

// row has a look at a change that is about to be told, and says how often it is.
func (k *breaks) row(c *Cluster, ch *mvcc.Change) (times int) {
	if k.armed == nil || ch.TxnSource > loopMask {
		return 1
	}
	id := startKey{string(ch.Key), ch.StartTS}
	seen := len(c.followersLocked(ch.Key)) > 0
	switch ch.Kind {
	case mvcc.Prewrite:
		if k.victim[id] != 0 {
			return 0
		}
		for _, b := range []Break{CommitWithoutPrewrite, LostRow} {
			if seen && k.strike(b) {
				k.victim[id] = b
				return 0
			}
		}
	case mvcc.RolledBack:
		delete(k.victim, id)
	case mvcc.Committed:
		if seen && k.strike(LostRow) || seen && k.delay(c, ch) {
			return 0
		}
	case mvcc.Commit:
		b := k.victim[id]
		delete(k.victim, id)
		switch {
		case b == LostRow, seen && b == 0 && k.delay(c, ch):
			return 0
		case seen && b == 0 && k.strike(RepeatedCommit):
			return 2
		}
	}
	return 1
}

// followersLocked are the registrations past their scan that a key is told to.
func (c *Cluster) followersLocked(key []byte) []*subscription {
	var out []*subscription
	for _, sub := range c.byRegion[c.regionOfLocked(key).ID] {
		if sub.initialized && sub.covers(key) {
			out = append(out, sub)
		}
	}
	return out
}

// delay holds a row back until it breaks a promise.
func (k *breaks) delay(c *Cluster, ch *mvcc.Change) bool {
	if !k.strike(LateRow) {
		return false
	}
	for _, sub := range c.followersLocked(ch.Key) {
		k.late = append(k.late, lateRow{sub, rowPB(ch)})
	}
	return true
}

// overdue tells the rows that come too late by now.
func (k *breaks) overdue() {
	left := k.late[:0]
	for _, l := range k.late {
		switch {
		case l.sub.dead:
		case l.sub.resolved >= tso.TS(l.row.CommitTs):
			l.sub.conn.live(l.sub, l.row)
		default:
			left = append(left, l)
		}
	}
	k.late = left
}

// regress is a second less than what was promised.
const regress = tso.TS(1000 << 18)

// promises are those that break one, of the registrations of one stream.
func (k *breaks) promises(cn *conn, now tso.TS) []*item {
	if k.armed == nil {
		return nil
	}
	var items []*item
	for _, sub := range cn.subs {
		ts := now
		switch {
		case sub.initialized && sub.resolved > regress && k.strike(RegressingResolved):
			ts = sub.resolved - regress
		case !sub.initialized && k.strike(EarlyResolved):
		default:
			continue
		}
		items = append(items, &item{resolved: &cdcpb.ResolvedTs{RequestId: sub.request, Regions: []uint64{sub.region}, Ts: uint64(ts)}})
	}
	return items
}

// afterwards sends a row of a registration that has been told its end.
func (k *breaks) afterwards(sub *subscription) {
	if sub.initialized && k.strike(RowAfterError) {
		sub.conn.live(sub, &cdcpb.Event_Row{
			Type: cdcpb.Event_COMMITTED, OpType: cdcpb.Event_Row_PUT, Key: sub.start, Value: []byte("late"),
			StartTs: uint64(sub.resolved.Next()), CommitTs: uint64(sub.resolved.Next().Next()),
		})
	}
}

// Impersonate lets PD and the stores say that they are another cluster; with 0
// they are themselves again. What is open already stays open.
func (c *Cluster) Impersonate(id uint64) {
	if id == 0 {
		id = c.cfg.ClusterID
	}
	c.claimed.Store(id)
}
