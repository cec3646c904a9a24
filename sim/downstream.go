package sim

import (
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// broken is a promise that did not hold.
type broken struct {
	promise string
	text    string
}

func (b *broken) Error() string { return b.promise + ": " + b.text }

func breaks(promise, format string, args ...any) error {
	return &broken{promise, fmt.Sprintf(format, args...)}
}

// downstream takes rows, DDLs and sync points, and knows what it must never see.
type downstream struct {
	up        *upstream
	floors    map[capture.ID]scheduler.Term
	fence     scheduler.Revision // of the record of executed DDLs
	record    map[int64]bool
	begun     *change // on record, and not done
	applied   int     // rows of the log before it are all here
	syncEvery int64
	synced    tso.TS // the last sync point noted
	saved     scheduler.Watermark
	log       *redoLog // nil without one
	rows      int
	highest   tso.TS // of the rows
	syncs     int
}

// nextSync is the sync point that no row may pass.
func (d *downstream) nextSync() tso.TS {
	if d.syncEvery == 0 {
		return tso.Max
	}
	return tso.New((d.synced.Physical()/d.syncEvery+1)*d.syncEvery, 0)
}

// apply takes one row of a writer whose placement is grant, of a part of its table or of
// all of it.
func (d *downstream) apply(r *row, by capture.ID, grant uint64, part bool) error {
	s := r.table
	for s.done < len(s.ddls) && s.ddls[s.done].done {
		s.done++
	}
	switch {
	case d.log != nil && r.ts > d.log.resolved:
		return breaks("P5", "%s writes row %d of table %d, the log's meta says %d", by, r.ts, s.id, d.log.resolved)
	case s.born != nil && !s.born.done:
		return breaks("P6", "%s writes row %d of table %d before DDL %d, which brings the table", by, r.ts, s.id, s.born.Job)
	case part && r.whole:
		return breaks("P6", "%s writes row %d of table %d, which may not be in parts there, as a part's", by, r.ts, s.id)
	case grant < s.grants[r.key]:
		return breaks("P1", "%s writes row %d of table %d key %d by placement %d after placement %d did", by, r.ts, s.id, r.key, grant, s.grants[r.key])
	case s.done < len(s.ddls) && r.ts > s.ddls[s.done].TS:
		return breaks("P6", "%s writes row %d of table %d before DDL %d at %d", by, r.ts, s.id, s.ddls[s.done].Job, s.ddls[s.done].TS)
	case s.done > 0 && r.ts <= s.ddls[s.done-1].TS:
		return breaks("P6", "%s writes row %d of table %d after DDL %d at %d", by, r.ts, s.id, s.ddls[s.done-1].Job, s.ddls[s.done-1].TS)
	case d.begun != nil && r.ts <= d.begun.TS && slices.Contains(d.begun.touched, s):
		return breaks("P6", "%s writes row %d of table %d after DDL %d at %d was begun", by, r.ts, s.id, d.begun.Job, d.begun.TS)
	case r.ts > d.nextSync():
		return breaks("P6", "%s writes row %d of table %d before sync point %d", by, r.ts, s.id, d.nextSync())
	}
	s.grants[r.key] = grant
	r.applied = true
	d.rows++
	d.highest = max(d.highest, r.ts)
	return nil
}

// begin notes that a DDL is begun, for an owner of this revision; who is refused goes no
// further.
func (d *downstream) begin(c *change, by scheduler.Revision) (refused bool, err error) {
	if by < d.fence {
		return true, nil
	}
	if d.record[c.Job] || d.begun == c {
		return false, nil
	}
	switch {
	case d.begun != nil:
		return false, breaks("P6", "DDL %d is begun while DDL %d is, which may be done", c.Job, d.begun.Job)
	case c.TS > d.nextSync():
		return false, breaks("P6", "DDL %d at %d is begun before sync point %d", c.Job, c.TS, d.nextSync())
	}
	if err := d.due(c); err != nil {
		return false, err
	}
	d.begun = c
	return false, nil
}

// due tells whether everything is here that comes before a DDL.
func (d *downstream) due(c *change) error {
	if d.log != nil && c.TS > d.log.resolved {
		return breaks("P5", "DDL %d at %d is carried out, the log's meta says %d", c.Job, c.TS, d.log.resolved)
	}
	for _, s := range c.touched {
		if err := d.complete(s, c.TS); err != nil {
			return err
		}
		for _, e := range s.ddls {
			if e.TS < c.TS && !e.done {
				return breaks("P6", "DDL %d at %d is carried out before DDL %d at %d of the same table %d", c.Job, c.TS, e.Job, e.TS, s.id)
			}
		}
	}
	return nil
}

// ignore is what happens of a DDL of which nothing is sent, and which nothing records: a
// new owner at a watermark below does it once more, with nothing above it downstream.
func (d *downstream) ignore(c *change, by scheduler.Revision) error {
	if by < d.fence {
		return nil
	}
	if err := d.due(c); err != nil {
		return err
	}
	if c.TS > d.nextSync() {
		return breaks("P6", "DDL %d at %d is done before sync point %d", c.Job, c.TS, d.nextSync())
	}
	above := slices.Clone(c.touched)
	for _, id := range c.Added {
		above = append(above, d.up.source(id))
	}
	for _, s := range above {
		for _, r := range s.rows {
			if r.ts > c.TS && r.applied {
				return breaks("P6", "DDL %d at %d is done after row %d of table %d", c.Job, c.TS, r.ts, s.id)
			}
		}
	}
	c.done = true
	return nil
}

// execute carries a DDL out that was begun; told is whether that owner learns that it is
// done.
func (d *downstream) execute(c *change, by scheduler.Revision) (told bool) {
	if by < d.fence {
		return false
	}
	if d.begun == c {
		d.record[c.Job], c.done, d.begun = true, true, nil
	}
	return true
}

// complete tells whether every row of a table up to ts is here.
func (d *downstream) complete(s *source, ts tso.TS) error {
	for s.applied < len(s.rows) && s.rows[s.applied].applied {
		s.applied++
	}
	if s.applied < len(s.rows) && s.rows[s.applied].ts <= ts {
		return breaks("P6", "a DDL at %d is carried out before row %d of table %d", ts, s.rows[s.applied].ts, s.id)
	}
	return nil
}

// whole tells whether everything up to ts is here: rows, DDLs.
func (d *downstream) whole(ts tso.TS) error {
	log := d.up.log
	for d.applied < len(log) && log[d.applied].applied {
		d.applied++
	}
	if d.applied < len(log) && log[d.applied].ts <= ts {
		r := log[d.applied]
		return fmt.Errorf("row %d of table %d key %d is not downstream", r.ts, r.table.id, r.key)
	}
	for _, c := range d.up.ddls {
		if c.TS <= ts && !c.done {
			return fmt.Errorf("DDL %d at %d is not done", c.Job, c.TS)
		}
	}
	return nil
}

// sync notes a sync point. A new owner may note one again, as long as the downstream
// still is at it.
func (d *downstream) sync(ts tso.TS) error {
	if ts <= d.synced {
		if d.highest > ts {
			return breaks("P6", "sync point %d is noted again after row %d", ts, d.highest)
		}
		return nil
	}
	if d.log != nil && ts > d.log.resolved {
		return breaks("P5", "sync point %d is noted, the log's meta says %d", ts, d.log.resolved)
	}
	if err := d.whole(ts); err != nil {
		return breaks("P6", "sync point %d is noted: %v", ts, err)
	}
	if ts != d.nextSync() {
		return breaks("P6", "sync point %d is noted, %d was next", ts, d.nextSync())
	}
	d.synced = ts
	d.syncs++
	return nil
}

// save makes a watermark durable, for the owner of the moment.
func (d *downstream) save(w scheduler.Watermark) error {
	if w.Checkpoint < d.saved.Checkpoint || w.Resolved < d.saved.Resolved {
		return breaks("P3", "the watermark goes back from %v to %v", d.saved, w)
	}
	if d.log != nil && w.Resolved > d.log.resolved {
		return breaks("P5", "the watermark %v is durable, the log's meta says %d", w, d.log.resolved)
	}
	if w.Checkpoint > w.Resolved {
		return breaks("P3", "checkpoint %d is above resolved-ts %d", w.Checkpoint, w.Resolved)
	}
	if w.Checkpoint >= d.nextSync() {
		return breaks("P6", "checkpoint %d is durable, sync point %d is not noted", w.Checkpoint, d.nextSync())
	}
	if err := d.whole(w.Checkpoint); err != nil {
		return breaks("P3", "checkpoint %d is durable: %v", w.Checkpoint, err)
	}
	d.saved = w
	return nil
}
