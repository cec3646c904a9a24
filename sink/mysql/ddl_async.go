package mysql

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// building is an ADD INDEX that a TiDB downstream goes on with by itself. No row
// depends on it, so rows and the DDL of other tables do not wait.
type building struct {
	Job     int64  `json:"job"` // upstream's
	TableID int64  `json:"table"`
	Schema  string `json:"schema"`
	Name    string `json:"name"`  // the table's
	Index   string `json:"index"` // in lower case
	Text    string `json:"text"`
	Newest  int64  `json:"newest,string"` // TiDB's newest job before it
}

// A jobState is what became of a statement's job in TiDB.
type jobState uint8

const (
	jobUnknown jobState = iota // there is none: the statement never got there
	jobRuns
	jobDone
	jobFailed
)

// jobStates are TiDB's words for them.
var jobStates = map[string]jobState{
	"queueing": jobRuns, "running": jobRuns, "none": jobRuns, "pausing": jobRuns, "paused": jobRuns, "done": jobDone, "synced": jobDone,
	"rollingback": jobFailed, "rollback done": jobFailed, "cancelling": jobFailed, "cancelled": jobFailed,
}

// async tells whether a statement may go on by itself. Before needs TiDB's newest
// job, by which its own is found.
func (r *ddlRun) async(text string, before marks) bool {
	return r.session.dialect.Kind == TiDB && before.LastJob != 0 && r.ddl.Action == event.ActionAddIndex &&
		len(r.script.statements) == 1 && r.script.main == text && len(r.ddl.Tables) == 1 && r.ddl.Tables[0].After != nil
}

// goesOn finds out what became of an ADD INDEX for which nobody waits any more; done
// means that the DDL has nothing left to do.
func (r *ddlRun) goesOn(ctx context.Context, text string, before marks) (done bool, err error) {
	t := r.ddl.Tables[0].After
	b := building{Job: r.ddl.JobID, TableID: t.ID, Schema: t.Schema, Name: t.Name, Text: text, Newest: before.LastJob}
	for name := range expected(indexesOf, t, r.session.dialect) {
		if was := r.ddl.Tables[0].Before; was != nil && !expected(indexesOf, was, r.session.dialect)[name] {
			b.Index = name
		}
	}
	state, err := r.stateOf(ctx, &b)
	switch {
	case err != nil || state == jobUnknown:
		return false, err
	case state == jobFailed:
		return false, b.failed()
	case state == jobRuns:
		r.log.Info("the downstream goes on with an ADD INDEX by itself", "job", r.ddl.JobID, "statement", text)
		r.building = append(r.building, b)
	}
	return true, nil
}

func (b *building) failed() error {
	return cdcerr.ExecDDLFailed.Wrap(takenBack{}, "job %d: TiDB began %s", b.Job, b.Text)
}

// takenBack is that TiDB ended a statement's job without its effect.
type takenBack struct{}

func (takenBack) Error() string {
	return "it has taken it back: ADMIN SHOW DDL JOBS says why; add the index by hand, and resume the changefeed"
}

// stateOf asks for a statement's newest job.
func (s *Sink) stateOf(ctx context.Context, b *building) (state jobState, err error) {
	err = s.again(ctx, "looking for a DDL's job", func(ctx context.Context) error {
		conn, err := s.session.use(ctx)
		if err != nil {
			return err
		}
		text, err := cellOf(ctx, conn, "SELECT STATE FROM information_schema.ddl_jobs WHERE JOB_ID > "+strconv.FormatInt(b.Newest, 10)+" AND QUERY = "+quoted(b.Text)+" ORDER BY JOB_ID DESC LIMIT 1", 1)
		if err != nil || text == "" {
			state = jobUnknown
			return err
		}
		known := false
		if state, known = jobStates[strings.ToLower(text)]; !known {
			return cdcerr.MySQLQuery.New("information_schema.ddl_jobs has a job in state %q", text)
		}
		return nil
	})
	return state, err
}

// awaitBuilding waits for the indexes that are being added to tables of a DDL: TiDB
// would have it stand in line, and Sluice would take it for one that hangs.
func (s *Sink) awaitBuilding(ctx context.Context, leave sink.Leave, d *event.DDL) error {
	wait := pauseMin
	for {
		at := slices.IndexFunc(s.building, func(b building) bool { return b.concerns(d) })
		if at < 0 {
			return nil
		}
		if err := leave.Check(); err != nil {
			return err
		}
		over, err := s.lookAt(ctx, at)
		if err != nil {
			return err
		}
		if over {
			continue
		}
		if wait == pauseMin {
			s.log.Info("a DDL waits for an index that the downstream still adds", "job", d.JobID, "index", s.building[at].Text)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, pauseMax)
	}
}

// concerns tells whether a DDL is about the table, or its database.
func (b *building) concerns(d *event.DDL) bool {
	if d.DatabaseBefore != nil && strings.EqualFold(d.DatabaseBefore.Name, b.Schema) {
		return true
	}
	return slices.ContainsFunc(d.Tables, func(c event.TableChange) bool {
		return c.Before != nil && c.Before.ID == b.TableID || c.After != nil && c.After.ID == b.TableID
	})
}

// lookAt asks for one that is being built, and forgets it when it is over.
func (s *Sink) lookAt(ctx context.Context, at int) (over bool, err error) {
	b := s.building[at]
	state, err := s.stateOf(ctx, &b)
	if err != nil || state == jobRuns {
		return false, err
	}
	if state == jobUnknown {
		// The record of one that ended long ago, of which TiDB keeps no history, or
		// another cluster has taken over.
		state, err = s.lookForIndex(ctx, &b)
		if err != nil {
			return false, err
		}
	}
	s.building = slices.Delete(slices.Clone(s.building), at, at+1)
	switch state {
	case jobFailed:
		return true, b.failed()
	case jobUnknown:
		s.log.Warn("the downstream knows nothing of an ADD INDEX that went on by itself, and the index is not there: add it by hand", "job", b.Job, "statement", b.Text)
		return true, nil
	}
	s.log.Info("the downstream has added an index", "job", b.Job, "statement", b.Text)
	return true, nil
}

// lookForIndex looks for an index itself.
func (s *Sink) lookForIndex(ctx context.Context, b *building) (state jobState, err error) {
	err = s.again(ctx, "looking for an index", func(ctx context.Context) error {
		have, err := s.names(ctx, indexesOf, &event.Table{Schema: b.Schema, Name: b.Name})
		if have[b.Index] {
			state = jobDone
		}
		return err
	})
	return state, err
}

// lookEvery is how often indexes that are being added are asked for. Nothing waits
// for the answer.
const lookEvery = 5 * time.Second

// Checkpoint implements sink.Sink. What was flushed is durable already, and where
// captures write the rows this is how it is known here; an index that is being added is
// looked at, so that one that fails is not passed over.
func (s *Sink) Checkpoint(ctx context.Context, ts tso.TS) error {
	if at := uint64(ts); at > s.upTo.Load() {
		s.upTo.Store(at) // calls of this method come one at a time
	}
	if !s.calls.TryLock() {
		return nil // a DDL runs: the next call looks
	}
	defer s.calls.Unlock()
	if len(s.building) == 0 || time.Since(s.looked) < lookEvery {
		return nil
	}
	s.looked = time.Now()
	for at := len(s.building) - 1; at >= 0; at-- {
		if _, err := s.lookAt(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// durable is the latest checkpoint that was told.
func (s *Sink) durable() tso.TS { return tso.TS(s.upTo.Load()) }
