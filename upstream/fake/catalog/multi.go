package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// queueChanges makes one job of several changes of a table.
func (p *planner) queueChanges(db *DBInfo, t *TableInfo, changes []*change) error {
	changes = mergeIndexes(changes)
	j := p.job(ActionMultiSchemaChange, db, t, nil)
	j.info.Multi = &MultiInfo{Revertible: true}
	j.info.SessionVars = statsVars()
	kind := plainReorgMeta
	for _, c := range changes {
		switch c.action {
		case ActionAddColumn, ActionDropColumn, ActionModifyColumn, ActionAddIndex, ActionDropIndex, ActionAddPrimaryKey,
			ActionDropPrimaryKey, ActionRenameIndex, ActionIndexVisibility, ActionSetDefault, ActionTableComment,
			ActionTableCharset, ActionRebaseAutoID, ActionShardRowID, ActionAddForeignKey, ActionDropForeignKey:
		default:
			return refuse(errUnsupported, "Unsupported multi schema change for action %d", c.action)
		}
		kind = max(kind, c.meta)
		j.reorg = j.reorg || c.reorg
		j.subs = append(j.subs, c.args)
		j.info.Multi.SubJobs = append(j.info.Multi.SubJobs, &SubJob{
			Type: c.action, SchemaState: c.state, Revertible: true, State: JobQueueing,
		})
		j.info.Involving = append(j.info.Involving, c.involving...)
	}
	j.info.Reorg = p.reorgMeta(kind)
	return nil
}

// multiStep is where a step of a sub-job stands.
type multiStep struct {
	sub  *SubJob
	skip bool // the version was brought by a sub-job before it in the same step
}

// hold tells a change that cannot be undone to wait until all others can no
// longer fail either, and notes that it is ready.
func (w *work) hold() bool {
	if w.multi == nil || !w.multi.sub.Revertible || w.rollingback() {
		return false
	}
	w.multi.sub.Revertible = false
	return true
}

// ready notes that a change has nothing left to do that could fail.
func (w *work) ready() {
	if w.multi != nil {
		w.multi.sub.Revertible = false
	}
}

// touch writes a table that has not changed, with no new version.
func (w *work) touch(t *TableInfo) { w.update(w.info.SchemaID, t) }

// runMulti does one step of a multi-schema change: first every change by itself
// up to where it can still be undone, then all of them past that point in one
// step, then the rest of each.
func (w *work) runMulti() error {
	m := w.info.Multi
	if m.Revertible {
		if w.rollingback() {
			return w.undoMulti()
		}
		for i, sub := range m.SubJobs {
			if sub.Revertible && sub.State != JobDone {
				return w.runSub(i, false)
			}
		}
		if w.info.Reorg.AnalyzeState == 0 {
			return w.analyzeMulti()
		}
		return w.flip()
	}
	for i, sub := range m.SubJobs {
		if sub.State != JobDone {
			return w.runSub(i, false)
		}
	}
	w.info.State = JobDone
	for _, sub := range m.SubJobs {
		w.info.Binlog.SchemaVersion = max(w.info.Binlog.SchemaVersion, sub.SchemaVersion)
	}
	return nil
}

// analyzeMulti is the step in which TiDB gathers statistics of what it filled.
func (w *work) analyzeMulti() error {
	t, err := w.table()
	if t == nil {
		return err
	}
	w.info.Reorg.AnalyzeState = analyzeSkipped
	w.bump(nil)
	w.update(w.info.SchemaID, t)
	return nil
}

// flip takes all changes past the point of no return.
func (w *work) flip() error {
	m := w.info.Multi
	var types []byte
	for i, sub := range m.SubJobs {
		if sub.State == JobDone {
			continue
		}
		types = append(types, byte(sub.Type))
		if err := w.runSub(i, w.version != 0); err != nil {
			return err
		}
	}
	if len(types) > 1 {
		w.putJSON(fmt.Sprint("Diff:", w.version), &SchemaDiff{
			Version: w.version, Type: ActionMultiSchemaChange, SchemaID: w.info.SchemaID, TableID: w.info.TableID, SubActionTypes: types,
		})
	}
	m.Revertible = false
	return nil
}

