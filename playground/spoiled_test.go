package playground

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/verify"
)

// spoiling is a database in which something is done just before it is read back.
type spoiling struct {
	*database
	queries []string
}

func (s *spoiling) end(ctx context.Context, j *verify.Judge, o outcome) (*verify.Verdict, error) {
	for _, q := range s.queries {
		if _, err := s.db.ExecContext(ctx, q); err != nil {
			return nil, err
		}
	}
	return s.database.end(ctx, j, o)
}

// A database that lacks what the DDLs made, or still has what they took away,
// differs.
func TestASpoiledDatabaseDiffers(t *testing.T) {
	server := mariadb.Start(t)
	opened, err := openTarget(t.Context(), server.URI(), false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	target := &spoiling{database: opened.(*database)}
	t.Cleanup(func() {
		if err := target.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := &player{options: &Options{Verify: true}, target: target, out: io.Discard, words: io.Discard, log: slog.New(slog.DiscardHandler)}
	for name, c := range map[string]struct {
		recording string
		queries   []string
		text      string
	}{
		"CREATE TABLE left out":    {"20_system", []string{"DROP TABLE test.st"}, "test.st: want a BASE TABLE, got none"},
		"DROP TABLE left out":      {"20_system", []string{"CREATE TABLE test.gone (a int)"}, "test.gone: want no such table"},
		"DROP COLUMN left out":     {"09_conflict", []string{"ALTER TABLE test.c1 ADD COLUMN gone int"}, "test.c1 gone: want no such column"},
		"ADD COLUMN left out":      {"09_conflict", []string{"ALTER TABLE test.c1 DROP COLUMN v"}, "test.c1 v: want a column, got none"},
		"CREATE DATABASE left out": {"21_flashback_db", []string{"DROP DATABASE fdb2"}, "fdb2: want a database"},
		"DROP DATABASE left out":   {"21_flashback_db", []string{"CREATE DATABASE fdb"}, "fdb: want no such database"},
		"CREATE VIEW left out":     {"workloads/ddlstorm", []string{"DROP VIEW stormdb.v1"}, "stormdb.v1: want a VIEW, got none"},
		"a view that is a table":   {"workloads/ddlstorm", []string{"DROP VIEW stormdb.v1", "CREATE TABLE stormdb.v1 (a int)"}, "want a VIEW, got a BASE TABLE"},
		"CREATE SEQUENCE left out": {"06_gen_default", []string{"DROP TABLE IF EXISTS test.sq"}, "test.sq: want a SEQUENCE, got none"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recordingOf(golden + "/" + c.recording + ".jsonl.gz")
			if err != nil {
				t.Fatal(err)
			}
			target.queries = c.queries
			v, err := p.one(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !v.rows.Equal() || !slices.ContainsFunc(v.end.First, func(d verify.Difference) bool { return strings.Contains(d.String(), c.text) }) {
				t.Errorf("rows=%s end=%s %v", v.rows.Word(), v.end.Word(), v.end.First)
			}
		})
	}
}

// A DDL that is lost on the way is found without a database, too: at the end, or
// by the rows where later DDLs make up for it.
func TestALostDDLIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		recording string
		action    event.Action
		rows, end bool
	}{
		"CREATE TABLE": {"09_conflict", event.ActionCreateTable, false, true},
		"DROP COLUMN":  {"13_ddl_column", event.ActionDropColumn, true, false},
		"ADD COLUMN":   {"13_ddl_column", event.ActionAddColumn, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recordingOf(golden + "/" + c.recording + ".jsonl.gz")
			if err != nil {
				t.Fatal(err)
			}
			lost := 0
			judge := judgeDirectly(t, r, spoil{ddl: func(d *event.DDL) {
				if d.Action == c.action {
					lost++
					d.Tables, d.DatabaseAfter = nil, nil
				}
			}})
			rows, end := judge.Rows(), judge.End()
			if lost == 0 || rows.Equal() == c.rows || end.Equal() == c.end {
				t.Errorf("%d lost, rows=%s end=%s", lost, rows.Word(), end.Word())
			}
		})
	}
}
