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
// costs next to nothing. The rows never reach the store: only who has
// subscribed to all regions of them before they flow gets them.
type Bulk struct {
	Snapshot []KV // in the store from the start: the schema of the rows

	Rows int
	// Row makes row i of Rows: a raw key, each greater than the one before, and a
	// value. Both belong to the cluster.
	Row func(i int) (key, value []byte)

	RowsPerTxn int // default 100; the rows of a transaction are in one region
	Regions    int // that the rows are spread over; default 8
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
	first, last []byte // keys
	entries     []byte
	commit      tso.TS // of its first transaction
}

type bulkRegion struct {
	key       []byte // of its first row
	last      []byte // of the row that was made last
	bound     []byte // of the next region's first row, nil for none
	next, end int    // rows still to make
}

// row makes the region's next row.
func (r *bulkRegion) row(b *Bulk) (key, value []byte, err error) {
	key, value = b.Row(r.next)
	if bytes.Compare(key, r.last) <= 0 || (r.bound != nil && bytes.Compare(key, r.bound) >= 0) {
		return nil, nil, cdcerr.InvalidArgument.New("Bulk.Row: the key of row %d, %X, is not between those before and after", r.next, key)
	}
	r.last = key
	r.next++
	return key, value, nil
}

// loadBulk cuts the regions and makes the events.
func (c *Cluster) loadBulk() error {
	b := c.cfg.Bulk
	base := c.baseTS()
	for _, kv := range b.Snapshot {
		c.store.Load(kv.Key, mvcc.Version{StartTS: base.Prev(), CommitTS: base, Op: mvcc.Put, Value: kv.Value})
		c.cutTable(kv.Key)
	}
	perTxn, n := b.RowsPerTxn, b.Regions
	if perTxn == 0 {
		perTxn = 100
	}
	if n == 0 {
		n = min(8, b.Rows)
	}
	regions := make([]*bulkRegion, n)
	for i := range regions {
		r := &bulkRegion{next: b.Rows * i / n, end: b.Rows * (i + 1) / n}
		r.key, _ = b.Row(r.next)
		regions[i] = r
		c.cutTable(r.key)
		if i > 0 {
			regions[i-1].bound = r.key
			c.regions.Split(r.key)
		}
	}
	c.bulkRegions = regions
	start := c.cfg.StartTS + bulkStep
	for left := b.Rows; left > 0; {
		for _, r := range regions {
			if r.next == r.end {
				continue
			}
			ev, rows, err := b.event(r, perTxn, start)
			if err != nil {
				return err
			}
			c.bulkEvents = append(c.bulkEvents, ev)
			left -= rows
			start += bulkStep * tso.TS(rows/perTxn+1)
		}
	}
	c.bulkEnd = start
	c.clock.Limit(c.bulkEvents[0].commit)
	return nil
}

// event makes as many transactions of a region as fit one Event, or one
// transaction at least.
func (b *Bulk) event(r *bulkRegion, perTxn int, start tso.TS) (*bulkEvent, int, error) {
	ev := &bulkEvent{commit: start + 1}
	var entries cdcpb.Event_Entries
	rows, size := 0, int64(0)
	for r.next < r.end && size < eventBytes {
		var commits []*cdcpb.Event_Row
		for range min(perTxn, r.end-r.next) {
			key, value, err := r.row(b)
			if err != nil {
				return nil, 0, err
			}
			pre := mvcc.Change{Kind: mvcc.Prewrite, Op: mvcc.Put, Key: key, Value: value, StartTS: start}
			done := mvcc.Change{Kind: mvcc.Commit, Op: mvcc.Put, Key: key, StartTS: start, CommitTS: start + 1}
			if len(value) <= mvcc.ShortValue {
				done.Value = value
			}
			row := rowPB(&pre)
			entries.Entries = append(entries.Entries, row)
			commits = append(commits, rowPB(&done))
			size += 2 * rowBytes(row)
			if ev.first == nil {
				ev.first = key
			}
			ev.last = key
			rows++
		}
		entries.Entries = append(entries.Entries, commits...)
		start += bulkStep
	}
	var err error
	ev.entries, err = entries.Marshal()
	return ev, rows, err
}

// bulk sends the events to everyone who has subscribed to their regions, as
// fast as the slowest takes them.
func (c *Cluster) bulk(ctx context.Context) error {
	if err := c.bulkSubscribed(ctx); err != nil {
		return err
	}
	for i, ev := range c.bulkEvents {
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
		c.bulkEvents[i] = nil
	}
	c.clock.Free()
	c.clock.Reach(c.bulkEnd)
	return nil
}

// bulkSubscribed waits until every region of the rows has a subscriber that is
// past its scan.
func (c *Cluster) bulkSubscribed(ctx context.Context) error {
	for _, r := range c.bulkRegions {
		for !c.hasReader(r.key) {
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
