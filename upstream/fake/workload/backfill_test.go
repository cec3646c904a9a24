package workload_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// contents reads a table from the store by the metadata that stands there: rows
// as text, in order.
func contents(t *testing.T, client *live.Client, name string) []string {
	t.Helper()
	store := client.Cluster().Snapshot()
	var dbs []*schema.DBInfo
	var rows []string
	m := mount.New()
	read := func(start, end []byte, fn func(mvcc.Pair)) {
		store.Scan(start, end, mvcc.Read{At: tso.Max}, false, func(p mvcc.Pair) bool {
			fn(p)
			return !t.Failed()
		})
	}
	start, end := schema.DatabasesRange()
	read(start, end, func(p mvcc.Pair) {
		db, err := schema.ParseDBInfo(p.Value)
		must(t, err)
		dbs = append(dbs, db)
	})
	for _, db := range dbs {
		start, end := schema.TablesRange(db.ID)
		read(start, end, func(p mvcc.Pair) {
			if k, ok := schema.ParseMetaKey(p.Key); !ok || k.TableID == 0 {
				return
			}
			info, err := schema.ParseTableInfo(p.Value)
			must(t, err)
			if info.Name.O != name {
				return
			}
			table, err := info.Table(db, time.UTC)
			must(t, err)
			for _, id := range table.PhysicalIDs() {
				from := slices.Clip(append([]byte("t"), idBytes(id)...))
				read(append(from, "_r"...), append(from, "_s"...), func(p mvcc.Pair) {
					row, err := m.Row(&event.RawKV{Op: event.Put, CommitTS: 2, StartTS: 1, Key: p.Key, Value: p.Value}, table)
					must(t, err)
					var cells []string
					for i, v := range row.After {
						cells = append(cells, string(v.AppendText(nil, &table.Columns[i])))
					}
					rows = append(rows, strings.Join(cells, "|"))
				})
			}
		})
	}
	slices.Sort(rows)
	return rows
}

// fill inserts rows 0…n-1 of a table (id, v) through the shape that stands.
func fill(t *testing.T, s *workload.Server, table string, n int, value func(i int) string) {
	t.Helper()
	x, err := s.Begin(t.Context(), live.Options{}, false)
	must(t, err)
	defer x.End()
	shape := x.Table("test", table)
	for i := range n {
		r := &workload.Record{}
		for c, text := range []string{fmt.Sprint(i), value(i)} {
			cell, err := workload.Text(&shape.Table.Columns[c], text)
			must(t, err)
			r.Cells = append(r.Cells, cell)
		}
		must(t, x.Put(shape, r))
	}
	_, err = x.Commit(t.Context())
	must(t, err)
}

// A column that is converted has its new value in every row, those that writers
// touch meanwhile included.
func TestBackfillsReachEveryRow(t *testing.T) {
	for _, key := range []string{"id bigint NOT NULL PRIMARY KEY, v bigint", "id varchar(20) NOT NULL, v bigint, PRIMARY KEY (id) CLUSTERED"} {
		for _, change := range []string{"MODIFY COLUMN v varchar(30)", "ADD COLUMN c bigint unsigned DEFAULT 18446744073709551615, MODIFY COLUMN v varchar(30)", "MODIFY COLUMN v varchar(30), ADD INDEX (v)"} {
			t.Run(key[:8]+" "+change, func(t *testing.T) {
				t.Parallel()
				client := start(t)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				s, err := workload.NewServer(ctx, client)
				must(t, err)
				ddl := catalog.Session{DB: "test"}
				must(t, s.Exec(ctx, "CREATE TABLE t ("+key+")", ddl, nil))
				must(t, s.Exec(ctx, "ALTER TABLE t ADD INDEX i1 (v)", ddl, nil))
				fill(t, s, "t", 100, func(i int) string { return fmt.Sprint(-i) })
				must(t, s.Exec(ctx, "ALTER TABLE t ADD COLUMN c6 int, ADD COLUMN c5 int", ddl, nil))
				must(t, s.Exec(ctx, "ALTER TABLE t ADD INDEX i14 (c6), RENAME COLUMN v TO w", ddl, nil))
				must(t, s.Exec(ctx, "ALTER TABLE t RENAME COLUMN w TO v", ddl, nil))
				must(t, s.Exec(ctx, "ALTER TABLE t "+change, ddl, func(_ context.Context, step *catalog.Step) error {
					t.Logf("state %d, schema state %d, backfill %v", step.Job.State, step.Job.SchemaState, step.Backfill != nil)
					return nil
				}))
				// A backfill of another column keeps what the first one made.
				must(t, s.Exec(ctx, "ALTER TABLE t ADD COLUMN d date", ddl, nil))
				must(t, s.Exec(ctx, "ALTER TABLE t MODIFY COLUMN d varchar(20)", ddl, nil))
				rows := contents(t, client, "t")
				if len(rows) != 100 {
					t.Errorf("%d rows", len(rows))
				}
				for _, r := range rows {
					cells := strings.Split(r, "|")
					if cells[1] != "-"+cells[0] && cells[1] != "0" {
						t.Errorf("row %s", r)
						break
					}
				}
			})
		}
	}
}

func idBytes(id int64) []byte {
	v := uint64(id) ^ 1<<63
	out := make([]byte, 8)
	for i := range out {
		out[i] = byte(v >> (56 - 8*i))
	}
	return out
}
