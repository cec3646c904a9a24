package catalog

import (
	"fmt"
	"math"
	"strconv"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// sequenceCache is how many values a server takes at a time.
const sequenceCache = 1000

type sequenceOption struct {
	Tp       int
	IntValue int64
}

type alterSequenceArgs struct {
	Ident   tableIdent       `json:"ident"`
	Options []sequenceOption `json:"seq_options"`
}

func (p *planner) createSequence(s *ast.CreateSequenceStmt) error {
	db, err := p.database(s.Name.Schema.O)
	if err != nil {
		return err
	}
	if p.c.tableIn(db.ID, s.Name.Name.L) != nil {
		if s.IfNotExists {
			return nil
		}
		return refuse(errTableExists, "Table '%s.%s' already exists", db.Name.O, s.Name.Name.O)
	}
	var options []sequenceOption
	for _, o := range s.SeqOptions {
		options = append(options, sequenceOption{int(o.Tp), o.IntValue})
	}
	t := &TableInfo{Name: MakeName(s.Name.Name.O), Version: tableVersion, Sequence: newSequence(options)}
	for _, o := range s.TblOptions {
		if o.Tp == ast.TableOptionComment {
			t.Sequence.Comment = o.StrValue
		}
	}
	j := p.job(ActionCreateSequence, db, t, &createTableArgs{Table: t, FKCheck: true})
	j.info.SessionVars = scatter()
	j.assign = func(ids *allocator) {
		t.ID = ids.next()
		j.info.TableID = t.ID
	}
	return nil
}

// newSequence is a sequence of those options: the direction decides what the
// others are unless they are given.
func newSequence(options []sequenceOption) *SequenceInfo {
	s := &SequenceInfo{Cache: true, Increment: 1, CacheValue: sequenceCache}
	for _, o := range options {
		if ast.SequenceOptionType(o.Tp) == ast.SequenceOptionIncrementBy {
			s.Increment = o.IntValue
		}
	}
	s.MinValue, s.MaxValue = 1, math.MaxInt64-1
	if s.Increment < 0 {
		s.MinValue, s.MaxValue = math.MinInt64+1, -1
	}
	started := s.set(options)
	if !started {
		s.Start = s.MinValue
		if s.Increment < 0 {
			s.Start = s.MaxValue
		}
	}
	return s
}

// set applies options, and tells whether one of them said where to start.
func (s *SequenceInfo) set(options []sequenceOption) (started bool) {
	for _, o := range options {
		switch ast.SequenceOptionType(o.Tp) {
		case ast.SequenceOptionIncrementBy:
			s.Increment = o.IntValue
		case ast.SequenceStartWith:
			s.Start, started = o.IntValue, true
		case ast.SequenceMinValue:
			s.MinValue = o.IntValue
		case ast.SequenceMaxValue:
			s.MaxValue = o.IntValue
		case ast.SequenceCache:
			s.Cache, s.CacheValue = true, o.IntValue
		case ast.SequenceNoCache:
			s.Cache, s.CacheValue = false, 0
		case ast.SequenceCycle:
			s.Cycle = true
		case ast.SequenceNoCycle:
			s.Cycle = false
		}
	}
	return started
}

// before is the value that comes before v.
func (s *SequenceInfo) before(v int64) string {
	if s.Increment < 0 {
		return strconv.FormatInt(v+1, 10)
	}
	return strconv.FormatInt(v-1, 10)
}

func (p *planner) alterSequence(s *ast.AlterSequenceStmt) error {
	db, t, err := p.table(s.Name)
	if err != nil {
		if s.IfExists {
			return nil
		}
		return err
	}
	if t.Sequence == nil {
		return refuse(errWrongObject, "'%s.%s' is not SEQUENCE", db.Name.O, t.Name.O)
	}
	args := &alterSequenceArgs{Ident: tableIdent{db.Name, MakeName(s.Name.Name.O)}}
	for _, o := range s.SeqOptions {
		args.Options = append(args.Options, sequenceOption{int(o.Tp), o.IntValue})
	}
	p.job(ActionAlterSequence, db, t, args)
	return nil
}

func sequenceKey(db, id int64) string { return hashKey(db, fmt.Sprint("SID:", id)) }

func (w *work) createSequence(a *createTableArgs) error {
	t, db := a.Table, w.info.SchemaID
	if w.c.tableIn(db, t.Name.L) != nil {
		return w.cancel(errTableExists, "Table '%s' already exists", t.Name.O)
	}
	w.bump(nil)
	t.State, t.UpdateTS = StatePublic, w.start
	w.putTable(db, t)
	w.put(sequenceKey(db, t.ID), []byte(t.Sequence.before(t.Sequence.Start)))
	w.doneTable(StatePublic, t)
	return nil
}

func (w *work) alterSequence(a *alterSequenceArgs) error {
	return w.at(func(t *TableInfo) error {
		if t.Sequence == nil {
			return refuse(errWrongObject, "'%s' is not SEQUENCE", t.Name.O)
		}
		t.Sequence.set(a.Options)
		for _, o := range a.Options {
			switch ast.SequenceOptionType(o.Tp) {
			case ast.SequenceRestart:
				w.put(sequenceKey(w.info.SchemaID, t.ID), []byte(t.Sequence.before(t.Sequence.Start)))
			case ast.SequenceRestartWith:
				w.put(sequenceKey(w.info.SchemaID, t.ID), []byte(t.Sequence.before(o.IntValue)))
			}
		}
		return nil
	})
}
