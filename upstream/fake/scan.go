package fake

import (
	"context"

	"github.com/pingcap/kvproto/pkg/cdcpb"

	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// scanWorkers is how many regions of one stream are scanned at once. They are
// the stream's own, so that one slow reader holds up nobody else's scans.
const scanWorkers = 4

// scans works off the regions that wait for their incremental scan, urgent ones first.
func (c *Cluster) scans(ctx context.Context, cn *conn) error {
	for {
		var sub *subscription
		select {
		case sub = <-cn.urgent:
		default:
			select {
			case sub = <-cn.urgent:
			case sub = <-cn.scans:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := c.scan(ctx, sub); err != nil {
			return err
		}
	}
}

// scan tells what a region holds above the subscription's ts: per key the lock,
// then the versions, newest first; then INITIALIZED. Live rows have been going
// out since the registration and go on between the chunks, so that:
//
//   - a COMMIT can come before the scan's PREWRITE of it,
//   - a COMMIT can come whose PREWRITE never does (it was written before the
//     registration and the snapshot has it as COMMITTED),
//   - anything between registration and snapshot comes twice.
func (c *Cluster) scan(ctx context.Context, sub *subscription) error {
	snapshot, ok := c.hazards.snapshot(ctx, c, sub)
	if !ok {
		return nil
	}
	var rows []*cdcpb.Event_Row
	var size int64
	told := 0
	var failed error
	chunk := c.hazards.chunk()
	flush := func() bool {
		if len(rows) > 0 {
			if failed = c.scanned(ctx, sub, rows, size); failed != nil {
				return false
			}
			told += len(rows)
			c.unrest(told, len(rows))
			c.hazards.rest(ctx, slowOdds)
		}
		rows, size = nil, 0
		return !c.isDead(sub)
	}
	whole := true
	tell := func(row *cdcpb.Event_Row) bool {
		if size > 0 && size+rowBytes(row) > chunk {
			whole = flush()
		}
		rows = append(rows, row)
		size += rowBytes(row)
		return whole
	}
	snapshot.History(sub.start, sub.end, sub.after, func(ch mvcc.Change) bool {
		if ch.TxnSource > loopMask || (sub.filterLoop && ch.TxnSource != 0) {
			return true
		}
		return tell(rowPB(&ch))
	})
	if whole {
		if err := c.bulkHistory(sub, tell); err != nil {
			return err
		}
	}
	if !whole || !flush() {
		return failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if sub.dead {
		return nil
	}
	sub.conn.initialized(sub)
	sub.initialized = true
	c.scanning--
	if !c.followed {
		c.followed = true
		close(c.subscribed)
	}
	return nil
}

// Restless cuts a region at every key that next gives whenever a scan has told so
// many rows: a region that changes faster than it is scanned. Nil ends it.
func (c *Cluster) Restless(rows int, next func() []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restRows, c.restNext = rows, next
}

// unrest is told how many rows a scan has told, with the last so many.
func (c *Cluster) unrest(told, last int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restNext != nil && told/c.restRows > (told-last)/c.restRows {
		c.splitLocked(c.restNext())
	}
}

func (c *Cluster) isDead(sub *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sub.dead
}

// scanned queues a chunk, unless the subscription ended meanwhile: after its
// error event nothing of it may follow.
func (c *Cluster) scanned(ctx context.Context, sub *subscription, rows []*cdcpb.Event_Row, size int64) error {
	cn := sub.conn
	for {
		if err := cn.room(ctx, cn.quota/scanShare); err != nil {
			return err
		}
		c.mu.Lock()
		done := sub.dead || cn.scanned(sub, rows, size)
		c.mu.Unlock()
		if done {
			return nil
		}
	}
}