func (w *work) undoMulti() error {
	m := w.info.Multi
	for i := len(m.SubJobs) - 1; i >= 0; i-- {
		sub := m.SubJobs[i]
		switch sub.State {
		case JobRollbackDone, JobCancelled, JobDone:
			continue
		case JobQueueing:
			sub.State = JobCancelled
			continue
		}
		w.reportFailure()
		if sub.undone() {
			sub.State = JobCancelled // has changed nothing so far
			continue
		}
		return w.runSub(i, false)
	}
	w.info.State = JobRollbackDone
	return nil
}

// undone tells whether there is nothing to undo: the sub-job was only made
// ready, or is one that changes nothing until all are.
func (s *SubJob) undone() bool {
	switch s.Type {
	case ActionAddColumn, ActionAddIndex, ActionAddPrimaryKey, ActionAddForeignKey:
		return false
	case ActionModifyColumn:
		return s.SchemaState == StateNone && s.SchemaVersion == 0
	}
	return true
}

// runSub does one step of one sub-job, as if it were a job of its own.
func (w *work) runSub(n int, skip bool) error {
	sub := w.info.Multi.SubJobs[n]
	proxy := *w.info
	proxy.Type, proxy.SchemaState, proxy.State, proxy.SnapshotVer = sub.Type, sub.SchemaState, sub.State, sub.SnapshotVer
	proxy.Multi, proxy.Reorg = nil, &ReorgMeta{ReorgTp: sub.ReorgTp, AnalyzeState: sub.AnalyzeState, Stage: sub.ReorgStage}
	step := &work{
		c: w.c, j: &Job{c: w.c, args: w.j.subs[n], failure: w.j.failure}, info: &proxy, start: w.start,
		puts: w.puts, written: w.written, multi: &multiStep{sub: sub, skip: skip}, version: w.version,
	}
	proxy.State = JobRunning
	if w.rollingback() {
		proxy.State = JobRollingback
	}
	before := w.version
	if err := step.runAction(); err != nil {
		return err
	}
	if sub.RealStartTS == 0 {
		sub.RealStartTS = w.start
	}
	sub.SchemaState, sub.State, sub.SnapshotVer = proxy.SchemaState, proxy.State, proxy.SnapshotVer
	sub.ReorgTp, sub.AnalyzeState, sub.ReorgStage = proxy.Reorg.ReorgTp, proxy.Reorg.AnalyzeState, proxy.Reorg.Stage
	sub.SchemaVersion = 0
	if step.version != before {
		sub.SchemaVersion = step.version
	}
	w.version, w.backfill = step.version, step.backfill
	w.info.Binlog, w.info.Err, w.info.ErrCount = proxy.Binlog, proxy.Err, proxy.ErrCount
	w.j.subs[n] = step.j.args
	if proxy.State == JobCancelled {
		w.j.failure = proxy.Err
	}
	return nil
}

// encodeSubs writes the sub-jobs' arguments.
func (j *Job) encodeSubs() error {
	for i, args := range j.subs {
		text, err := json.Marshal(args)
		if err != nil {
			return fmt.Errorf("catalog: arguments of sub-job %d: %w", i, err)
		}
		j.info.Multi.SubJobs[i].RawArgs = text
	}
	return nil
}

// reread replaces arguments by what was written of them, as a server reads them
// that runs a job: bytes that are no UTF-8 have become U+FFFD.
func reread(args any, raw json.RawMessage) (any, error) {
	if args == nil || raw == nil {
		return args, nil
	}
	out := reflect.New(reflect.TypeOf(args).Elem()).Interface()
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	return out, nil
}
