package fake

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// Bulk is a load for measuring streams: inserts that are made into the bytes of
// PREWRITE and COMMIT events before the clock is started, so that sending them
// costs next to nothing. They flow once every region of them has a subscriber. They
// never reach the store: streams and their scans have them, reads do not.
type Bulk struct {
	Snapshot []KV // in the store from the start: the schema of the rows

	Rows int
	// Row makes row i of Rows: a raw key, greater than that of i − 1, and a value.
	// It may be called twice for one i. What it returns belongs to the cluster.
	Row func(i int) (key, value []byte)

	RowsPerTxn int // default 100; the rows of a transaction are in one region
	// OneTxn makes a single transaction of all rows, in all regions: every PREWRITE
	// comes before the first COMMIT.
	OneTxn  bool
	Regions int // that the rows are spread over; default 8
}

// bulkStep is the distance of two transactions in time: 16 to a millisecond.
const bulkStep = tso.TS(1 << 14)

// bulkPace is what a stream keeps waiting while bulk rows flow.
const bulkPace = 4 << 20

func (b *Bulk) validate() error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case b.Rows < 1:
		return bad("Bulk.Rows: %d, want at least 1", b.Rows)
	case b.Row == nil:
		return bad("Bulk.Row: missing")
	case b.RowsPerTxn < 0 || b.Regions < 0 || b.Regions > b.Rows:
		return bad("Bulk.RowsPerTxn %d, Bulk.Regions %d: out of range", b.RowsPerTxn, b.Regions)
	}
	return nil
}

// bulkEvent is the encoded rows of one Event.
type bulkEvent struct {
	first, last []byte // the least and the greatest key
	entries     []byte
	commit      tso.TS // the least commit-ts of it and all later ones
}

// bulkRegion makes the events of one region.
type bulkRegion struct {
	key       []byte // of its first row
	last      []byte // of the row that was made last
	bound     []byte // of the next region's first row, nil for none
	next, end int    // rows still to make

	event bulkEvent // being filled
	rows  []*cdcpb.Event_Row
	size  int64
}

// loadBulk cuts the regions and makes the events: one transaction a region, in turn.
func (c *Cluster) loadBulk() error {
	b := c.cfg.Bulk
	base := c.baseTS()
	for _, kv := range b.Snapshot {
		c.store.Load(kv.Key, mvcc.Version{StartTS: base.Prev(), CommitTS: base, Op: mvcc.Put, Value: kv.Value})
		c.cutTable(kv.Key)
	}
	c.cutBulk()
	start := c.cfg.StartTS + 2*reserve // until the rows flow the clock moves below
	left := b.Rows
	if b.OneTxn {
		start += bulkStep
		if err := c.oneTransaction(start); err != nil {
			return err
		}
		left = 0
	}
	for left > 0 {
		for _, r := range c.bulkRegions {
			made := r.next
			start += bulkStep
			if err := r.transaction(c, start); err != nil {
				return err
			}
			left -= r.next - made
		}
	}
	for _, r := range c.bulkRegions {
		if err := r.flush(c); err != nil {
			return err
		}
	}
	c.bulkEnd = start + bulkStep
	next := tso.Max
	for _, ev := range slices.Backward(c.bulkEvents) {
		next = min(next, ev.commit)
		ev.commit = next
	}
	c.clock.Limit(next)
	return nil
}

// cutBulk makes the regions of the rows.
func (c *Cluster) cutBulk() {
	b := c.cfg.Bulk
	n := b.Regions
	if n == 0 {
		n = min(8, b.Rows)
	}
	for i := range n {
		r := &bulkRegion{next: b.Rows * i / n, end: b.Rows * (i + 1) / n}
		r.key, _ = b.Row(r.next)
		c.cutTable(r.key)
		if i > 0 {
			c.bulkRegions[i-1].bound = r.key
			c.regions.Split(r.key)
		}
		c.bulkRegions = append(c.bulkRegions, r)
	}
}

// transaction makes the rows of the region's next transaction: all PREWRITEs,
// then all COMMITs.
func (r *bulkRegion) transaction(c *Cluster, start tso.TS) error {
	b := c.cfg.Bulk
	n := b.RowsPerTxn
	if n == 0 {
		n = 100
	}
	var commits []mvcc.Change
	for range min(n, r.end-r.next) {
		key, value := b.Row(r.next)
		if err := r.prewrite(c, start, key, value); err != nil {
			return err
		}
		commits = append(commits, commitOf(start, key, value))
	}
	for i := range commits {
		if err := r.add(c, &commits[i]); err != nil {
			return err
		}
	}
	return nil
}

// prewrite adds the PREWRITE of the region's next row.
func (r *bulkRegion) prewrite(c *Cluster, start tso.TS, key, value []byte) error {
	if bytes.Compare(key, r.last) <= 0 || (r.bound != nil && bytes.Compare(key, r.bound) >= 0) {
		return cdcerr.InvalidArgument.New("Bulk.Row: the key of row %d, %X, is not between those before and after", r.next, key)
	}
	r.last = key
	r.next++
	return r.add(c, &mvcc.Change{Kind: mvcc.Prewrite, Op: mvcc.Put, Key: key, Value: value, StartTS: start})
}

func commitOf(start tso.TS, key, value []byte) mvcc.Change {
	ch := mvcc.Change{Kind: mvcc.Commit, Op: mvcc.Put, Key: key, StartTS: start, CommitTS: start + 1}
	if len(value) <= mvcc.ShortValue {
		ch.Value = value
	}
	return ch
}

// bulkTurn is how many rows of one region come before some of the next in a
// transaction of all regions.
const bulkTurn = 1000

