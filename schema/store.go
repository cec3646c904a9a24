package schema

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Store holds every version of every table from the start-ts on. Fill it with
// LoadDatabase, LoadTable and LoadJob, read at start-ts − 1, then feed it with
// Step and Resolve. It is not safe for concurrent use.
type Store struct {
	start    tso.TS
	seen     tso.TS // all job rows at or below it are here
	resolved tso.TS // what Ready last said, or will say

	zone      *time.Location // of the servers, for columns of version 0
	databases map[int64]*DBInfo
	lines     map[int64]*line   // by logical table id
	places    map[int64][]place // by physical id
	names     map[name]int64    // logical table ids by name, now
	closed    tso.TS            // the first end of a version or a place, Max where there is none

	// buffer holds job rows above seen. It is as long as the rows that TiDB
	// writes within one advance of the span's resolved-ts, a few per DDL.
	buffer []JobRow
	// pending are jobs that have switched, by switch-ts; the first of them
	// either runs still or waits for an Answer. Few jobs run at once in TiDB.
	pending []*step
	// silent are running jobs that had switched before the start: the snapshot
	// has their shape, and so has whoever copied the data at the start-ts.
	silent map[int64]bool
	// begun are the same, as they stood there. TiDB runs few at once.
	begun []*Job
	// finished are jobs whose done row was met and whose history row was not,
	// lest the history row create their tables again.
	finished map[int64]bool
	// unsettled are tables of the snapshot with columns or indexes on their way
	// in or out, until a job has settled them.
	unsettled map[int64]*TableInfo

	ready Ready
}

// line is one logical table through time. The last version is open while the
// table exists.
type line struct {
	versions []version
}

// version is what rows with from < commit-ts <= to are decoded by.
type version struct {
	from, to tso.TS
	table    *event.Table
}

// place is the table to which a physical id belongs for from < commit-ts <= to.
type place struct {
	from, to tso.TS
	line     *line
}

// name is a table's name as TiDB compares it.
type name struct {
	schemaID int64
	folded   string
}

// step is one job on its way into the store.
type step struct {
	jobID    int64
	switchTS tso.TS
	running  *Job    // as it was when it switched; nil where it was done first
	done     *JobRow // nil while the job runs
	silent   bool    // makes no DDL

	// A recovered database lists no tables: they are read at the done row.
	asked    bool
	answered bool
	answer   []*TableInfo
}

// Ready is what the shell has to pass on. DDLs come in order of their
// switch-ts; all with SwitchTS <= Resolved have been handed out by then.
type Ready struct {
	DDLs     []*event.DDL
	Resolved tso.TS
	Moves    []tso.Move
	Reads    []Read
}

// Read asks the shell for all tables of one database: the hash DB:<SchemaID>
// read at At. The store does not move past At before Answer.
type Read struct {
	JobID    int64
	SchemaID int64
	At       tso.TS
}

// Held is a job that holds the resolved-ts: it has switched, and whether it is
// carried out or rolled back stands in a row that has not come.
type Held struct {
	Job      *Job
	SwitchTS tso.TS
}

// NewStore makes a store of the changefeed's start-ts: rows and jobs above
// startTS − 1 are its business.
func NewStore(startTS tso.TS) *Store {
	at := startTS.Prev()
	return &Store{
		start: startTS, seen: at, resolved: at,
		databases: map[int64]*DBInfo{},
		lines:     map[int64]*line{},
		places:    map[int64][]place{},
		names:     map[name]int64{},
		silent:    map[int64]bool{},
		finished:  map[int64]bool{},
		unsettled: map[int64]*TableInfo{},
		closed:    tso.Max,
		ready:     Ready{Resolved: at},
	}
}

// SetZone says in which zone columns of version 0 keep TIMESTAMP defaults; UTC
// unless it is called.
func (s *Store) SetZone(zone *time.Location) { s.zone = zone }

// LoadDatabase takes one database of the snapshot.
func (s *Store) LoadDatabase(db *DBInfo) { s.databases[db.ID] = db }

// LoadTable takes one table of the snapshot, after its database. A table of a
// database that is not listed is in nobody's sight, so it is left out.
func (s *Store) LoadTable(schemaID int64, info *TableInfo) error {
	db := s.databases[schemaID]
	if db == nil {
		return nil
	}
	t, err := info.Table(db, s.zone)
	if err != nil {
		return err
	}
	s.open(t, 0)
	if slices.ContainsFunc(info.Columns, func(c ColumnInfo) bool { return c.State != SchemaPublic }) ||
		slices.ContainsFunc(info.Indexes, func(x IndexInfo) bool { return x.State != SchemaPublic }) {
		s.unsettled[info.ID] = info
	}
	return nil
}

