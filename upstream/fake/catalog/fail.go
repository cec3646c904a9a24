package catalog

import "fmt"

// Fail makes the job roll back from its next step on: its backfill met a
// duplicate key, or a value that does not fit, or someone cancels it. A job
// that is past what can be undone refuses.
func (j *Job) Fail(code int, message string) error {
	switch {
	case j.ended, j.failure != nil, !j.canFail():
		return fmt.Errorf("catalog: job %d of action %d cannot fail in state %d, schema state %d", j.info.ID, j.info.Type, j.info.State, j.info.SchemaState)
	}
	j.failure = &JobError{Class: 8, Code: code, Message: message, RFCCode: fmt.Sprint("kv:", code)}
	return nil
}

// canFail tells whether what the job has done so far can be undone.
func (j *Job) canFail() bool {
	if j.info.State == JobQueueing {
		return true
	}
	if j.info.State != JobRunning {
		return false
	}
	s := j.info.SchemaState
	building := s == StateDeleteOnly || s == StateWriteOnly || s == StateWriteReorg
	switch j.info.Type {
	case ActionAddColumn, ActionAddIndex, ActionAddPrimaryKey, ActionAddCheck, ActionReorganize, ActionPartitionBy, ActionRemovePartition:
		return building
	case ActionModifyColumn:
		return building || s == StateNone
	case ActionExchangePartition:
		return s == StateWriteOnly
	case ActionMultiSchemaChange:
		return j.info.Multi.Revertible
	}
	return false
}

// turn is the step in which a job that has failed turns round: it says why, and
// undoes nothing yet. A job that has not begun ends here. Indexes are undone from
// this step on; turned is false for them.
func (w *work) turn() (turned bool) {
	if w.j.failure == nil || w.info.State == JobRollingback {
		return false
	}
	if w.info.State == JobQueueing && w.info.ID != 0 {
		w.info.State = JobCancelled
		w.reportFailure()
		return true
	}
	w.info.State = JobRollingback
	switch w.info.Type {
	case ActionAddIndex, ActionAddPrimaryKey:
		return false
	case ActionMultiSchemaChange:
		return w.turnMulti()
	}
	w.reportFailure()
	return true
}

// turnMulti turns every sub-job round.
func (w *work) turnMulti() bool {
	running := ActionNone
	for _, sub := range w.info.Multi.SubJobs {
		if sub.State == JobRunning {
			running = sub.Type
		}
	}
	if running == ActionAddIndex || running == ActionAddPrimaryKey {
		return false
	}
	w.reportFailure()
	for _, sub := range w.info.Multi.SubJobs {
		switch sub.State {
		case JobRunning:
			sub.State = JobCancelling
		case JobQueueing:
			sub.State = JobCancelled
		}
	}
	return true
}
