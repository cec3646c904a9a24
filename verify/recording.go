package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// RowIDColumn is the name under which a recording prints a hidden row id.
const RowIDColumn = "_tidb_rowid"

// RowSet is the rows of one table as printed: every row has a cell for every
// column, by the same index.
type RowSet struct {
	Columns []string
	Rows    [][]Cell
}

// ExpectedTable is one table at the end of a recording.
type ExpectedTable struct {
	DB, Name   string
	Type       string // BASE TABLE, VIEW, SEQUENCE
	ID         int64
	Partitions map[string]int64 // name to physical id; nil where there are none
	RowSet
}

// ExpectedSnapshot is one table at a moment in the middle of a recording.
type ExpectedSnapshot struct {
	TS        tso.TS
	DB, Table string
	TableID   int64 // 0 where it is not recorded
	RowSet
}

// Expected is what TiDB itself held at the end of a recording (and, in some, at
// moments before).
type Expected struct {
	EndTS     tso.TS
	Databases []string
	Tables    []*ExpectedTable
	Snapshots []*ExpectedSnapshot // in the order of their ts
}

// LineError says which line of a recording's file cannot be used, and why.
type LineError struct {
	Name string
	Line int
	Err  error
}

// Error is the place and the reason.
func (e *LineError) Error() string { return fmt.Sprintf("%s line %d: %v", e.Name, e.Line, e.Err) }

// Unwrap is the reason.
func (e *LineError) Unwrap() error { return e.Err }

// line is every field that a line of either file may have.
type line struct {
	Kind       string                     `json:"kind"`
	EndTS      tso.TS                     `json:"end_ts"`
	TimeZone   string                     `json:"time_zone"`
	DB         string                     `json:"db"`
	Table      string                     `json:"table"`
	Type       string                     `json:"type"` // of a table; in a stream, of the event
	Op         string                     `json:"op"`
	Key        string                     `json:"key"`
	Old        string                     `json:"old"`
	StartTS    tso.TS                     `json:"start_ts"`
	TxnSource  uint64                     `json:"txn_source"`
	TableID    int64                      `json:"table_id"`
	PhysicalID int64                      `json:"physical_id"`
	Known      bool                       `json:"known"`
	Partitions map[string]int64           `json:"partitions"`
	TS         tso.TS                     `json:"ts"`
	CommitTS   tso.TS                     `json:"commit_ts"`
	Columns    []string                   `json:"columns"`
	Rows       [][]json.RawMessage        `json:"rows"`
	Row        map[string]json.RawMessage `json:"row"`
}

// lineMax bounds one line: TiDB's largest transaction is 10 GB, but the largest
// row that it takes is 120 MB (txn-entry-size-limit), printed in hexadecimal, in a
// stream beside as large an old value.
const lineMax = 512 << 20

// readLines hands every line of r to take and says where an error came from.
func readLines(name string, r io.Reader, take func(l *line) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		raw, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			var l line
			if err = json.Unmarshal(raw, &l); err == nil {
				err = take(&l)
			}
		}
		if err != nil {
			return cdcerr.RecordingInvalid.Wrap(&LineError{Name: name, Line: n, Err: err}, "recording")
		}
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := in.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(whole) > lineMax {
				return nil, fmt.Errorf("longer than %d bytes, the most that a line may have", lineMax)
			}
			continue
		case errors.Is(err, io.EOF) && len(whole) > 0:
			return whole, nil // a last line without an end of line
		}
		return whole, err
	}
}

