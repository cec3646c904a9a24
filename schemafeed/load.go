package schemafeed

import (
	"context"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Load reads the schema as it was just before the start-ts, so that a DDL
// exactly at it is seen as a job: all databases, all tables, and the jobs that
// ran then, some of which have shaped what was read.
func (f *Feed) Load(ctx context.Context) error {
	if err := f.cfg.Validate(); err != nil {
		return err
	}
	at := f.cfg.StartTS.Prev()
	if err := f.loadDatabases(ctx, at); err != nil {
		return fmt.Errorf("databases at %d: %w", at, err)
	}
	if err := f.loadTables(ctx, at); err != nil {
		return fmt.Errorf("tables at %d: %w", at, err)
	}
	if err := f.loadJobs(ctx, at); err != nil {
		return fmt.Errorf("DDL jobs at %d: %w", at, err)
	}
	return nil
}

func (f *Feed) loadDatabases(ctx context.Context, at tso.TS) error {
	start, end := schema.DatabasesRange()
	found := 0
	err := f.upstream.Scan(ctx, start, end, at, func(key, value []byte) error {
		if k, ok := schema.ParseMetaKey(key); !ok || k.TableID != 0 {
			return nil
		}
		db, err := schema.ParseDBInfo(value)
		if err != nil {
			return fmt.Errorf("key %X: %w", key, err)
		}
		found++
		f.mu.Lock()
		defer f.mu.Unlock()
		f.store.LoadDatabase(db)
		return nil
	})
	if err == nil && found == 0 {
		return cdcerr.SchemaSnapshot.New("there is none, not even mysql")
	}
	return err
}

// loadTables goes through the tables of all databases in one sweep: a cluster
// may have thousands of them.
func (f *Feed) loadTables(ctx context.Context, at tso.TS) error {
	start, end := schema.AllTablesRange()
	return f.upstream.Scan(ctx, start, end, at, func(key, value []byte) error {
		k, ok := schema.ParseMetaKey(key)
		if !ok || k.TableID == 0 {
			return nil // an auto id, or another counter
		}
		info, err := schema.ParseTableInfo(value)
		if err != nil {
			return fmt.Errorf("table %d of database %d: %w", k.TableID, k.SchemaID, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.store.LoadTable(k.SchemaID, info)
	})
}

func (f *Feed) loadJobs(ctx context.Context, at tso.TS) error {
	job, _ := f.TableAt(mount.JobTableID, f.cfg.StartTS)
	history, _ := f.TableAt(mount.HistoryTableID, f.cfg.StartTS)
	var err error
	if f.columns, err = mount.FindJobColumns(job, history); err != nil {
		return err
	}
	start, end := recordRange(mount.JobTableID)
	return f.upstream.Scan(ctx, start, end, at, func(key, value []byte) error {
		row, ok, err := f.columns.JobRow(&event.RawKV{Op: event.Put, CommitTS: at, Key: key, Value: value})
		if err != nil || !ok {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.store.LoadJob(row.Job)
	})
}

// tablesOf reads all tables of one database.
func (f *Feed) tablesOf(ctx context.Context, schemaID int64, at tso.TS) ([]*schema.TableInfo, error) {
	var out []*schema.TableInfo
	start, end := schema.TablesRange(schemaID)
	err := f.upstream.Scan(ctx, start, end, at, func(key, value []byte) error {
		if k, ok := schema.ParseMetaKey(key); !ok || k.TableID == 0 {
			return nil
		}
		info, err := schema.ParseTableInfo(value)
		if err != nil {
			return fmt.Errorf("key %X: %w", key, err)
		}
		out = append(out, info)
		return nil
	})
	return out, err
}

// recordRange is the raw range of all rows of a table.
func recordRange(id span.TableID) (start, end []byte) {
	start, end = span.RecordPrefix(id), span.RecordPrefix(id)
	end[len(end)-1]++
	return start, end
}
