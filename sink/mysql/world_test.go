package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// A world is one test's database downstream, with the sink that writes to it.
type world struct {
	*testing.T
	db     *sql.DB
	sink   *Sink
	schema string
	ts     tso.TS
	job    int64
	sent   []event.Txn // by insert
}

func newWorld(t *testing.T, collations ...string) *world {
	t.Helper()
	w := &world{T: t, db: openDB(t), sink: openSink(t, nil), ts: tso.New(1_790_000_000_000, 0)}
	w.schema = strings.NewReplacer("/", "_", "#", "_").Replace(strings.ToLower(t.Name()))
	w.schema = w.schema[:min(len(w.schema), 60)]
	mustExec(t, w.db, "DROP DATABASE IF EXISTS "+ident(w.schema))
	collation := "utf8mb4_bin"
	if len(collations) > 0 {
		collation = collations[0]
	}
	w.ddl(&event.DDL{Action: event.ActionCreateSchema, DatabaseAfter: &event.Database{Name: w.schema, Charset: "utf8mb4", Collation: collation}})
	t.Cleanup(func() { mustExec(t, w.db, "DROP DATABASE IF EXISTS "+ident(w.schema)) })
	return w
}

// tryDDL gives a DDL the numbers that every job has and delivers it.
func (w *world) tryDDL(d *event.DDL) error {
	w.Helper()
	w.ts += 1 << 18
	w.job++
	d.JobID, d.StartTS, d.SwitchTS, d.FinishedTS = w.job, w.ts.Prev(), w.ts, w.ts
	if d.Schema == "" {
		d.Schema = w.schema
	}
	return w.sink.DDL(context.Background(), sink.Endless, d)
}

func (w *world) ddl(d *event.DDL) {
	w.Helper()
	if err := w.tryDDL(d); err != nil {
		w.Fatal(err)
	}
}

// create makes a table by a DDL of that text.
func (w *world) create(text string) *event.Table {
	w.Helper()
	t := tableOf(w, w.schema, text)
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: text, Tables: []event.TableChange{{After: t}}})
	return t
}

// alter changes a table by a DDL of that text into what the second text creates.
func (w *world) alter(before *event.Table, text, then string) *event.Table {
	w.Helper()
	after := tableOf(w, w.schema, then)
	after.ID = before.ID
	w.ddl(&event.DDL{Action: event.ActionAddColumn, Query: text, Tables: []event.TableChange{{Before: before, After: after}}})
	return after
}

// row is one change; before or after may be nil. key stands for the handle.
func (w *world) row(t *event.Table, key any, before, after []string) *event.Row {
	w.Helper()
	r := &event.Row{Table: t, PhysicalID: t.ID, Key: fmt.Appendf(nil, "t%d_r%v", t.ID, key)}
	if before != nil {
		r.Before = image(w, t, before...)
	}
	if after != nil {
		r.After = image(w, t, after...)
	}
	return r
}

func cells(texts ...string) []string { return texts }

// txn is a transaction of these rows, later than the one before.
func (w *world) txn(rows ...*event.Row) event.Txn {
	w.ts += 1 << 18
	for _, r := range rows {
		r.StartTS, r.CommitTS = w.ts.Prev(), w.ts
	}
	// TiKV's events come in the order of keys, not of statements.
	slices.SortStableFunc(rows, func(a, b *event.Row) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return event.Txn{StartTS: w.ts.Prev(), CommitTS: w.ts, Rows: rows}
}

func (w *world) write(txns ...event.Txn) {
	w.Helper()
	if err := w.sink.writeNow(context.Background(), sink.Endless, txns); err != nil {
		w.Fatal(err)
	}
}

// insert writes rows given as lists of cells, with their first cell as handle.
func (w *world) insert(t *event.Table, rows ...[]string) {
	w.Helper()
	var out []*event.Row
	for i, r := range rows {
		out = append(out, w.row(t, fmt.Sprint(r[0], i), nil, r))
	}
	if len(out) == 0 {
		return
	}
	t1 := w.txn(out...)
	w.sent = append(w.sent, t1)
	w.write(t1)
}

// want compares a query's rows, cells joined by | and rows sorted.
func (w *world) want(query string, rows ...string) {
	w.Helper()
	got := w.rows(query)
	slices.Sort(got)
	slices.Sort(rows)
	if !slices.Equal(got, rows) {
		w.Errorf("%s:\ngot  %q\nwant %q", query, got, rows)
	}
}

func (w *world) rows(query string) []string {
	w.Helper()
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(context.Background(), "USE "+ident(w.schema)); err != nil {
		w.Fatal(err)
	}
	found, err := conn.QueryContext(context.Background(), query)
	if err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for found.Next() {
		values, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := found.Scan(to...); err != nil {
			w.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if texts[i] = v.String; !v.Valid {
				texts[i] = "NULL"
			}
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := found.Err(); err != nil {
		w.Fatal(err)
	}
	return out
}