// ReadExpected reads a NAME.expected.jsonl; name is for messages.
func ReadExpected(name string, r io.Reader) (*Expected, error) {
	e := &Expected{}
	header := false
	var into *ExpectedTable
	err := readLines(name, r, func(l *line) error {
		switch l.Kind {
		case "header":
			if l.EndTS == 0 {
				return errors.New("header without end_ts")
			}
			e.EndTS, header = l.EndTS, true
		case "database":
			e.Databases = append(e.Databases, l.DB)
		case "table":
			into = &ExpectedTable{DB: l.DB, Name: l.Table, Type: l.Type, ID: l.TableID, Partitions: l.Partitions}
			e.Tables = append(e.Tables, into)
		case "row":
			if into == nil || into.DB != l.DB || into.Name != l.Table {
				return fmt.Errorf("row of %s.%s outside its table", l.DB, l.Table)
			}
			return into.add(l.Row)
		case "snapshot":
			s := &ExpectedSnapshot{TS: l.TS, DB: l.DB, Table: l.Table, TableID: l.TableID}
			e.Snapshots = append(e.Snapshots, s)
			return s.addAll(l.Columns, l.Rows)
		case "invariant", "note": // for people; the snapshots hold the same in rows
		default:
			return fmt.Errorf("line of unknown kind %q", l.Kind)
		}
		return nil
	})
	if err == nil && !header {
		err = cdcerr.RecordingInvalid.New("%s has no header line", name)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(e.Snapshots, func(a, b *ExpectedSnapshot) int {
		switch {
		case a.TS < b.TS:
			return -1
		case a.TS > b.TS:
			return 1
		}
		return 0
	})
	return e, nil
}

// State is one table as TiDB held it right after one commit.
type State struct {
	DB, Table string
	TableID   int64
	RowSet
}

// History is what TiDB held after each commit (of all commits, or of a sample).
type History struct {
	moments map[tso.TS]*moment
}

// moment is one commit-ts: each physical id that it touched and the table that
// the id belonged to then, nil where SQL could not see the id.
type moment struct {
	of     map[int64]*State
	tables map[int64]*State // by table id
}

// Moments is the number of commits on record.
func (h *History) Moments() int { return len(h.moments) }

// ReadHistory reads a NAME.history.jsonl; name is for messages.
func ReadHistory(name string, r io.Reader) (*History, error) {
	h := &History{moments: map[tso.TS]*moment{}}
	var into *State
	err := readLines(name, r, func(l *line) error {
		switch l.Kind {
		case "snapshot":
			if l.CommitTS == 0 || l.PhysicalID == 0 {
				return errors.New("snapshot without commit_ts or physical_id")
			}
			into = h.snapshot(l)
		case "row":
			if into == nil || into.DB != l.DB || into.Table != l.Table {
				return fmt.Errorf("row of %s.%s outside a snapshot of it", l.DB, l.Table)
			}
			return into.add(l.Row)
		default:
			return fmt.Errorf("line of unknown kind %q", l.Kind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// snapshot opens the state that a line names. The rows of a table are printed
// once per commit, under the first of its lines; the others follow bare.
func (h *History) snapshot(l *line) *State {
	m := h.moments[l.CommitTS]
	if m == nil {
		m = &moment{of: map[int64]*State{}, tables: map[int64]*State{}}
		h.moments[l.CommitTS] = m
	}
	if !l.Known {
		m.of[l.PhysicalID] = nil
		return nil
	}
	s := m.tables[l.TableID]
	if s == nil {
		s = &State{DB: l.DB, Table: l.Table, TableID: l.TableID}
		m.tables[l.TableID] = s
	}
	m.of[l.PhysicalID] = s
	return s
}

// add appends a row; the first one says which columns there are.
func (s *RowSet) add(row map[string]json.RawMessage) error {
	if s.Columns == nil {
		s.Columns = slices.Sorted(maps.Keys(row))
	}
	if len(row) != len(s.Columns) {
		return fmt.Errorf("row has %d columns, the one before %d", len(row), len(s.Columns))
	}
	cells := make([]Cell, len(s.Columns))
	for i, c := range s.Columns {
		raw, ok := row[c]
		if !ok {
			return fmt.Errorf("row without column %q", c)
		}
		var err error
		if cells[i], err = parseCell(raw); err != nil {
			return fmt.Errorf("column %q: %w", c, err)
		}
	}
	s.Rows = append(s.Rows, cells)
	return nil
}

func (s *RowSet) addAll(columns []string, rows [][]json.RawMessage) error {
	s.Columns = columns
	for n, row := range rows {
		if len(row) != len(columns) {
			return fmt.Errorf("row %d has %d cells for %d columns", n+1, len(row), len(columns))
		}
		cells := make([]Cell, len(row))
		for i, raw := range row {
			var err error
			if cells[i], err = parseCell(raw); err != nil {
				return fmt.Errorf("row %d column %q: %w", n+1, columns[i], err)
			}
		}
		s.Rows = append(s.Rows, cells)
	}
	return nil
}

func parseCell(raw json.RawMessage) (Cell, error) {
	switch {
	case string(raw) == "null":
		return Cell{}, nil
	case len(raw) > 0 && raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return Text(s), err
	}
	var b struct {
		Hex *string `json:"hex"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return Cell{}, err
	}
	if b.Hex == nil {
		return Cell{}, errors.New(`neither a text, nor null, nor {"hex"}`)
	}
	return Cell{Kind: HexCell, Text: *b.Hex}, nil
}
