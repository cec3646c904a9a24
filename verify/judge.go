package verify

import (
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is what a Judge needs to know beforehand.
type Config struct {
	StartTS   tso.TS
	Databases []string       // those of the schema snapshot that the changefeed starts from
	Tables    []*event.Table // those of the schema snapshot
	Expected  *Expected      // nil: no end verdict, no snapshots
	History   *History       // nil: rows are not judged by contents
	Stream    *Stream        // nil: what the history lacks never was
	Limits    Limits         // zero: DefaultLimits
}

// Judge watches one changefeed's deliveries from its start-ts on: it is told
// everything that the sink is given, in the same order, and has both verdicts at
// the end. A delivery that repeats an old one changes nothing.
type Judge struct {
	expected    *Expected
	limits      Limits
	seen        *Seen
	order       *Order
	resolved    *Resolved
	transaction *Transaction
	rows        *Rows
	model       *Model

	broken    Verdict // what the validators found, and the snapshots
	snapshots int     // judged so far
	ddls      map[ddlID]bool
	given     map[string]bool // keys that the pieces so far deleted, of a transaction that comes in pieces
	counts    Counts
}

type ddlID struct {
	at  tso.TS
	job int64
}

// Counts are what a Judge was told.
type Counts struct{ Rows, Txns, DDLs int }

// NewJudge begins to watch.
func NewJudge(c Config) *Judge {
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	seen := NewSeen()
	return &Judge{
		seen: seen, expected: c.Expected, limits: c.Limits,
		order: NewOrder(seen), resolved: NewResolved(seen, c.StartTS), transaction: NewTransaction(),
		rows: NewRows(c), model: NewModel(c.Databases, c.Tables),
		broken: Verdict{limits: c.Limits}, ddls: map[ddlID]bool{}, given: map[string]bool{},
	}
}

// Counts are what was delivered so far.
func (j *Judge) Counts() Counts { return j.counts }

// Txn is told of one transaction that was delivered, or of a piece of one.
func (j *Judge) Txn(t *event.Txn) {
	j.reach(t.CommitTS)
	if !t.More {
		j.counts.Txns++
	}
	if t.Piece <= 1 {
		clear(j.given)
	}
	j.belief(t.CommitTS, j.transaction.Txn(t))
	for _, r := range t.Rows {
		j.counts.Rows++
		if j.seen.Has(r) && !j.given[string(r.Key)] {
			continue
		}
		// In pieces an update may come as a deletion and, behind it, an insert.
		if delete(j.given, string(r.Key)); t.Piece > 0 && r.After == nil {
			j.given[string(r.Key)] = true
		}
		j.belief(r.CommitTS, j.order.Row(r))
		j.belief(r.CommitTS, j.resolved.Row(r))
		j.seen.Add(r)
		j.rows.Row(r)
		j.model.Row(r)
	}
}

// DDL is told of one DDL that was delivered.
func (j *Judge) DDL(d *event.DDL) {
	j.reach(d.SwitchTS)
	id := ddlID{at: d.SwitchTS, job: d.JobID}
	if j.ddls[id] {
		return
	}
	j.ddls[id] = true
	j.counts.DDLs++
	j.rows.DDL(d)
	j.model.DDL(d)
}

// Checkpoint is told of a checkpoint: everything up to ts was delivered.
func (j *Judge) Checkpoint(ts tso.TS) { j.belief(ts, j.resolved.Resolved(ts)) }

// belief records what a validator found broken.
func (j *Judge) belief(ts tso.TS, err error) {
	if err != nil {
		j.broken.differ(Difference{TS: ts, Table: "(delivery)", Want: "the promises kept", Got: err.Error()})
	}
}

// reach judges the snapshots that lie before ts.
func (j *Judge) reach(ts tso.TS) {
	if j.expected == nil {
		return
	}
	for all := j.expected.Snapshots; j.snapshots < len(all) && all[j.snapshots].TS < ts; j.snapshots++ {
		j.model.Snapshot(all[j.snapshots], &j.broken)
	}
}

// Rows is the verdict on rows: the rows one by one, the snapshots on the way, and
// the promises about delivery.
func (j *Judge) Rows() *Verdict {
	j.reach(tso.Max)
	v := *j.rows.Finish()
	v.Differences += j.broken.Differences
	v.First = append(v.First[:len(v.First):len(v.First)], j.broken.First...)
	v.First = v.First[:min(len(v.First), j.limits.Differences)]
	if j.snapshots > 0 {
		v.note("%d snapshots of tables judged on the way", j.snapshots)
	}
	v.noteReasons("snapshots: ", j.broken.ByReason)
	return &v
}

// End is the verdict on the contents that the events add up to.
func (j *Judge) End() *Verdict { return j.model.End(j.expected, j.limits) }

// EndOf is the verdict on the contents that were read from a database.
func (j *Judge) EndOf(c *Contents) *Verdict { return j.model.EndOf(j.expected, c, j.limits) }

// Table is a table of that name as it is by now, nil where there is none.
func (j *Judge) Table(schema, name string) *event.Table { return j.model.named(schema, name) }
