package mysql

import "context"

// Forget removes what a changefeed that is no more has noted downstream.
func Forget(ctx context.Context, cfg Config) error {
	return forget(ctx, cfg, cfg.anyLife(), !cfg.NoFence)
}

// ForgetLife removes what one life of a changefeed has noted of its DDLs.
func ForgetLife(ctx context.Context, cfg Config) error {
	return forget(ctx, cfg, cfg.whose(), false)
}

func forget(ctx context.Context, cfg Config, record string, fence bool) error {
	db, err := OpenDB(cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	forget := func(table, where string) error {
		_, err := db.ExecContext(ctx, "DELETE FROM "+table+where)
		if e := serverError(err); err == nil || e != nil && (e.Number == errNoSuchTable || e.Number == errUnknownDB) {
			return nil
		}
		return coded(err, "removing what is noted in %s", table)
	}
	if !cfg.NoDDLRecord {
		err = forget("tidb_cdc.ddl_ts_v1", record)
	}
	if fence && err == nil {
		if err = forget(journalTable, cfg.fenced()); err == nil {
			err = forget(fenceTable, cfg.fenced())
		}
	}
	return err
}
