package fake

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

const (
	// stepBatch and byteBatch bound what a replay does between two looks at its
	// subscribers.
	stepBatch = 128
	byteBatch = 256 << 10
	// paceLimit is how long a replay as fast as it is read waits for one reader.
	// Longer, and the reader is taken for dead: its queue fills, and it meets
	// "congested" as in a real cluster.
	paceLimit = 30 * time.Second
	// While regions are being scanned, or were cut off less than resubscribe
	// ago, a replay as fast as it is read does but a few steps per calmPause: the
	// subscriber is to meet changes while it scans, not to find all of them done.
	calmBatch   = 8
	calmPause   = time.Millisecond
	resubscribe = 30 * time.Millisecond
)

// baseTS is where everything lies that was there before the recording: below
// its START, so that a snapshot just before it has it.
func (c *Cluster) baseTS() tso.TS { return tso.New(c.cfg.StartTS.Physical()-1, 0) }

// load puts into the store what was there before the recording, and cuts the
// key space as TiDB does: a region for the schema, one for each table.
func (c *Cluster) load() error {
	for _, border := range [][]byte{{'m'}, {'n'}, {'t'}, {'u'}} {
		c.regions.Split(border)
	}
	if c.cfg.Bulk != nil {
		return c.loadBulk()
	}
	rec := c.cfg.Recording
	if rec == nil {
		if !c.cfg.Hold && !c.cfg.HoldForSubscriber {
			c.clock.Start(1) // who commits before Run is seen by a timestamp of afterwards
		}
		return nil
	}
	base := c.baseTS()
	for _, s := range rec.plan.seeds {
		v := mvcc.Version{StartTS: base.Prev(), CommitTS: base, Op: mvcc.Put, Value: s.kv.Value}
		if s.commit != 0 {
			v.StartTS, v.CommitTS = s.start, s.commit
		}
		c.store.Load(s.kv.Key, v)
		c.cutTable(s.kv.Key)
	}
	for i := range rec.plan.steps {
		c.cutTable(rec.plan.steps[i].key)
	}
	c.clock.Limit(rec.plan.nextAt(0))
	return nil
}

// tablePrefix is t and a physical table id.
const tablePrefix = 9

// cutTable makes a region border before the table of a raw key.
func (c *Cluster) cutTable(key []byte) {
	if len(key) < tablePrefix || key[0] != 't' || bytes.Equal(key[:tablePrefix], c.lastCut) {
		return
	}
	c.lastCut = slices.Clone(key[:tablePrefix])
	c.regions.Split(c.lastCut)
}

// nextAt is the least commit-ts of step i and all later ones.
func (p *plan) nextAt(i int) tso.TS {
	if i < len(p.next) {
		return p.next[i]
	}
	return tso.Max
}

// replay does the steps of the recording one after the other, then lets the
// clock follow the wall.
func (c *Cluster) replay(ctx context.Context) error {
	if err := c.hold(ctx); err != nil {
		return err
	}
	if c.cfg.Recording != nil {
		if c.cfg.Speed > 0 {
			c.clock.Start(c.cfg.Speed)
		}
		c.replaying.Store(true)
		if err := c.steps(ctx, &c.cfg.Recording.plan); err != nil {
			return err
		}
		c.replaying.Store(false)
	}
	if c.cfg.Bulk != nil {
		if err := c.bulk(ctx); err != nil {
			return err
		}
	}
	c.clock.Free()
	c.clock.Start(1)
	close(c.replayed)
	return nil
}

// hold waits for whatever the replay has to wait for.
func (c *Cluster) hold(ctx context.Context) error {
	for _, gate := range []struct {
		on   bool
		open <-chan struct{}
	}{{c.cfg.Hold, c.released}, {c.cfg.HoldForSubscriber, c.subscribed}} {
		if !gate.on {
			continue
		}
		select {
		case <-gate.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// steps replays a plan. The clock is limited by the commits still to come, so
// that no promise can be broken by one of them (P4).
func (c *Cluster) steps(ctx context.Context, p *plan) error {
	ticked, stepped := c.clock.Now(), 0
	for i := 0; i < len(p.steps); {
		now, most := tso.Max, stepBatch
		var err error
		if c.cfg.Speed > 0 {
			if err := c.until(ctx, p.times[i]); err != nil {
				return err
			}
			now = c.clock.Wall()
		} else if most, err = c.pace(ctx); err != nil {
			return err
		}
		next, err := c.batch(p, i, most, max(now, p.times[i]))
		if err != nil {
			return err
		}
		c.clock.Limit(p.nextAt(next))
		if c.cfg.Speed == 0 {
			c.clock.Reach(p.times[next-1])
			if at := c.clock.Now(); at >= ticked+intervalTS(c.cfg.ResolvedInterval) && c.paid(next-stepped) {
				ticked, stepped = at, next
				if err := c.tick(); err != nil {
					return err
				}
			}
		}
		i = next
	}
	if c.cfg.Speed > 0 {
		return c.until(ctx, p.end)
	}
	c.clock.Reach(p.end)
	return nil
}

// batch does steps from i on, up to the recorded time now and at most so many,
// and returns the next one to do.
func (c *Cluster) batch(p *plan, i, most int, now tso.TS) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 0
	for from := i; i < len(p.steps) && i-from < most && size < byteBatch && p.times[i] <= now; i++ {
		s := &p.steps[i]
		size += s.size()
		if s.kind == stepSplit {
			c.splitLocked(s.key)
			continue
		}
		ch, err := s.apply(c.store)
		if err != nil {
			return i, err
		}
		if s.kind != stepLoad {
			c.publishLocked(&ch)
		}
	}
	return i, nil
}

// until waits for the clock to reach a recorded time.
func (c *Cluster) until(ctx context.Context, at tso.TS) error {
	for {
		wait := at.Sub(c.clock.Wall())
		if wait <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(time.Duration(float64(wait) / c.cfg.Speed))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// pace waits until every stream has little left to send, and says how many
// steps may follow: what is replayed as fast as it is read must not run ahead of
// its readers. Without readers there is nobody to wait for.
func (c *Cluster) pace(ctx context.Context) (steps int, err error) {
	c.mu.Lock()
	var busy []*conn
	for cn := range c.conns {
		if cn.behind(paceBytes) {
			busy = append(busy, cn)
		}
	}
	unsettled := !c.cfg.Calm && (c.scanning > 0 || time.Since(c.cutOff) < resubscribe)
	c.mu.Unlock()
	for _, cn := range busy {
		limited, cancel := context.WithTimeout(ctx, paceLimit)
		if cn.room(limited, paceBytes) != nil {
			cn.giveUp()
		}
		cancel()
	}
	if !unsettled {
		return stepBatch, ctx.Err()
	}
	timer := time.NewTimer(calmPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return calmBatch, ctx.Err()
}
