package chaos

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// record is one thing in a journal; one of its fields is set.
type record struct {
	Begin      *beginning
	Table      *event.Table // rows name it by its place among the tables of the journal
	Txn        *transaction
	DDL        *event.DDL
	Checkpoint tso.TS
}

// beginning is what a life of the changefeed starts from.
type beginning struct {
	StartTS    tso.TS
	Checkpoint tso.TS // 0: it never ran
	Databases  []string
	Tables     []*event.Table
}

type transaction struct {
	StartTS, CommitTS tso.TS
	Piece             int
	More              bool
	Rows              []row
}

// row is an event.Row as it was delivered, value by value.
type row struct {
	Table         int
	PhysicalID    int64
	Key           []byte
	Op            event.Op
	Before, After event.Image
}

// journal is a sink that writes down what it takes. What it has taken survives the
// death of the process: each record is in the file when the call returns. Behind it
// may be another sink, which takes everything first.
type journal struct {
	behind sink.Sink // nil: nothing
	file   *os.File
	out    *gob.Encoder
	tables map[*event.Table]int
}

// openJournal begins the next file of a directory.
func openJournal(dir string, from beginning, behind sink.Sink) (*journal, error) {
	files, err := journals(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("life-%04d.journal", len(files))), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &journal{behind: behind, file: f, out: gob.NewEncoder(f), tables: map[*event.Table]int{}}
	return j, j.write(record{Begin: &from})
}

// journals are the files of a directory, in the order in which they were begun.
func journals(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "life-*.journal"))
	slices.Sort(files)
	return files, err
}

func (j *journal) write(r record) error {
	if err := j.out.Encode(r); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Write implements sink.Sink.
func (j *journal) Write(ctx context.Context, g sink.Leave, txns []event.Txn) error {
	if err := errors.Join(g.Check(), ctx.Err()); err != nil {
		return err
	}
	if j.behind != nil {
		if err := j.behind.Write(ctx, g, txns); err != nil {
			return err
		}
		// What stands in the journal is downstream.
		if err := j.behind.Flush(ctx); err != nil {
			return err
		}
	}
	for i := range txns {
		t := &txns[i]
		out := &transaction{StartTS: t.StartTS, CommitTS: t.CommitTS, Piece: t.Piece, More: t.More, Rows: make([]row, len(t.Rows))}
		for n, r := range t.Rows {
			at, known := j.tables[r.Table]
			if !known {
				at = len(j.tables)
				j.tables[r.Table] = at
				if err := j.write(record{Table: r.Table}); err != nil {
					return err
				}
			}
			out.Rows[n] = row{Table: at, PhysicalID: r.PhysicalID, Key: r.Key, Op: r.Raw.Op, Before: r.Before, After: r.After}
		}
		if err := j.write(record{Txn: out}); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements sink.Sink. Nothing waits for it.
func (j *journal) Flush(context.Context) error { return nil }

// Whole implements sink.Sink.
func (j *journal) Whole() bool { return j.behind != nil && j.behind.Whole() }

// DDL implements sink.Sink.
func (j *journal) DDL(ctx context.Context, g sink.Leave, d *event.DDL) error {
	if err := errors.Join(g.Check(), ctx.Err()); err != nil {
		return err
	}
	if j.behind != nil {
		if err := j.behind.DDL(ctx, g, d); err != nil {
			return err
		}
	}
	return j.write(record{DDL: d})
}

// SyncPoint implements sink.Sink.
func (j *journal) SyncPoint(ctx context.Context, g sink.Leave, p event.SyncPoint) error {
	if j.behind != nil {
		return j.behind.SyncPoint(ctx, g, p)
	}
	return nil
}

// Checkpoint implements sink.Sink.
func (j *journal) Checkpoint(ctx context.Context, ts tso.TS) error {
	if j.behind != nil {
		if err := j.behind.Checkpoint(ctx, ts); err != nil {
			return err
		}
	}
	return j.write(record{Checkpoint: ts})
}

// Close implements sink.Sink.
func (j *journal) Close() error {
	err := j.file.Close()
	if j.behind != nil {
		err = errors.Join(err, j.behind.Close())
	}
	return err
}

// reader is told of what is in a journal.
type reader struct {
	begin      func(*beginning)
	txn        func(*event.Txn)
	ddl        func(*event.DDL)
	checkpoint func(tso.TS)
}

// readJournal reads one file. Its last record may be torn, where the writer was
// killed in the middle of it: nobody was told that it is there.
func readJournal(path string, to reader) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	in := gob.NewDecoder(f)
	var tables []*event.Table
	for {
		var r record
		err := in.Decode(&r)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("journal %s: %w", path, err)
		case r.Begin != nil:
			to.begin(r.Begin)
		case r.Table != nil:
			tables = append(tables, r.Table)
		case r.Txn != nil:
			to.txn(r.Txn.event(tables))
		case r.DDL != nil:
			to.ddl(r.DDL)
		default:
			to.checkpoint(r.Checkpoint)
		}
	}
}

func (t *transaction) event(tables []*event.Table) *event.Txn {
	out := &event.Txn{StartTS: t.StartTS, CommitTS: t.CommitTS, Piece: t.Piece, More: t.More}
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, &event.Row{
			StartTS: t.StartTS, CommitTS: t.CommitTS, Table: tables[r.Table], PhysicalID: r.PhysicalID,
			Key: r.Key, Before: r.Before, After: r.After,
			Raw: &event.RawKV{Op: r.Op, StartTS: t.StartTS, CommitTS: t.CommitTS, Key: r.Key},
		})
	}
	return out
}
