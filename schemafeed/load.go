package schemafeed

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // a server may run where no zone is installed

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
		k, ok := schema.ParseMetaKey(key)
		if !ok || k.TableID != 0 {
			return nil
		}
		db, err := schema.ParseDBInfo(value)
		if err == nil {
			err = k.Names(db.ID)
		}
		if err != nil {
			return fmt.Errorf("key %X: %w", key, err)
		}
		found++
		if db.Name.L == "mysql" {
			f.systemID = db.ID
		}
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
	zoned := false
	start, end := schema.AllTablesRange()
	return f.upstream.Scan(ctx, start, end, at, func(key, value []byte) error {
		k, ok := schema.ParseMetaKey(key)
		if !ok || k.TableID == 0 {
			return nil // an auto id, or another counter
		}
		info, err := schema.ParseTableInfo(value)
		if err == nil {
			err = k.Names(info.ID)
		}
		if err != nil {
			return fmt.Errorf("table %d of database %d: %w", k.TableID, k.SchemaID, err)
		}
		if !zoned && info.NeedsZone() {
			zoned = true
			if err := f.loadZone(ctx, at); err != nil {
				return fmt.Errorf("the servers' time zone, for table %d: %w", k.TableID, err)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.store.LoadTable(k.SchemaID, info)
	})
}

// loadZone reads the zone that the cluster was bootstrapped in: the row
// system_tz of mysql.tidb.
func (f *Feed) loadZone(ctx context.Context, at tso.TS) error {
	tables, err := f.tablesOf(ctx, f.systemID, at)
	if err != nil {
		return err
	}
	for _, info := range tables {
		if info.Name.L != "tidb" {
			continue
		}
		table, err := info.Table(&schema.DBInfo{ID: f.systemID, Name: schema.Name{O: "mysql", L: "mysql"}}, nil)
		if err != nil {
			return err
		}
		name, value := table.Column("variable_name"), table.Column("variable_value")
		if name < 0 || value < 0 {
			return cdcerr.SchemaSnapshot.New("mysql.tidb (id %d) has no columns variable_name and variable_value", table.ID)
		}
		start, end := recordRange(table.ID)
		return f.upstream.Scan(ctx, start, end, at, func(k, v []byte) error {
			row, err := mount.Row(&event.RawKV{Op: event.Put, CommitTS: at, Key: k, Value: v}, table)
			if err != nil || string(row.After[name].Raw()) != "system_tz" {
				return err
			}
			zone, err := time.LoadLocation(string(row.After[value].Raw()))
			if err != nil {
				return cdcerr.SchemaSnapshot.Wrap(err, "system_tz of mysql.tidb")
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.store.SetZone(zone)
			return nil
		})
	}
	return cdcerr.SchemaSnapshot.New("there is no table mysql.tidb")
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
		k, ok := schema.ParseMetaKey(key)
		if !ok || k.TableID == 0 {
			return nil
		}
		info, err := schema.ParseTableInfo(value)
		if err == nil {
			err = k.Names(info.ID)
		}
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
