package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// verifyRows is how many rows are compared at once: each is a SELECT of its own by
// key within one statement, which servers plan one by one.
const verifyRows = 128

// verify compares the columns that a DDL has rewritten with upstream's, and writes
// the rows anew that differ: no event carries what TiDB made of the old values, and
// servers round, cut and print in ways of their own.
//
// The upstream is read as of the switch, whose rows are downstream, no later one: by
// then TiDB has filled the new column. Rows that are not downstream are left so: a
// filter may have taken them out.
//
// Nothing is compared where rows differ for other reasons: a downstream that has
// writers of its own, and is replicated back, would have its newer rows overwritten
// with upstream's older ones, which nothing brings back; a filter that leaves updates
// out wants old rows kept.
func (s *Sink) verify(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	if s.cfg.NoVerify || s.cfg.BDR || s.snapshot == nil {
		return nil
	}
	for _, c := range d.Tables {
		if c.After == nil || c.After.Kind != event.BaseTable {
			continue
		}
		v := verifier{Sink: s, leave: leave, ddl: d, table: c.After}
		for _, conversion := range d.Conversions {
			if at := slices.IndexFunc(c.After.Columns, func(x event.Column) bool { return x.ID == conversion.ToID }); at >= 0 && conversion.TableID == c.After.ID {
				v.columns = append(v.columns, at)
			}
		}
		if len(v.columns) == 0 {
			continue
		}
		if s.cfg.Spared != nil && s.cfg.Spared(c.After) {
			s.log.Warn("a rewritten column is not compared with upstream's: an event filter leaves updates of the table out", "table", c.After.FullName(), "job", d.JobID)
			continue
		}
		if err := v.run(ctx); err != nil {
			if cdcerr.Of(err) == nil {
				err = cdcerr.SnapshotRead.Wrap(err, "comparing %s with upstream at %d", c.After.FullName(), d.SwitchTS)
			}
			return err
		}
	}
	return nil
}

// A verifier compares some columns of one table.
type verifier struct {
	*Sink
	leave   sink.Leave
	ddl     *event.DDL
	table   *event.Table
	columns []int // those that were rewritten

	page     []*event.Row
	text     []byte // of the page's question
	compared int
	anew     int
	unique   bool // a row that is put may push another one out
}

func (v *verifier) run(ctx context.Context) error {
	name := v.table.FullName()
	if !v.table.Eligible() {
		v.log.Warn("a rewritten column cannot be compared with upstream's: no key names the rows", "table", name, "job", v.ddl.JobID)
		return nil
	}
	for _, x := range v.table.Indexes {
		if x.Unique && slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool { return slices.Contains(v.columns, p.Column) }) {
			v.unique = true
		}
	}
	if slices.ContainsFunc(v.table.Key, func(i int) bool { return slices.Contains(v.columns, i) }) {
		v.log.Warn("a rewritten column cannot be compared with upstream's: it names the rows", "table", name, "job", v.ddl.JobID)
		return nil
	}
	err := v.snapshot.Rows(ctx, v.table, v.ddl.SwitchTS, func(r *event.Row) error { return v.take(ctx, r) })
	if err == nil {
		err = v.compare(ctx)
	}
	if ended := v.Flush(ctx); err == nil {
		err = ended
	}
	if err == nil {
		v.log.Info("rewritten columns compared with upstream's", "table", name, "job", v.ddl.JobID, "rows", v.compared, "written anew", v.anew)
	}
	return err
}

// take adds a row to the page's question.
func (v *verifier) take(ctx context.Context, r *event.Row) (err error) {
	dialect := v.session.dialect
	start := len(v.text)
	if len(v.page) > 0 {
		v.text = append(v.text, " UNION ALL "...)
	}
	v.text = append(fmt.Appendf(v.text, "SELECT %d, ", len(v.page)), '(')
	for n, i := range v.columns {
		if n > 0 {
			v.text = append(v.text, ") AND ("...)
		}
		if v.text, err = appendMatch(v.text, r.After[i], v.table, &v.table.Columns[i], dialect); err != nil {
			return err
		}
	}
	v.text = append(append(v.text, ") FROM "...), qualified(v.table.Schema, v.table.Name)...)
	for n, i := range v.table.Key {
		word := " AND "
		if n == 0 {
			word = " WHERE "
		}
		v.text = append(appendIdent(append(v.text, word...), v.table.Columns[i].Name), '=')
		if v.text, err = appendLiteral(v.text, r.After[i], v.table, &v.table.Columns[i], dialect); err != nil {
			return err
		}
	}
	if len(v.page) > 0 && len(v.text) > min(v.cfg.MaxStatementBytes, v.session.maxStatement()) {
		v.text = v.text[:start]
		if err := v.compare(ctx); err != nil {
			return err
		}
		return v.take(ctx, r)
	}
	if v.page = append(v.page, r); len(v.page) < verifyRows {
		return nil
	}
	return v.compare(ctx)
}

// compare asks the page's question, and puts the rows that differ.
func (v *verifier) compare(ctx context.Context) error {
	if len(v.page) == 0 {
		return nil
	}
	if err := v.leave.Check(); err != nil {
		return err
	}
	var same map[int]bool
	err := v.again(ctx, "comparing rewritten columns", func(ctx context.Context) (err error) {
		same, err = v.ask(ctx, string(v.text))
		return err
	})
	if err != nil {
		return coded(err, "comparing the columns of %s that job %d has rewritten", v.table.FullName(), v.ddl.JobID)
	}
	// In a transaction that may have been written before, since its rows have been.
	out := event.Txn{StartTS: v.ddl.StartTS, CommitTS: min(v.ddl.SwitchTS, v.cfg.replayed())}
	for i, r := range v.page {
		if equal, there := same[i]; there && !equal || !there && v.unique && v.anew > 0 {
			out.Rows = append(out.Rows, r)
		}
	}
	v.compared, v.anew = v.compared+len(v.page), v.anew+len(out.Rows)
	v.page, v.text = nil, v.text[:0]
	if len(out.Rows) == 0 {
		return nil
	}
	if err := v.put(ctx, v.leave, []event.Txn{out}); err != nil {
		return err
	}
	return v.Flush(ctx) // the next page's question has to see it
}

// ask tells of each row that is downstream whether its columns are the same.
func (v *verifier) ask(ctx context.Context, text string) (map[int]bool, error) {
	conn, err := v.session.use(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.ReadTimeout)
	defer cancel()
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int]bool{}
	for rows.Next() {
		var at int
		var equal bool
		if err := rows.Scan(&at, &equal); err != nil {
			return nil, err
		}
		out[at] = equal
	}
	return out, rows.Err()
}