// LoadJob takes one row of mysql.tidb_ddl_job of the snapshot, after the
// tables. A job that has switched already has shaped the snapshot; one that is
// done waits for its history row; a table that is being created is no table
// yet; a column that is being dropped is there until the DDL says so, or a
// changefeed that is resumed would write rows without it to a downstream that
// has it.
func (s *Store) LoadJob(job *Job) error {
	switch {
	case job.State == StateDone || job.State == StateSynced:
		s.finished[job.ID] = true
	case s.switched(job):
		s.silent[job.ID] = true
		s.begun = append(s.begun, job)
	case creates(job.Type):
		if t := s.lines[job.TableID].now(); t != nil {
			s.close(t, 0)
		}
	case job.Type == event.ActionDropColumn && s.unsettled[job.TableID] != nil:
		info, err := s.unsettled[job.TableID].keeping(job)
		if err != nil {
			return err
		}
		return s.LoadTable(s.lines[job.TableID].now().SchemaID, info)
	}
	return nil
}

// Step takes a job row, in any order above the last Resolve. A row at or below
// it has been here before: a broken stream is read again from further back.
func (s *Store) Step(row JobRow) error {
	if row.Job == nil {
		return cdcerr.Bug("job row at %d without a job", row.CommitTS)
	}
	if row.CommitTS > s.seen && telling(&row) {
		s.buffer = append(s.buffer, row)
	}
	return nil
}

// telling tells whether observe has a use for the row, and frees what of it
// observe has no use for: a changefeed that is resumed after days gets the rows
// of all DDLs of those days before the first resolved-ts.
func telling(row *JobRow) bool {
	j := row.Job
	switch {
	case row.Delete, row.History && !creates(j.Type), j.State == StateRollbackDone, j.State == StateCancelled:
		row.Job = &Job{ID: j.ID, Type: j.Type, State: j.State}
		return true
	}
	return row.History || j.State == StateDone || maySwitch(j)
}

// Resolve says that every job row at or below ts has been given to Step.
func (s *Store) Resolve(ts tso.TS) error {
	if ts <= s.seen {
		return nil
	}
	s.seen = ts
	slices.SortStableFunc(s.buffer, compareRows)
	return s.proceed()
}

// proceed observes the rows up to the resolved one and takes their jobs in. It
// stops at a recovered database until its tables are known: what later rows
// mean may depend on them.
func (s *Store) proceed() error {
	n := 0
	for ; n < len(s.buffer) && s.buffer[n].CommitTS <= s.seen && !s.reading(); n++ {
		if n > 0 && sameRow(&s.buffer[n-1], &s.buffer[n]) {
			continue
		}
		s.observe(s.buffer[n])
	}
	s.buffer = slices.Delete(s.buffer, 0, n)
	return s.advance()
}

// reading tells whether the tables of a recovered database are awaited.
func (s *Store) reading() bool {
	return slices.ContainsFunc(s.pending, func(st *step) bool { return st.asked && !st.answered })
}

// Held is the job that holds the resolved-ts, if one does, and up to where all job
// rows are here.
func (s *Store) Held() (held Held, seen tso.TS) {
	if len(s.pending) > 0 && s.pending[0].done == nil {
		held = Held{Job: s.pending[0].running, SwitchTS: s.pending[0].switchTS}
	}
	return held, s.seen
}

// Buffered is how many job rows wait for Resolve.
func (s *Store) Buffered() int { return len(s.buffer) }

// Answer gives the tables that a Read asked for.
func (s *Store) Answer(r Read, tables []*TableInfo) error {
	for _, st := range s.pending {
		if st.jobID == r.JobID && st.asked && !st.answered {
			st.answered, st.answer = true, tables
			return s.proceed()
		}
	}
	return cdcerr.Bug("an answer for job %d, which asked nothing", r.JobID)
}

// Ready takes what has come about since the last call.
func (s *Store) Ready() Ready {
	out := s.ready
	s.ready = Ready{Resolved: s.resolved}
	return out
}

// TableAt is the table by which a row of this physical id and commit-ts is to
// be decoded: the one whose switch-ts is the last below commitTS.
func (s *Store) TableAt(physicalID int64, commitTS tso.TS) (*event.Table, bool) {
	places := s.places[physicalID]
	for i := len(places) - 1; i >= 0; i-- {
		if p := &places[i]; p.from < commitTS {
			if commitTS > p.to {
				return nil, false
			}
			return p.line.at(commitTS)
		}
	}
	return nil, false
}

