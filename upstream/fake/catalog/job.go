package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// Job is one DDL on its way through its steps. Every call of Next is one of
// them; a caller may let time, writes and steps of other jobs pass in between,
// but for those that Conflicts names.
type Job struct {
	c       *Catalog
	info    JobInfo
	args    any   // written as the job's raw_args
	subs    []any // written as its sub-jobs' raw_args
	reorg   bool
	schemas []int64 // that the job works on, where they are not just its own
	tables  []int64
	listed  [2]string            // schemas and tables as they stand in the job's row
	assign  func(ids *allocator) // takes ids when the job is queued
	policy  *policyInfo          // to be given an id when the job is queued
	failure *JobError
	ended   bool
}

// Step is one transaction of a job.
type Step struct {
	// Writes are all that the transaction writes: metadata, the job's row in
	// tidb_ddl_job, at the end its row in tidb_ddl_history.
	Writes []KV
	// Job is the job as the step leaves it.
	Job JobInfo
	// Version is the schema version that the step brought, 0 for none.
	Version int64
	// Tables are the tables that the step changed, by database and id.
	Tables []TableChange
	// Backfill is what has to be done before the next step, nil for nothing.
	Backfill *Backfill
}

// TableChange is what a table was before a step and is after it: nil where it
// was or is not there. NewShape says how rows are written by servers that know
// the one, and by those that know the other: until the next step both do write.
type TableChange struct {
	SchemaID      int64
	Before, After *TableInfo
}

// Info is the job as its last step left it.
func (j *Job) Info() JobInfo { return j.info }

// Ended tells whether the job has come to its end, good or bad.
func (j *Job) Ended() bool { return j.ended }

// Next is the job's next step, in a transaction of that start-ts. The catalog
// takes the step at once, so the caller has to commit what it writes, in the
// order of the calls. It returns nil once the job has ended.
func (j *Job) Next(start tso.TS) (*Step, error) {
	if j.ended {
		return nil, nil
	}
	w := &work{c: j.c, j: j, info: &j.info, start: uint64(start), puts: map[string][]byte{}, written: map[string]*TableInfo{}}
	switch {
	case j.info.ID == 0:
		w.queue()
	case j.info.State == JobDone || j.info.State == JobRollbackDone || j.info.State == JobCancelled:
		w.finish()
	default:
		if err := w.step(); err != nil {
			return nil, fmt.Errorf("catalog: job %d: %w", j.info.ID, err)
		}
	}
	return w.commit()
}

// work is one step in the making.
type work struct {
	c        *Catalog
	j        *Job
	info     *JobInfo
	start    uint64
	puts     map[string][]byte // by readable key
	written  map[string]*TableInfo
	rows     []KV
	version  int64
	multi    *multiStep // of a sub-job
	backfill *Backfill
}

// allocator hands out ids.
type allocator struct {
	last int64
}

func (a *allocator) next() int64 {
	a.last++
	return a.last
}

// queue writes the job into tidb_ddl_job for the first time.
func (w *work) queue() {
	ids := &allocator{last: w.c.number("NextGlobalID")}
	if w.j.assign != nil {
		w.j.assign(ids)
	}
	if w.j.policy != nil {
		w.j.policy.ID = w.nextPolicyID()
	}
	w.info.ID = ids.next()
	w.info.StartTS = w.start
	w.j.listed[0], w.j.listed[1] = w.ids()
	w.put("NextGlobalID", []byte(strconv.FormatInt(ids.last, 10)))
}

// step runs the job's action once.
func (w *work) step() error {
	if err := w.reread(); err != nil {
		return err
	}
	if w.info.RealStartTS == 0 {
		w.info.RealStartTS = w.start
	}
	w.info.LastSchemaVersion = 0
	if w.turn() {
		return nil
	}
	if w.j.failure == nil {
		w.info.State = JobRunning
	}
	if err := w.run(); err != nil {
		return err
	}
	w.info.LastSchemaVersion = w.version
	return nil
}

// reread takes the arguments as the last step has written them.
func (w *work) reread() (err error) {
	if w.j.args, err = reread(w.j.args, w.info.RawArgs); err != nil {
		return err
	}
	for i, args := range w.j.subs {
		if w.j.subs[i], err = reread(args, w.info.Multi.SubJobs[i].RawArgs); err != nil {
			return err
		}
	}
	return nil
}

