package oracle

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// Delivery is one row as it was delivered.
type Delivery struct {
	Schema, Table     string
	TableID           int64
	Key               []byte
	StartTS, CommitTS tso.TS
	Kind              event.RowKind
	Before, After     []Cell // nil where there was, or is, no row
}

// Cell is one cell of a delivered row.
type Cell struct {
	Column int64 // id
	Name   string
	Text   verify.Cell
	Absent bool // nothing was delivered for it, as for a virtual column
}

// Of is the delivery of a row.
func Of(r *event.Row) Delivery {
	return Delivery{
		Schema: r.Table.Schema, Table: r.Table.Name, TableID: r.Table.ID, Key: r.Key,
		StartTS: r.StartTS, CommitTS: r.CommitTS, Kind: r.Kind(),
		Before: cellsOf(r.Table, r.Before), After: cellsOf(r.Table, r.After),
	}
}

func cellsOf(t *event.Table, image event.Image) []Cell {
	var out []Cell
	for i, v := range image {
		c := &t.Columns[i]
		out = append(out, Cell{Column: c.ID, Name: c.Name, Text: verify.CellOf(v, c), Absent: v.IsMissing()})
	}
	return out
}

// Oracle judges the deliveries of a workload's changefeed from its first row on.
type Oracle struct {
	server  *workload.Server
	cluster *fake.Cluster
	wanted  func(schema, table string) bool
	bank    *bank // nil in other workloads

	seen       map[version]bool
	lines      map[line]bool // delivered, under one key or another
	ddls       map[int64]bool
	checkpoint tso.TS
	cells      int
	strays     int
	verdict    verify.Verdict
}

// version is one write of one key.
type version struct {
	key   string
	start tso.TS
}

// line is one row of a transaction.
type line struct {
	start tso.TS
	line  int64
}

// New is the oracle of a workload; wanted are the tables that the changefeed
// replicates.
func New(w *workload.Workload, wanted func(schema, table string) bool) *Oracle {
	o := OfServer(w.Server, wanted)
	if cfg := w.Config(); cfg.Kind == "bank" || cfg.Kind == "drill" {
		o.bank = newBank(cfg.Size)
	}
	return o
}

// OfServer is the oracle of whatever is written through a server.
func OfServer(s *workload.Server, wanted func(schema, table string) bool) *Oracle {
	return &Oracle{
		server: s, cluster: s.Cluster(), wanted: wanted,
		seen: map[version]bool{}, lines: map[line]bool{}, ddls: map[int64]bool{},
	}
}

// Txn is told of a transaction, or a piece of one, that was delivered.
func (o *Oracle) Txn(t *event.Txn) {
	for _, r := range t.Rows {
		o.Deliver(Of(r))
	}
}

// DDL is told of a job that was delivered.
func (o *Oracle) DDL(jobID int64) { o.ddls[jobID] = true }

// Deliver is told of one row that was delivered.
func (o *Oracle) Deliver(d Delivery) {
	w, ok := o.server.Wrote(d.Key, d.StartTS)
	if !ok {
		o.differ(&d, verify.WholeRow, "a row that somebody wrote", "one that nobody did")
		return
	}
	// A repeated delivery is judged like the first: it may come from another life.
	o.shape(&d, &w)
	o.image(&d, d.After, w.Row, "")
	o.before(&d)
	v := version{string(d.Key), d.StartTS}
	if o.seen[v] {
		return
	}
	if d.CommitTS <= o.checkpoint {
		o.differ(&d, verify.WholeRow, fmt.Sprintf("delivered before the checkpoint %d", o.checkpoint), "delivered behind it")
	}
	o.seen[v] = true
	o.lines[line{d.StartTS, w.Line}] = true
	if o.bank != nil {
		o.bank.row(&d)
	}
}

// shape judges what does not depend on cells.
func (o *Oracle) shape(d *Delivery, w *workload.Written) {
	if (w.Row == nil) != (d.Kind == event.DeleteRow) {
		o.differ(d, verify.WholeRow, fmt.Sprintf("deleted: %v", w.Row == nil), d.Kind.String())
	}
	commit := tso.TS(0)
	for _, v := range o.cluster.Versions(d.Key) {
		if v.StartTS == d.StartTS && v.Op.Data() {
			commit = v.CommitTS
		}
	}
	if commit != d.CommitTS {
		o.differ(d, verify.WholeRow, fmt.Sprintf("commit-ts %d", commit), fmt.Sprintf("%d", d.CommitTS))
	}
}

// before judges the old row: the version before this one.
func (o *Oracle) before(d *Delivery) {
	var old *mvcc.Version
	for _, v := range o.cluster.Versions(d.Key) {
		if v.CommitTS < d.CommitTS && v.Op.Data() {
			old = &v
		}
	}
	had := old != nil && old.Op == mvcc.Put
	if had != (d.Before != nil) {
		o.differ(d, verify.WholeRow, fmt.Sprintf("an old row: %v", had), fmt.Sprintf("%v", d.Before != nil))
		return
	}
	if !had {
		return
	}
	if w, ok := o.server.Wrote(d.Key, old.StartTS); ok {
		o.image(d, d.Before, w.Row, "old ")
	}
}

