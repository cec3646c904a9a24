package binlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/sluice-cdc/sluice/internal/mariadb"
)

// Txn is one committed transaction, or one DDL.
type Txn struct {
	GTID    string
	At      time.Time // when it was committed, to the second
	Changes []Change
	// Query is a DDL's text; Schema is where it ran.
	Query, Schema string
}

// Change is one row's; Before is nil for an insert, After for a delete.
type Change struct {
	Schema, Table string
	Columns       []string
	Key           []int // the columns of the primary key
	Before, After []any
}

// Read hands out what the server's binary log holds. The server must have been
// started with mariadb.BinLog, or the log does not say what its columns are.
func Read(ctx context.Context, s *mariadb.Server, fn func(Txn) error) error {
	files, err := logs(ctx, s)
	if err != nil {
		return err
	}
	r := &reader{fn: fn}
	for _, f := range files {
		p := replication.NewBinlogParser()
		p.SetFlavor(mysql.MariaDBFlavor)
		p.SetUseDecimal(false)
		err := p.ParseFile(filepath.Join(s.Dir, "data", f), 4, r.event)
		// The server may be in the middle of writing: what is whole was handed out.
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("binary log %s: %w", f, err)
		}
	}
	return nil
}

func logs(ctx context.Context, s *mariadb.Server) (files []string, err error) {
	db := s.DB()
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var size int64
		if err := rows.Scan(&name, &size); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return files, rows.Err()
}

// reader gathers events into transactions.
type reader struct {
	fn  func(Txn) error
	txn Txn
}

func (r *reader) event(e *replication.BinlogEvent) error {
	switch v := e.Event.(type) {
	case *replication.MariadbGTIDEvent:
		r.txn = Txn{GTID: v.GTID.String(), At: time.Unix(int64(e.Header.Timestamp), 0)}
	case *replication.RowsEvent:
		return r.rows(e.Header.EventType, v)
	case *replication.QueryEvent:
		switch text := string(v.Query); text {
		case "BEGIN":
		case "COMMIT":
			return r.end()
		default:
			r.txn.Query, r.txn.Schema = text, string(v.Schema)
			return r.end()
		}
	case *replication.XIDEvent:
		return r.end()
	}
	return nil
}

func (r *reader) end() error {
	t := r.txn
	r.txn = Txn{}
	return r.fn(t)
}

func (r *reader) rows(kind replication.EventType, e *replication.RowsEvent) error {
	c := Change{Schema: string(e.Table.Schema), Table: string(e.Table.Table), Columns: e.Table.ColumnNameString()}
	for _, i := range e.Table.PrimaryKey {
		c.Key = append(c.Key, int(i))
	}
	if len(c.Columns) == 0 {
		return errors.New("the log does not name its columns: start the server with mariadb.BinLog")
	}
	switch kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		for _, row := range e.Rows {
			c.After = row
			r.txn.Changes = append(r.txn.Changes, c)
		}
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		for _, row := range e.Rows {
			c.Before = row
			r.txn.Changes = append(r.txn.Changes, c)
		}
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		for i := 0; i+1 < len(e.Rows); i += 2 {
			c.Before, c.After = e.Rows[i], e.Rows[i+1]
			r.txn.Changes = append(r.txn.Changes, c)
		}
	default:
		return fmt.Errorf("a rows event of kind %v is not known", kind)
	}
	return nil
}
