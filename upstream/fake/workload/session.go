package workload

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
)

// Session is one transaction of a writer that knows one version of the schema.
type Session struct {
	*live.Txn
	server  *Server
	version *version
	lines   int64 // rows written so far
}

// Begin starts a transaction. A late writer knows the schema of before the last
// step, as long as that is allowed. End has to be called.
func (s *Server) Begin(ctx context.Context, o live.Options, late bool) (*Session, error) {
	s.mu.Lock()
	v := s.current
	if late && s.previous != nil {
		v = s.previous
	}
	v.users++
	s.mu.Unlock()
	txn, err := s.client.Begin(ctx, o)
	if err != nil {
		s.release(v)
		return nil, err
	}
	return &Session{Txn: txn, server: s, version: v}, nil
}

// End lets the version go. The transaction is to be decided by then: committed,
// rolled back, or left with whatever locks it has.
func (x *Session) End() { x.server.release(x.version) }

func (s *Server) release(v *version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.users--
	if v.users == 0 && v.idle != nil {
		close(v.idle)
	}
}

// Tables are the tables of a database that the session knows, by name; of all
// databases where db is empty.
func (x *Session) Tables(db string) []*catalog.Shape {
	return slices.DeleteFunc(slices.Clone(x.version.tables), func(s *catalog.Shape) bool { return db != "" && s.Table.Schema != db })
}

// Table is one of them, nil where there is none.
func (x *Session) Table(db, name string) *catalog.Shape {
	for _, s := range x.version.tables {
		if s.Table.Schema == db && s.Table.Name == name {
			return s
		}
	}
	return nil
}

// Record is one row to be written: values with their text, in the order of the
// shape's columns.
type Record struct {
	Cells []Cell
	RowID int64 // where the table has hidden row ids
}

func (r *Record) row() catalog.Row {
	out := catalog.Row{RowID: r.RowID}
	for _, c := range r.Cells {
		out.Values = append(out.Values, c.Value)
	}
	return out
}

// sumOf says which rows carry a checksum: those of every other table.
func sumOf(s *catalog.Shape) encode.ChecksumKind {
	if s.Info.ID%2 == 0 {
		return encode.OverHandle
	}
	return encode.NoChecksum
}

// Key is the key of a row; only the cells that keys are made of are looked at.
func (x *Session) Key(s *catalog.Shape, r *Record) ([]byte, error) {
	kvs, err := s.Delete(r.row(), x.server.sort)
	if err != nil {
		return nil, err
	}
	return kvs[0].Key, nil
}

// Put writes a row, whether it exists or not.
func (x *Session) Put(s *catalog.Shape, r *Record) error {
	if err := x.fits(s, r); err != nil {
		return err
	}
	kvs, err := s.Put(r.row(), x.server.sort, sumOf(s))
	if err != nil {
		return err
	}
	row, err := written(s, r)
	if err != nil {
		return err
	}
	x.lines++
	for _, kv := range kvs {
		x.Txn.Put(kv.Key, kv.Value)
		x.server.remember(kv.Key, Written{StartTS: x.StartTS(), Row: row, Line: x.lines})
	}
	return nil
}

// fits refuses a row for a table that is about to change places with a
// partition that the row does not belong to.
func (x *Session) fits(s *catalog.Shape, r *Record) error {
	exchange := s.Info.Exchange
	if exchange == nil {
		return nil
	}
	for _, pt := range x.version.tables {
		if pt.Table.ID != exchange.TableID {
			continue
		}
		kvs, err := pt.Delete(r.row(), x.server.sort)
		if err == nil && tableOf(kvs[0].Key) == exchange.DefID {
			return nil
		}
	}
	return &catalog.Error{Code: errRowElsewhere, Message: "Found a row that does not match the partition"}
}

// Delete takes a row away.
func (x *Session) Delete(s *catalog.Shape, r *Record) error {
	kvs, err := s.Delete(r.row(), x.server.sort)
	if err != nil {
		return err
	}
	x.lines++
	for _, kv := range kvs {
		x.Txn.Delete(kv.Key)
		x.server.remember(kv.Key, Written{StartTS: x.StartTS(), Line: x.lines})
	}
	return nil
}

// NextRowID is a hidden row id that nobody had before.
func (s *Server) NextRowID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rowID++
	return s.rowID
}

// finish ends a session's transaction in an ordinary way: an error that says to
// begin anew is none, and nothing was written.
func (x *Session) finish(ctx context.Context) (committed bool, err error) {
	if _, err := x.Commit(ctx); err != nil {
		var exists *live.ExistsError
		if live.Retry(err) || errors.As(err, &exists) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}
