package scheduler

import (
	"fmt"
	"slices"
)

// Waits is the first DDL that is not done, and what it waits for; 0: there is none.
func (o *Owner) Waits() (job int64, why string) {
	if len(o.pending) == 0 {
		return 0, ""
	}
	p := o.pending[0]
	switch {
	case p.running:
		why = "its turn downstream, or the downstream itself"
	case o.rebuilding:
		why = fmt.Sprintf("captures %v to tell what they have", o.waits)
	case o.cfg.Gated && p.TS > o.barrier.Gate:
		why = fmt.Sprintf("the redo log, whose meta is at %d", o.barrier.Gate)
	case p.TS > o.limit():
		why = fmt.Sprintf("the sync point or target-ts at %d", o.limit())
	case !o.ripe(p):
		why = fmt.Sprintf("an earlier DDL to be durable in the checkpoint, which is %d", o.saved.Checkpoint)
	case !o.reached(p):
		for _, s := range o.tables[p.Tables[p.reached]].sets {
			if s.Checkpoint < p.TS {
				why = fmt.Sprintf("rows of table %d, which capture %q writes in state %v", s.Span.TableID, s.Primary(), s.State)
				break
			}
		}
	case !o.joined(p):
		why = "a table in pieces to be put together"
	case slices.ContainsFunc(o.pending, func(q *pending) bool { return q.running }):
		why = "another DDL, which is under way"
	default:
		why = "the next look"
	}
	return p.Job, fmt.Sprintf("DDL job %d at %d waits for %s", p.Job, p.TS, why)
}
