package redo_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/redotest"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
)

// system are databases that nobody replicates, and those of the server itself.
var system = []string{"mysql", "sys", "information_schema", "performance_schema", "metrics_schema", "workload_schema", "tidb_cdc"}

// ofUsers leaves TiDB's own tables, and those whose rows nothing names, out of a
// recording, as a changefeed does.
func ofUsers(rec *redotest.Recording) *redotest.Recording {
	rec.Changes = slices.DeleteFunc(rec.Changes, func(c redotest.Change) bool {
		return slices.Contains(system, strings.ToLower(c.Table.Schema)) || !c.Table.Eligible() || c.Raw.CommitTS <= rec.Start || c.Raw.CommitTS > rec.End
	})
	rec.DDLs = slices.DeleteFunc(rec.DDLs, func(d *event.DDL) bool {
		return slices.Contains(system, strings.ToLower(d.Schema)) || d.SwitchTS <= rec.Start || d.SwitchTS > rec.End
	})
	return rec
}

// direct gives a recording to a sink, each transaction by itself. It fails with what
// the downstream cannot do.
func direct(t *testing.T, rec *redotest.Recording, s sink.Sink, leave sink.Leave) error {
	t.Helper()
	ctx, ddls := t.Context(), rec.DDLs
	var txn event.Txn
	write := func() {
		if len(txn.Rows) > 0 {
			must(t, s.Write(ctx, leave, []event.Txn{txn}))
		}
		txn = event.Txn{}
	}
	for _, c := range rec.Changes {
		if txn.CommitTS != c.Raw.CommitTS || txn.StartTS != c.Raw.StartTS {
			write()
			txn = event.Txn{CommitTS: c.Raw.CommitTS, StartTS: c.Raw.StartTS}
		}
		for ; len(ddls) > 0 && ddls[0].SwitchTS < c.Raw.CommitTS; ddls = ddls[1:] {
			must(t, s.Flush(ctx))
			if err := s.DDL(ctx, leave, ddls[0]); err != nil {
				return err
			}
		}
		row, err := mount.Row(c.Raw, c.Table)
		must(t, err)
		if row != nil {
			txn.Rows = append(txn.Rows, row)
		}
	}
	write()
	must(t, s.Flush(ctx))
	for _, d := range ddls {
		if err := s.DDL(ctx, leave, d); err != nil {
			return err
		}
	}
	return nil
}

// contents are all tables with their definitions and rows, and then they are gone.
func contents(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var out []string
	for _, name := range lines(t, db, "SHOW DATABASES") {
		if slices.Contains(system, strings.ToLower(name)) && name != "tidb_cdc" {
			continue
		}
		if name != "tidb_cdc" {
			for _, table := range lines(t, db, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA = '"+name+"'") {
				quoted := "`" + name + "`.`" + table + "`"
				out = append(out, lines(t, db, "SHOW CREATE TABLE "+quoted)...)
				rows := lines(t, db, "SELECT * FROM "+quoted)
				slices.Sort(rows)
				for _, r := range rows {
					out = append(out, quoted+" "+r)
				}
			}
		}
		_, err := db.ExecContext(t.Context(), "DROP DATABASE `"+name+"`")
		must(t, err)
	}
	return out
}

// same holds what came of a database to what was to come.
func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("of %d and %d lines, line %d\n got %.300s\nwant %.300s", len(got), len(want), i, got[i], want[i])
		}
	}
	if len(want) < 3 || len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}

// lines are a query's rows as text.
func lines(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	must(t, err)
	var out []string
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		must(t, rows.Scan(to...))
		line := cells[0].String
		for _, c := range cells[1:] {
			line += fmt.Sprintf("|%q %v", c.String, c.Valid)
		}
		out = append(out, line)
	}
	must(t, rows.Err())
	return out
}

// failing is a sink that fails once after so many calls, as if it were killed.
type failing struct {
	sink.Sink
	left int
}

// foreseeing is one that tells beforehand what it cannot do.
type foreseeing struct {
	*failing
	sink.Foreseer
	sink.Journaler
}

