package schema

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// switched tells whether TiDB's writers use the job's shape already, although
// it runs still. Rows written from then on may be impossible, or mean something
// else, in the shape before:
//
//   - a rewriting MODIFY COLUMN turns its new column public (schema state 5)
//     and then takes the old one away in further steps;
//   - a multi-schema change turns all of its columns public in one step, from
//     which on its rows carry a table info;
//   - TRUNCATE PARTITION shows the new ids at delete-only (1) and after it;
//   - DROP PARTITION lets rows of its range into the next partition from
//     delete-only on, while a downstream would put them where they are dropped;
//   - REORGANIZE PARTITION, PARTITION BY and REMOVE PARTITIONING read the new
//     partitions from delete-reorganisation (4) on. Rows go to both the new ids
//     and the old before that and for some time after; whether to the old ones
//     until the end is not sure, to the new ones it is;
//   - DROP INDEX of a unique one lets rows in, from delete-only on, that a
//     downstream with the index refuses; it leaves sight a step before (2);
//   - a rename gives the new names one step before it is done (5). No row tells
//     names apart, but a changefeed that is resumed in between reads its schema
//     there: it must not find a name that the downstream lacks.
//
// Other steps only take away: a row without a dropped column reads as its
// default, a table that is being dropped gets no rows. They are not waited for,
// since between two steps TiDB may wait long for old transactions.
func (s *Store) switched(job *Job) bool {
	if !maySwitch(job) {
		return false
	}
	switch job.Type {
	case event.ActionDropIndex, event.ActionDropIndexes:
		return s.dropsUnique(job)
	}
	return true
}

// maySwitch is switched as far as the row alone tells. A job that is paused or
// about to be cancelled keeps the step that it has reached.
func maySwitch(job *Job) bool {
	switch job.State {
	case StateRunning, StateCancelling, StatePaused, StatePausing:
	default:
		return false
	}
	switch at := job.SchemaState; job.Type {
	case event.ActionModifyColumn, event.ActionRenameTable, event.ActionRenameTables:
		return at == SchemaPublic
	case event.ActionMultiSchemaChange:
		return job.Binlog != nil && job.Binlog.TableInfo != nil
	case event.ActionTruncatePartition, event.ActionDropPartition:
		return at == SchemaDeleteOnly || at == SchemaDeleteReorg
	case event.ActionReorganizePartition, event.ActionAlterPartitioning, event.ActionRemovePartitioning:
		return at == SchemaDeleteReorg || at == SchemaPublic
	case event.ActionDropIndex, event.ActionDropPrimaryKey, event.ActionDropIndexes:
		return at == SchemaWriteOnly || at == SchemaDeleteOnly || at == SchemaDeleteReorg
	}
	return false
}

// dropsUnique tells whether a DROP INDEX drops a unique one. What cannot be told
// is taken for one.
func (s *Store) dropsUnique(job *Job) bool {
	name, err := parseDropIndex(job)
	if err != nil || name.O == "" {
		return true
	}
	if info := s.newest(job.TableID); info != nil {
		for i := range info.Indexes {
			if x := &info.Indexes[i]; strings.EqualFold(x.Name.O, name.O) {
				return x.Unique || x.Primary
			}
		}
		return true
	}
	if t := s.lines[job.TableID].now(); t != nil {
		for i := range t.Indexes {
			if x := &t.Indexes[i]; strings.EqualFold(x.Name, name.O) {
				return x.Unique
			}
		}
	}
	return true
}

// newest is what is known of a table and has not come into the store: by the
// last job that is done and waits its turn, or by the snapshot. The answer must
// not depend on who waits for whom, or a changefeed that is resumed would see
// another switch-ts than before.
func (s *Store) newest(tableID int64) *TableInfo {
	for _, st := range slices.Backward(s.pending) {
		if st.done == nil {
			continue
		}
		b := st.done.Job.Binlog
		for _, info := range slices.Concat([]*TableInfo{b.TableInfo}, b.MultipleTableInfos, st.answer) {
			if info != nil && info.ID == tableID {
				return info
			}
		}
	}
	return s.unsettled[tableID]
}