// image compares the cells of a row, old or new, where their text is known.
func (o *Oracle) image(d *Delivery, got []Cell, row workload.Row, which string) {
	for i := range got {
		c := &got[i]
		if row == nil || c.Absent {
			continue
		}
		want, known := row[c.Column]
		if !known {
			want, known = o.server.Absent(d.TableID, c.Column)
		}
		if !known || want.Blind {
			continue
		}
		o.cells++
		same := c.Text.Kind != verify.NullCell && c.Text.Text == want.Text
		if want.Null {
			same = c.Text.Kind == verify.NullCell
		}
		if !same {
			text := fmt.Sprintf("%q", want.Text)
			if want.Null {
				text = "NULL"
			}
			o.differ(d, which+c.Name, text, c.Text.String())
		}
	}
}

// Checkpoint is told that everything at or below ts was delivered. One that lies
// below an earlier one begins another life of the changefeed.
func (o *Oracle) Checkpoint(ts tso.TS) {
	o.checkpoint = max(o.checkpoint, ts)
	if o.bank != nil {
		o.bank.settle(ts, &o.verdict)
	}
}

// differencesMax is how many of them are told.
const differencesMax = 100

func (o *Oracle) differ(d *Delivery, column, want, got string) {
	differ(&o.verdict, verify.Difference{
		TS: d.CommitTS, Table: d.Schema + "." + d.Table, Key: fmt.Sprintf("%X", d.Key), Column: column, Want: want, Got: got,
	})
}

func differ(v *verify.Verdict, d verify.Difference) {
	if v.Differences++; len(v.First) < differencesMax {
		v.First = append(v.First, d)
	}
}

// Verdict is the judgement on everything that was committed at or below a ts,
// after the changefeed has reached it. Nothing may be delivered afterwards.
func (o *Oracle) Verdict(upto tso.TS) *verify.Verdict {
	o.Checkpoint(upto)
	owed := o.lost(upto)
	o.unseen(upto)
	v := o.verdict
	v.Notes = append(v.Notes, fmt.Sprintf("%d rows of %d that had to come, judged by what their writers meant: %d cells", len(o.seen), owed, o.cells))
	if o.bank != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("the sum over all accounts judged in %d snapshots", o.bank.judged))
	}
	return &v
}

// lost looks for rows that were committed and did not come. A row need not come
// of which no key is one of a table's that was there at its commit-ts: its writer
// knew the schema of before.
func (o *Oracle) lost(upto tso.TS) (owed int) {
	counted := map[line]bool{}
	all := map[line]bool{}
	o.cluster.Snapshot().History([]byte("t"), []byte("u"), 0, func(ch mvcc.Change) bool {
		id, ok := physicalID(ch.Key)
		if !ok || ch.Kind != mvcc.Committed || ch.CommitTS > upto {
			return true
		}
		w, ok := o.server.Wrote(ch.Key, ch.StartTS)
		if !ok || w.Backfill || ch.Op == mvcc.Delete && ch.Old == nil {
			return true // what was never there was inserted and deleted in one transaction
		}
		l := line{ch.StartTS, w.Line}
		all[l] = true
		if counted[l] || !o.server.Known(id, ch.CommitTS) {
			return true
		}
		counted[l] = true
		owed++
		if !o.lines[l] {
			differ(&o.verdict, verify.Difference{
				TS: ch.CommitTS, Table: fmt.Sprintf("physical id %d", id), Key: fmt.Sprintf("%X", ch.Key), Column: verify.WholeRow,
				Want: fmt.Sprintf("start-ts %d, delete %v", ch.StartTS, ch.Op == mvcc.Delete), Got: "nothing",
			})
		}
		return true
	})
	o.strays = len(all) - owed
	return owed
}

// Strays is how many rows the last Verdict has found that reach nobody: they were
// committed when none of their keys was one of a table's.
func (o *Oracle) Strays() int { return o.strays }

// physicalID is the table that a record key belongs to.
func physicalID(key []byte) (int64, bool) {
	if len(key) < 12 || key[0] != 't' || key[9] != '_' || key[10] != 'r' {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(key[1:9]) ^ 1<<63), true
}

// unseen looks for jobs that were carried out and did not come.
func (o *Oracle) unseen(upto tso.TS) {
	for _, j := range o.server.Jobs() {
		if j.State != catalog.JobSynced || tso.TS(j.Binlog.FinishedTS) > upto || slices.Contains(ofNoTable, j.Type) || o.ddls[j.ID] || !o.wanted(j.SchemaName, j.TableName) {
			continue
		}
		differ(&o.verdict, verify.Difference{
			Table: j.SchemaName + "." + j.TableName, Column: verify.WholeRow, Want: fmt.Sprintf("job %d: %s", j.ID, j.Query), Got: "nothing",
		})
	}
}

// ofNoTable are the kinds of job that change no table of anybody's.
var ofNoTable = []catalog.Action{
	catalog.ActionCreatePolicy, catalog.ActionAlterPolicy, catalog.ActionDropPolicy,
	catalog.ActionCreateGroup, catalog.ActionAlterGroup, catalog.ActionDropGroup,
}