var errKilled = errors.New("killed")

func (f *failing) Write(ctx context.Context, leave sink.Leave, txns []event.Txn) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Sink.Write(ctx, leave, txns)
}

func (f *failing) DDL(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	err := f.Sink.DDL(ctx, leave, d)
	if f.left--; f.left < 0 {
		return errKilled // it has taken place
	}
	return err
}

// reasons are all for which a downstream is not called a snapshot.
func reasons(done *redo.Applied) []string {
	out := slices.Clone(done.Unproven)
	for _, d := range done.Doubts {
		out = append(out, d.String())
	}
	slices.Sort(out)
	return out
}

// syncPoints are those that are noted; the table is made for the first.
func syncPoints(t *testing.T, db *sql.DB) []string {
	t.Helper()
	if len(lines(t, db, "SHOW TABLES FROM tidb_cdc LIKE 'syncpoint_v1'")) == 0 {
		return nil
	}
	return lines(t, db, "SELECT primary_ts FROM tidb_cdc.syncpoint_v1")
}

// A database to which a log was applied, by several runs that were ended somewhere,
// is the one to which the same was written directly: names, types, charsets,
// defaults and rows.
func TestIntoMariaDB(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	var leave sink.Leave
	open := func() sink.Sink {
		s, err := downstream.Open(t.Context(), server.URI()+"?safe-mode=true", downstream.Config{Cluster: "c", Changefeed: "default/orders", Upstream: 7, Life: "l"})
		must(t, err)
		leave, err = s.(sink.Usurper).TakeOver(t.Context())
		must(t, err)
		return s
	}
	for _, path := range golden.Recordings(t) {
		if strings.Contains(path, "/kafka/") || strings.Contains(path, "/workloads/") || testing.Short() && !strings.HasSuffix(path, "8_txn") {
			continue // in short form, the one with the most transactions
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			rec := ofUsers(redotest.Load(t, path))
			fresh := func() sink.Sink {
				_, err := db.ExecContext(t.Context(), "CREATE DATABASE test")
				must(t, err)
				return open()
			}
			contents(t, db)
			s := fresh()
			refused := direct(t, rec, s, leave)
			must(t, s.Close())
			want := contents(t, db)
			if refused != nil && !cdcerr.DDLNotPortable.Is(refused) {
				t.Fatal(refused)
			}
			b := objstore.NewMemory()
			inv := write(t, b, testConfig(), rec, 2)
			how := redo.DefaultApply(inv)
			how.BatchRows = 5
			s = fresh()
			must(t, s.(sink.Journaler).Note(t.Context(), leave, func(j *sink.Journal) bool { j.Log, j.Passed = testID.Incarnation, rec.Start; return true }))
			var inexact, foreseen []string // by the last run, and by the first
			for runs, left := 1, 1; ; runs, left = runs+1, left+7 {
				done, err := redo.Apply(t.Context(), b, inv, how, foreseeing{&failing{s, left}, s.(sink.Foreseer), s.(sink.Journaler)}, leave)
				must(t, s.Close())
				if inexact = reasons(&done); runs == 1 {
					foreseen = inexact
				}
				if err == nil {
					if done.Before || !slices.Equal(inexact, foreseen) {
						t.Errorf("%+v, foreseen was %q", done, foreseen)
					}
					break
				}
				// Tables that come back have rows that only the upstream has.
				if refused != nil && (cdcerr.DDLNotPortable.Is(err) || cdcerr.RedoNeedsUpstream.Is(err)) {
					contents(t, db)
					return
				}
				if !errors.Is(err, errKilled) || runs > 1000 {
					t.Fatal(err)
				}
				s = open()
			}
			noted := syncPoints(t, db)
			if exact := len(noted) == 1 && noted[0] == rec.End.String(); exact != (len(inexact) == 0) || len(noted) > 1 {
				t.Errorf("noted is %v of %d; not exact: %q", noted, rec.End, inexact)
			}
			same(t, contents(t, db), want)
		})
	}
}
