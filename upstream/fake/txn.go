package fake

import (
	"context"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// Timestamp hands out a ts, as Tso does.
func (c *Cluster) Timestamp(ctx context.Context) (tso.TS, error) { return c.clock.Take(ctx, 1) }

// Prewrite locks a key, the first phase of a commit.
func (c *Cluster) Prewrite(l mvcc.Lock) error {
	return c.change(func() (mvcc.Change, error) { return c.store.Prewrite(l) })
}

// Commit ends a prewritten key's transaction at commit, which must have been
// taken after the Prewrite: until then its lock holds resolved-ts back.
func (c *Cluster) Commit(key []byte, start, commit tso.TS) error {
	return c.change(func() (mvcc.Change, error) { return c.store.Commit(key, start, commit) })
}

// Rollback ends a key's transaction without a trace in the data.
func (c *Cluster) Rollback(key []byte, start tso.TS) error {
	return c.change(func() (mvcc.Change, error) { return c.store.Rollback(key, start) })
}

// Unlock takes a pessimistic lock away, without any trace.
func (c *Cluster) Unlock(key []byte, start tso.TS) error {
	return c.change(func() (mvcc.Change, error) { return c.store.Unlock(key, start, tso.Max), nil })
}

// OnePhase commits keys of one region at once, and says at which ts. The ts is
// taken under the same lock as the write is done: no promise can come between.
func (c *Cluster) OnePhase(ctx context.Context, locks ...mvcc.Lock) (tso.TS, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	commit, err := c.clock.Take(ctx, 1)
	if err != nil {
		return 0, err
	}
	for _, l := range locks {
		ch, err := c.store.Put(l, commit)
		if err != nil {
			return 0, err
		}
		c.publishLocked(&ch)
	}
	return commit, nil
}

func (c *Cluster) change(do func() (mvcc.Change, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, err := do()
	if err != nil {
		return err
	}
	c.publishLocked(&ch)
	return nil
}
