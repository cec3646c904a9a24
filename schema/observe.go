package schema

import (
	"cmp"
	"slices"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// observe follows one job through the rows of its life:
//
//	queueing ─▶ running (a row per step) ─▶ done ─▶ history row, job row deleted
//	                │                        └ counts from here, unless it switched before
//	                ├ switched: the resolved-ts stays below from here on
//	                └ rolled back or cancelled: nothing happened
func (s *Store) observe(row JobRow) {
	job := row.Job
	switch {
	case row.History:
		// Where tables are created without the job table (fast create table of
		// 8.1 and 8.2), the history row is all there is.
		if creates(job.Type) && job.State == StateSynced && !s.finished[job.ID] && !row.Delete {
			s.finish(row)
		}
		s.abandon(job.ID)
		delete(s.finished, job.ID)
		delete(s.silent, job.ID)
	case s.finished[job.ID]:
		// The done row, or a step before it, once more.
	case row.Delete, job.State == StateRollbackDone, job.State == StateCancelled:
		s.abandon(job.ID)
	case job.State == StateDone:
		s.finished[job.ID] = true
		if job.Binlog == nil || job.Binlog.SchemaVersion == 0 {
			s.abandon(job.ID) // it changed nothing upstream
			return
		}
		s.finish(row)
	case s.switched(job) && !s.silent[job.ID] && s.find(job.ID) == nil:
		s.insert(&step{jobID: job.ID, switchTS: row.CommitTS, running: job})
	}
}

// finish notes the done row of a job.
func (s *Store) finish(row JobRow) {
	st := s.find(row.Job.ID)
	if st == nil {
		st = &step{jobID: row.Job.ID, switchTS: row.CommitTS, silent: s.silent[row.Job.ID]}
		s.insert(st)
	}
	st.done = &row
	if row.Job.Type == event.ActionRecoverSchema {
		s.ask(st)
	}
}

// abandon drops a job that has switched and then ended without being done.
func (s *Store) abandon(jobID int64) {
	s.pending = slices.DeleteFunc(s.pending, func(st *step) bool { return st.jobID == jobID && st.done == nil })
}

func (s *Store) find(jobID int64) *step {
	for _, st := range s.pending {
		if st.jobID == jobID {
			return st
		}
	}
	return nil
}

func (s *Store) insert(st *step) {
	at, _ := slices.BinarySearchFunc(s.pending, st, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.switchTS, b.switchTS), cmp.Compare(a.jobID, b.jobID))
	})
	s.pending = slices.Insert(s.pending, at, st)
}

// advance takes the jobs whose outcome is known into the store, in order of
// their switch-ts, and moves the resolved-ts up to the first that is not.
func (s *Store) advance() error {
	for len(s.pending) > 0 && s.pending[0].done != nil {
		st := s.pending[0]
		if st.asked && !st.answered {
			break
		}
		d, err := s.apply(st)
		if err != nil {
			return err
		}
		if d != nil {
			s.ready.DDLs = append(s.ready.DDLs, d)
		}
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	to, cause := s.seen, "all job rows are here"
	if len(s.pending) > 0 {
		to, cause = s.pending[0].switchTS.Prev(), "a job has switched and runs"
		if s.pending[0].asked {
			cause = "the tables of a recovered database are read"
		}
	}
	if to > s.resolved {
		s.ready.Moves = append(s.ready.Moves, tso.Move{Stage: tso.StageSchema, From: s.resolved, To: to, Cause: cause})
		s.resolved = to
	}
	s.ready.Resolved = s.resolved
	return nil
}

// ask has the shell read the tables of a recovered database: the job does not
// list them, and what was dropped may be older than anything the store knows.
func (s *Store) ask(st *step) {
	st.asked = true
	id := st.done.Job.SchemaID
	if db := st.done.Job.Binlog.DBInfo; db != nil {
		id = db.ID
	}
	s.ready.Reads = append(s.ready.Reads, Read{JobID: st.jobID, SchemaID: id, At: st.done.CommitTS})
}

// creates tells whether a job brings tables that were never there before.
func creates(a event.Action) bool {
	return a == event.ActionCreateTable || a == event.ActionCreateTables || a == event.ActionCreateView || a == event.ActionCreateSequence
}