// oneTransaction makes all rows one transaction.
func (c *Cluster) oneTransaction(start tso.TS) error {
	firsts := make([]int, len(c.bulkRegions))
	for i, r := range c.bulkRegions {
		firsts[i] = r.next
	}
	turns := func(do func(r *bulkRegion) error) error {
		for busy := true; busy; {
			busy = false
			for _, r := range c.bulkRegions {
				for range min(bulkTurn, r.end-r.next) {
					busy = true
					if err := do(r); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	err := turns(func(r *bulkRegion) error {
		key, value := c.cfg.Bulk.Row(r.next)
		return r.prewrite(c, start, key, value)
	})
	if err != nil {
		return err
	}
	for i, r := range c.bulkRegions {
		r.next = firsts[i]
	}
	return turns(func(r *bulkRegion) error {
		key, value := c.cfg.Bulk.Row(r.next)
		ch := commitOf(start, key, value)
		r.next++
		return r.add(c, &ch)
	})
}

// add puts a row into the event that is being filled.
func (r *bulkRegion) add(c *Cluster, ch *mvcc.Change) error {
	row := rowPB(ch)
	if r.size > 0 && r.size+rowBytes(row) > eventBytes {
		if err := r.flush(c); err != nil {
			return err
		}
	}
	if len(r.rows) == 0 {
		r.event = bulkEvent{first: ch.Key, last: ch.Key, commit: tso.Max}
	}
	if bytes.Compare(ch.Key, r.event.first) < 0 {
		r.event.first = ch.Key
	}
	if bytes.Compare(ch.Key, r.event.last) > 0 {
		r.event.last = ch.Key
	}
	if ch.CommitTS != 0 {
		r.event.commit = min(r.event.commit, ch.CommitTS)
	}
	r.rows = append(r.rows, row)
	r.size += rowBytes(row)
	return nil
}

// flush encodes the event.
func (r *bulkRegion) flush(c *Cluster) error {
	if len(r.rows) == 0 {
		return nil
	}
	ev := r.event
	entries := cdcpb.Event_Entries{Entries: r.rows}
	var err error
	if ev.entries, err = entries.Marshal(); err != nil {
		return cdcerr.Bug("bulk event: %v", err)
	}
	c.bulkEvents = append(c.bulkEvents, &ev)
	r.rows, r.size = r.rows[:0], 0
	return nil
}

// bulk sends the events to everyone who has subscribed to their regions, as
// fast as the slowest takes them.
func (c *Cluster) bulk(ctx context.Context) error {
	if err := c.bulkSubscribed(ctx); err != nil {
		return err
	}
	for _, ev := range c.bulkEvents {
		c.clock.Limit(ev.commit)
		c.clock.Reach(ev.commit)
		conns, err := c.sendBulk(ev)
		if err != nil {
			return err
		}
		for _, cn := range conns {
			if err := cn.room(ctx, bulkPace); err != nil {
				return err
			}
		}
	}
	c.clock.Free()
	c.clock.Reach(c.bulkEnd)
	return nil
}

// bulkSubscribed waits until every region of the rows has a subscriber that is
// past its scan. Meanwhile the clock goes on: there are readers that begin only once
// they have heard of a resolved-ts.
func (c *Cluster) bulkSubscribed(ctx context.Context) error {
	for _, r := range c.bulkRegions {
		for !c.hasReader(r.key) {
			c.clock.Reach(c.clock.Now().Next())
			timer := time.NewTimer(calmPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
	}
	return nil
}

func (c *Cluster) hasReader(key []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.byRegion[c.regionOfLocked(key).ID], func(sub *subscription) bool { return sub.initialized })
}

// sendBulk queues an event for its subscribers and returns their streams. A
// subscription that covers the event only in part gets its rows one by one.
func (c *Cluster) sendBulk(ev *bulkEvent) ([]*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bulkSent++
	var conns []*conn
	for _, sub := range c.byRegion[c.regionOfLocked(ev.first).ID] {
		conns = append(conns, sub.conn)
		if sub.covers(ev.first) && sub.covers(ev.last) {
			sub.conn.encoded(sub, ev.entries)
			continue
		}
		var all cdcpb.Event_Entries
		if err := all.Unmarshal(ev.entries); err != nil {
			return nil, cdcerr.Bug("bulk event: %v", err)
		}
		for _, row := range all.Entries {
			if sub.covers(row.Key) {
				sub.conn.live(sub, row)
			}
		}
	}
	return conns, nil
}

// bulkHistory tells what the events that went out before the subscription left in its
// range: of a transaction that is still open the PREWRITE, whatever its start-ts, and
// what was committed above the subscription's ts.
func (c *Cluster) bulkHistory(sub *subscription, fn func(*cdcpb.Event_Row) bool) error {
	var rows []*cdcpb.Event_Row
	at := map[string]*cdcpb.Event_Row{} // no key has two rows
	for _, ev := range c.bulkEvents[:sub.bulkSent] {
		if bytes.Compare(ev.last, sub.start) < 0 || len(sub.end) != 0 && bytes.Compare(ev.first, sub.end) >= 0 {
			continue
		}
		var all cdcpb.Event_Entries
		if err := all.Unmarshal(ev.entries); err != nil {
			return cdcerr.Bug("bulk event: %v", err)
		}
		for _, row := range all.Entries {
			switch {
			case !sub.covers(row.Key):
			case row.Type == cdcpb.Event_PREWRITE:
				rows, at[string(row.Key)] = append(rows, row), row
			default:
				pre := at[string(row.Key)]
				pre.Type, pre.CommitTs = cdcpb.Event_COMMITTED, row.CommitTs
			}
		}
	}
	for _, row := range rows {
		if row.Type == cdcpb.Event_COMMITTED && tso.TS(row.CommitTs) <= sub.after {
			continue
		}
		if !fn(row) {
			return nil
		}
	}
	return nil
}