// finish moves the job from tidb_ddl_job to tidb_ddl_history.
func (w *work) finish() {
	if w.info.State == JobDone {
		w.info.State = JobSynced
	}
	w.info.Binlog.FinishedTS = w.start
	if !keepsArgs(w.info.Type) {
		w.j.args = nil
	}
	w.c.seq++
	w.info.SeqNum = w.c.seq
	w.j.ended = true
}

// commit closes the step: the catalog is from now on as it says.
func (w *work) commit() (*Step, error) {
	if err := w.j.encodeSubs(); err != nil {
		return nil, err
	}
	w.info.RawArgs = nil
	if w.j.args != nil {
		args, err := json.Marshal(w.j.args)
		if err != nil {
			return nil, fmt.Errorf("catalog: arguments of job %d: %w", w.info.ID, err)
		}
		w.info.RawArgs = args
	}
	meta, err := json.Marshal(w.info)
	if err != nil {
		return nil, fmt.Errorf("catalog: job %d: %w", w.info.ID, err)
	}
	if w.j.ended {
		w.put("DDLJobHistory/"+string(binary.BigEndian.AppendUint64(nil, uint64(w.info.ID))), meta)
	}
	if err := w.jobRows(meta); err != nil {
		return nil, err
	}
	s := &Step{Job: *w.info, Version: w.version, Backfill: w.backfill}
	for _, key := range slices.Sorted(maps.Keys(w.puts)) {
		kv := KV{rawKey(key), w.puts[key]}
		s.Writes = append(s.Writes, kv)
		change, isTable := w.c.changeOf(key)
		if err := w.c.Apply(kv, w.start); err != nil {
			return nil, err
		}
		if isTable {
			after, _ := w.c.changeOf(key)
			change.After = after.Before
			s.Tables = append(s.Tables, change)
		}
	}
	s.Writes = append(s.Writes, w.rows...)
	return s, nil
}

// changeOf is the table that stands under a key now, as a change's Before.
func (c *Catalog) changeOf(key string) (change TableChange, ok bool) {
	var id int64
	if _, err := fmt.Sscanf(key, "DB:%d/Table:%d", &change.SchemaID, &id); err != nil {
		return change, false
	}
	change.Before = c.tables[change.SchemaID][id]
	return change, true
}

func (w *work) jobRows(meta []byte) error {
	row := encode.Job{
		ID: w.info.ID, Reorg: w.j.reorg, SchemaIDs: w.j.listed[0], TableIDs: w.j.listed[1], Meta: meta, Type: int64(w.info.Type),
	}
	key, value, err := row.Row()
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	if !w.j.ended {
		w.rows = append(w.rows, KV{key, value})
		return nil
	}
	w.rows = append(w.rows, KV{Key: key})
	at := tso.TS(w.info.StartTS).Time().Round(time.Second)
	done := encode.FinishedJob{
		ID: w.info.ID, Meta: meta, Schema: w.info.SchemaName, Table: w.info.TableName,
		SchemaIDs: strconv.FormatInt(w.info.SchemaID, 10), TableIDs: strconv.FormatInt(w.info.TableID, 10),
		Created: createdAt(at),
	}
	key, value, err = done.Row()
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	w.rows = append(w.rows, KV{key, value})
	return nil
}

func createdAt(t time.Time) encode.Moment {
	return encode.Moment{Year: t.Year(), Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(), Second: t.Second()}
}

// ids are the lists in a job's row.
func (w *work) ids() (schemas, tables string) {
	list := func(ids []int64, own int64) string {
		if len(ids) == 0 {
			return strconv.FormatInt(own, 10)
		}
		var out []string
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			out = append(out, strconv.FormatInt(id, 10))
		}
		return strings.Join(out, ",")
	}
	return list(w.j.schemas, w.info.SchemaID), list(w.j.tables, w.info.TableID)
}

// put writes a key, given in its readable form; nil deletes it.
func (w *work) put(key string, value []byte) { w.puts[key] = value }
