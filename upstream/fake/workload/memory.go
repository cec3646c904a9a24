package workload

import (
	"fmt"
	"slices"
	"sort"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// Row is the cells of a row by column id, of columns that are not public, too.
type Row map[int64]Cell

// Written is what a transaction wrote under a key, whether it was committed or
// not.
type Written struct {
	StartTS tso.TS
	Row     Row // nil where it was deleted
	// Line tells the rows of a transaction apart: while partitions are
	// reorganised one row is written under several keys.
	Line     int64
	Backfill bool // written by a job, not by a client
}

// memory is everything that was written, by key. It grows with what a workload
// writes: a Server lives as long as a test or a show.
type memory map[string][]Written

// history is what the schema was, and which jobs there were.
type history struct {
	eras   []era
	absent map[columnID]Cell
	jobs   []*catalog.JobInfo // as their last steps left them, in the order of their first
}

// era is the time from one step on.
type era struct {
	from tso.TS
	ids  map[int64]bool // physical ids of tables that were there
}

type columnID struct{ table, column int64 }

// columns remembers what rows without a cell have in the columns of a table.
func (h *history) columns(s *catalog.Shape) error {
	for i := range s.Table.Columns {
		c := &s.Table.Columns[i]
		cell, err := origin(s.Info, c)
		if err != nil {
			return err
		}
		if cell.Null && c.NotNull() {
			continue // every row has it, until it is being dropped: then nobody reads it
		}
		h.absent[columnID{s.Table.ID, c.ID}] = cell
	}
	return nil
}

// step takes a job as a step has left it.
func (h *history) step(j *catalog.JobInfo) {
	i := slices.IndexFunc(h.jobs, func(have *catalog.JobInfo) bool { return have.ID == j.ID })
	if i < 0 {
		h.jobs = append(h.jobs, j)
	} else {
		h.jobs[i] = j
	}
}

// Jobs are all jobs so far, as their last steps left them.
func (s *Server) Jobs() []*catalog.JobInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history.jobs)
}

// Known tells whether a physical id was one of a table's when a row of some
// commit-ts was committed.
func (s *Server) Known(id int64, commit tso.TS) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	eras := s.history.eras
	n := sort.Search(len(eras), func(i int) bool { return eras[i].from >= commit })
	return n > 0 && eras[n-1].ids[id]
}

// Absent is what a column of a table has in rows that are older than it.
func (s *Server) Absent(table, column int64) (Cell, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cell, ok := s.history.absent[columnID{table, column}]
	return cell, ok
}

func (s *Server) remember(key []byte, w Written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(s.rows[string(key)], func(old Written) bool { return old.StartTS == w.StartTS })
	s.rows[string(key)] = append(all, w)
}

// Wrote is what the transaction of a start-ts wrote under a key; ok is false
// where it did not.
func (s *Server) Wrote(key []byte, start tso.TS) (w Written, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.rows[string(key)] {
		if w.StartTS == start {
			return w, true
		}
	}
	return Written{}, false
}

// Newest is the row under a key as it is committed at a ts, and whether it
// exists. It is for whoever has read that it does: nobody else may commit below
// the ts any more.
func (s *Server) Newest(key []byte, at tso.TS) (row Row, ok bool, err error) {
	var found tso.TS
	for _, v := range s.client.Cluster().Versions(key) {
		if v.CommitTS <= at && v.Op.Data() {
			found = v.StartTS
		}
	}
	if found == 0 {
		return nil, false, nil
	}
	w, known := s.Wrote(key, found)
	if !known {
		return nil, false, fmt.Errorf("key %X holds a row of start-ts %d that nobody wrote", key, found)
	}
	return w.Row, w.Row != nil, nil
}

// written are the cells of a row as a shape writes it, those of columns that are
// not public included.
func written(s *catalog.Shape, r *Record) (Row, error) {
	stored, err := s.Stored(r.row())
	if err != nil {
		return nil, err
	}
	row := Row{}
	for id, v := range stored {
		row[id] = unseen(s, r, id, Cell{Value: v, Null: v == nil, Blind: true})
	}
	for i := range s.Table.Columns {
		row[s.Table.Columns[i].ID] = r.Cells[i]
	}
	return row, nil
}

// unseen gives the cell of a column that no client sees a text, where it follows
// from one: a string that is made of a number or a day says the same.
func unseen(s *catalog.Shape, r *Record, id int64, cell Cell) Cell {
	at := slices.IndexFunc(s.Info.Columns, func(c *catalog.ColumnInfo) bool { return c.ID == id })
	if at < 0 || s.Info.Columns[at].ChangeState == nil || cell.Null {
		return cell
	}
	to := s.Info.Columns[at]
	from := s.Info.Columns[to.ChangeState.DependencyOffset]
	i := slices.IndexFunc(s.Table.Columns, func(c event.Column) bool { return c.ID == from.ID })
	if i < 0 || r.Cells[i].Blind || event.Type(to.Type.Tp) != event.TypeVarchar || to.Type.Charset == "binary" {
		return cell
	}
	switch s.Table.Columns[i].Type {
	case event.TypeTiny, event.TypeShort, event.TypeInt24, event.TypeLong, event.TypeLonglong, event.TypeNewDecimal, event.TypeDate:
		cell.Text, cell.Blind = r.Cells[i].Text, false
	}
	return cell
}
