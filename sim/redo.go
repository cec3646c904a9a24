package sim

import (
	"fmt"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// logFile is a file of the redo log: the writer, one life of a capture's half, and its
// number there.
type logFile struct {
	writer string
	number int
}

// redoLog is the storage: what the meta says, and which files it counts on. Files that
// it does not count on may be there or not.
type redoLog struct {
	owner      scheduler.Revision // of the last meta
	checkpoint tso.TS
	resolved   tso.TS
	extents    map[string]int
}

// writerOf is the name of a capture's writer in one life of its half.
func writerOf(id capture.ID, life int) string { return fmt.Sprintf("%s.%d", id, life) }

// extent is what a capture reports of its files.
func extent(writer string, files int) []byte { return fmt.Appendf(nil, "%s %d", writer, files) }

func readExtent(b []byte) (writer string, files int, err error) {
	_, err = fmt.Sscanf(string(b), "%s %d", &writer, &files)
	return writer, files, err
}

// has tells whether the log has a row in a file that its meta counts on.
func (l *redoLog) has(r *row) bool {
	for _, f := range r.files {
		if f.number <= l.extents[f.writer] {
			return true
		}
	}
	return false
}

// advance is a meta that is put on the storage. All of what it says has to be there:
// what a downstream that was lost with everything else is made whole from.
func (l *redoLog) advance(u *upstream, checkpoint, resolved tso.TS, extents map[string]int) error {
	l.checkpoint, l.resolved = max(l.checkpoint, checkpoint), max(l.resolved, resolved)
	for w, n := range extents {
		l.extents[w] = max(l.extents[w], n)
	}
	for i := len(u.log) - 1; i >= 0 && u.log[i].ts > l.checkpoint; i-- {
		if r := u.log[i]; r.ts <= l.resolved && !l.has(r) {
			return breaks("P5", "the log's meta says %d, row %d of table %d key %d is in no file that it counts on", l.resolved, r.ts, r.table.id, r.key)
		}
	}
	for _, c := range u.ddls {
		if c.TS > l.checkpoint && c.TS <= l.resolved && !c.logged {
			return breaks("P5", "the log's meta says %d, DDL %d at %d is not in the log", l.resolved, c.Job, c.TS)
		}
	}
	return nil
}

// join lets the log's reader have a span that begins to be written: from where the log
// has everything, whoever logged it.
func (n *node) join(s *writing) { s.loggedTo = max(s.at, n.half.Gate()) }

// record is a step of the log's reader of a span: a file with what comes next of it.
// That it is durable is told with the next step of the span's.
func (n *node) record(w *world, s *writing, b uint32) {
	upto := w.up.now
	if most := int(b % 3); most > 0 { // a part of it
		for i, seen := s.next, 0; i < len(s.source.rows); i++ {
			if s.source.rows[i].ts > s.loggedTo {
				if seen++; seen > most {
					upto = s.source.rows[i].ts.Prev()
					break
				}
			}
		}
	}
	if upto <= s.loggedTo {
		return
	}
	n.files++
	f := logFile{writerOf(n.id, n.life0), n.files}
	for _, r := range s.source.rows {
		if r.ts > s.loggedTo && r.ts <= upto && r.key >= s.lo && r.key < s.hi {
			r.files = append(r.files, f)
		}
	}
	s.loggedTo = upto
	n.logged(w)
}

// logged tells up to where the log has all spans that are written.
func (n *node) logged(w *world) {
	if !w.gated {
		return
	}
	least := tso.Max
	for _, s := range n.spans {
		if s.phase != scheduler.Prepare {
			least = min(least, s.loggedTo)
		}
	}
	n.half.Logged(least, extent(writerOf(n.id, n.life0), n.files))
}

// meta is a task of the owner's: what the meta is to say, put on the storage.
func (l *lead) meta(w *world) {
	if l.rev < w.down.log.owner {
		l.node.lead = nil // the number is taken by a later owner's meta
		return
	}
	if err := w.down.log.advance(w.up, w.down.saved.Checkpoint, l.log.Resolved, l.extents); err != nil {
		w.fail(err)
		return
	}
	l.owner.Gate(w.down.log.resolved)
}

// heedLog keeps what the meta is to say: the newest of each writer's files.
func (l *lead) heedLog(w *world, g scheduler.Log) {
	changed := g.Resolved != l.log.Resolved
	l.log = g
	for _, b := range g.Extents {
		writer, files, err := readExtent(b)
		if err != nil {
			w.fail(breaks("P5", "extents %q came from nowhere: %v", b, err))
		}
		l.extents[writer] = max(l.extents[writer], files)
	}
	if changed {
		l.tasks = append(l.tasks, task{kind: taskMeta})
	}
}
