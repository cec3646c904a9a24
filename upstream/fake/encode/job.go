package encode

import (
	"encoding/binary"

	"github.com/sluice-cdc/sluice/event"
)

// The tables in which TiDB keeps its DDL jobs.
const (
	jobTable     = 281474976710654 // mysql.tidb_ddl_job
	historyTable = 281474976710652 // mysql.tidb_ddl_history
)

// Job is a row of mysql.tidb_ddl_job: a DDL that runs. Meta is the job itself,
// as JSON; the lists of ids are text, with commas.
type Job struct {
	ID         int64
	Reorg      bool
	SchemaIDs  string
	TableIDs   string
	Meta       []byte
	Type       int64
	Processing bool
}

// FinishedJob is a row of mysql.tidb_ddl_history.
type FinishedJob struct {
	ID        int64
	Meta      []byte
	Schema    string
	Table     string
	SchemaIDs string
	TableIDs  string
	Created   Moment // in the zone of the server that wrote it
}

// Row is the record as TiDB's sessions write it: row format 1.
func (j Job) Row() (key, value []byte, err error) {
	value, err = Row1([]Cell{
		intCell(2, flag01(j.Reorg)),
		bytesCell(3, j.SchemaIDs),
		bytesCell(4, j.TableIDs),
		bytesCell(5, string(j.Meta)),
		intCell(6, j.Type),
		intCell(7, flag01(j.Processing)),
	})
	return RecordKey(jobTable, IntHandle(j.ID)), value, err
}

// Row is the record as TiDB's sessions write it: row format 1.
func (j FinishedJob) Row() (key, value []byte, err error) {
	value, err = Row1([]Cell{
		bytesCell(2, string(j.Meta)),
		bytesCell(3, j.Schema),
		bytesCell(4, j.Table),
		bytesCell(5, j.SchemaIDs),
		bytesCell(6, j.TableIDs),
		{Column: &event.Column{ID: 7, Name: "create_time", Type: event.TypeDatetime}, Value: j.Created},
	})
	return RecordKey(historyTable, IntHandle(j.ID)), value, err
}

func intCell(id, v int64) Cell {
	return Cell{Column: &event.Column{ID: id, Type: event.TypeLonglong}, Value: v}
}

func bytesCell(id int64, s string) Cell {
	return Cell{Column: &event.Column{ID: id, Type: event.TypeBlob}, Value: []byte(s)}
}

func flag01(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// HashKey is the raw key of one field of a metadata hash: databases are fields
// of "DBs", the tables of database 1 are fields of "DB:1".
func HashKey(hash, field string) []byte {
	key := appendBytes([]byte{'m'}, []byte(hash))
	key = binary.BigEndian.AppendUint64(key, 'h')
	return appendBytes(key, []byte(field))
}

// StringKey is the raw key of a metadata value of its own, such as
// "SchemaVersionKey".
func StringKey(name string) []byte {
	key := appendBytes([]byte{'m'}, []byte(name))
	return binary.BigEndian.AppendUint64(key, 's')
}