// Version is the table of a logical id just after ts, and up to where it is that;
// nil where there is none. Below what is kept it is the first that is.
func (s *Store) Version(id int64, ts tso.TS) (t *event.Table, upto tso.TS) {
	l := s.lines[id]
	if l == nil || len(l.versions) == 0 {
		return nil, tso.Max
	}
	for i := range l.versions {
		if v := &l.versions[i]; ts < v.to && (i == 0 || v.from <= ts) {
			return v.table, v.to
		}
	}
	return nil, tso.Max
}

// Tables are all tables, views and sequences that exist just after ts, by id.
func (s *Store) Tables(ts tso.TS) []*event.Table {
	var out []*event.Table
	for _, l := range s.lines {
		if t, ok := l.at(ts.Next()); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *event.Table) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Forget drops the versions that no row above below needs.
func (s *Store) Forget(below tso.TS) {
	if below < s.closed {
		return // called often, and rarely is there something
	}
	s.closed = tso.Max
	for id, l := range s.lines {
		l.versions = slices.DeleteFunc(l.versions, func(v version) bool { return v.to <= below })
		if len(l.versions) == 0 {
			delete(s.lines, id)
			continue
		}
		s.noteEnd(l.versions[0].to)
	}
	for id, places := range s.places {
		places = slices.DeleteFunc(places, func(p place) bool { return p.to <= below })
		if len(places) == 0 {
			delete(s.places, id)
			continue
		}
		s.places[id] = places
		s.noteEnd(places[0].to)
	}
}

func (s *Store) noteEnd(ts tso.TS) { s.closed = min(s.closed, ts) }

// at is the version of a row committed at ts.
func (l *line) at(ts tso.TS) (*event.Table, bool) {
	for i := len(l.versions) - 1; i >= 0; i-- {
		if v := &l.versions[i]; v.from < ts {
			return v.table, ts <= v.to
		}
	}
	return nil, false
}

// now is the table as it stands, nil where it is gone.
func (l *line) now() *event.Table {
	if l == nil || len(l.versions) == 0 {
		return nil
	}
	if v := l.versions[len(l.versions)-1]; v.to == tso.Max {
		return v.table
	}
	return nil
}

// open makes t the present version of its line from ts on, and gives its
// physical ids to the line.
func (s *Store) open(t *event.Table, ts tso.TS) {
	l := s.lines[t.ID]
	if l == nil {
		l = new(line)
		s.lines[t.ID] = l
	}
	if before := l.now(); before != nil {
		s.close(before, ts)
	}
	l.versions = append(l.versions, version{from: ts, to: tso.Max, table: t})
	s.names[nameOf(t)] = t.ID
	for _, id := range t.PhysicalIDs() {
		places := s.places[id]
		if n := len(places); n > 0 && places[n-1].line == l && places[n-1].to == ts {
			places[n-1].to = tso.Max // it never left
			continue
		}
		s.places[id] = append(places, place{from: ts, to: tso.Max, line: l})
	}
}

// close ends the present version of t's line at ts. A version that began at
// ts never was: it goes without a trace.
func (s *Store) close(t *event.Table, ts tso.TS) {
	l := s.lines[t.ID]
	last := &l.versions[len(l.versions)-1]
	last.to = ts
	s.noteEnd(ts)
	if last.from == ts {
		l.versions = l.versions[:len(l.versions)-1]
	}
	if s.names[nameOf(t)] == t.ID {
		delete(s.names, nameOf(t))
	}
	for _, id := range t.PhysicalIDs() {
		places := s.places[id]
		if n := len(places); n > 0 && places[n-1].line == l && places[n-1].to == tso.Max {
			places[n-1].to = ts
			if places[n-1].from == ts {
				places = places[:n-1]
			}
			s.places[id] = places
		}
	}
}

func nameOf(t *event.Table) name { return name{t.SchemaID, strings.ToLower(t.Name)} }

// compareRows is the order of commit. Within one transaction the job's own
// table comes before the history.
func compareRows(a, b JobRow) int {
	history := func(r JobRow) int {
		if r.History {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(a.CommitTS, b.CommitTS), cmp.Compare(a.StartTS, b.StartTS),
		cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(history(a), history(b)),
	)
}

func sameRow(a, b *JobRow) bool { return compareRows(*a, *b) == 0 }
