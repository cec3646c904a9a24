package schema

import (
	"bytes"
	"encoding/json"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Arguments of a job come in two forms. Version 1 is a JSON array, read by
// place; later TiDBs append elements, so that a short array is as good as a
// long one. Version 2 is an object. Each reader below takes both, and none of
// them is needed for what the job's own table metadata already says.

// renameArg is one table of a rename of several. Where it was the store knows.
type renameArg struct {
	TableID      int64 `json:"table_id"`
	NewSchemaID  int64 `json:"new_schema_id"`
	NewTableName Name  `json:"new_table_name"`
}

// exchangeArg is EXCHANGE PARTITION.
type exchangeArg struct {
	PartitionID   int64  `json:"partition_id"`
	SchemaID      int64  `json:"pt_schema_id"` // of the partitioned table
	TableID       int64  `json:"pt_table_id"`
	PartitionName string `json:"partition_name"`
	Validation    bool   `json:"with_validation"`
}

// modifyArg is MODIFY and CHANGE COLUMN.
type modifyArg struct {
	Column  ColumnInfo `json:"column"` // the new shape; its id is the old one
	OldID   int64      `json:"old_column_id"`
	OldName Name       `json:"old_column_name"`
}

// parseRenames reads the arguments of a rename of several tables, in order.
func parseRenames(j *Job) ([]renameArg, error) {
	var v2 struct {
		Infos []renameArg `json:"rename_table_infos"`
	}
	var oldSchemas, newSchemas, ids []int64
	var newNames []Name
	if err := j.args(&v2, &oldSchemas, &newSchemas, &newNames, &ids); err != nil {
		return nil, err
	}
	out := v2.Infos
	if len(newSchemas) != len(ids) || len(newNames) != len(ids) {
		return nil, cdcerr.InvalidDDLJob.New("job %d renames %d tables into %d schemas under %d names", j.ID, len(ids), len(newSchemas), len(newNames))
	}
	for i, id := range ids {
		out = append(out, renameArg{TableID: id, NewSchemaID: newSchemas[i], NewTableName: newNames[i]})
	}
	if len(out) == 0 {
		return nil, cdcerr.InvalidDDLJob.New("job %d renames tables, but its arguments list none", j.ID)
	}
	return out, nil
}

// parseExchange reads the arguments of EXCHANGE PARTITION.
func parseExchange(j *Job) (exchangeArg, error) {
	var a exchangeArg
	err := j.args(&a, &a.PartitionID, &a.SchemaID, &a.TableID, &a.PartitionName, &a.Validation)
	if err == nil && (a.PartitionID == 0 || a.TableID == 0) {
		err = cdcerr.InvalidDDLJob.New("job %d exchanges partition %d of table %d: both ids are needed", j.ID, a.PartitionID, a.TableID)
	}
	return a, err
}

// parseModify reads the arguments of MODIFY COLUMN, a job's or a sub-job's. A
// change without a rewrite leaves them empty at its end.
func parseModify(raw json.RawMessage) (modifyArg, error) {
	var a modifyArg
	err := decodeArgs(raw, &a, &a.Column, &a.OldName)
	return a, err
}

// parseDropColumn reads the name of the column that a DROP COLUMN drops.
func parseDropColumn(j *Job) (Name, error) {
	var v2 struct {
		Column ColumnInfo `json:"column_info"`
	}
	err := j.args(&v2, &v2.Column.Name)
	return v2.Column.Name, err
}

// parseDropIndex reads the name of the index that a DROP INDEX drops; of
// several, none.
func parseDropIndex(j *Job) (Name, error) {
	var v2 struct {
		Args []struct {
			Name Name `json:"index_name"`
		} `json:"index_args"`
	}
	var v1 json.RawMessage
	if err := j.args(&v2, &v1); err != nil {
		return Name{}, err
	}
	if len(v2.Args) == 1 {
		return v2.Args[0].Name, nil
	}
	if !present(v1) {
		return Name{}, nil
	}
	// By place: one name, or since 8.2 a list of names.
	if v1[0] != '[' {
		v1 = append(append(json.RawMessage{'['}, v1...), ']')
	}
	var names []Name
	if err := json.Unmarshal(v1, &names); err != nil || len(names) != 1 {
		return Name{}, err
	}
	return names[0], nil
}

// args decodes the job's arguments into one object (version 2) or into places
// (version 1). Arguments that are not there leave everything as it was.
func (j *Job) args(object any, places ...any) error {
	if err := decodeArgs(j.RawArgs, object, places...); err != nil {
		return cdcerr.InvalidDDLJob.Wrap(err, "job %d of type %d: arguments of version %d", j.ID, j.Type, j.Version)
	}
	return nil
}

func decodeArgs(raw json.RawMessage, object any, places ...any) error {
	raw = bytes.TrimSpace(raw)
	if !present(raw) {
		return nil
	}
	// The form itself tells: TiDB falls back to arrays where a cluster is
	// being upgraded, and job.version is then 1 or absent.
	if raw[0] != '[' {
		return json.Unmarshal(raw, object)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for i, place := range places {
		if i == len(list) {
			break
		}
		if err := json.Unmarshal(list[i], place); err != nil {
			return cdcerr.InvalidDDLJob.Wrap(err, "argument %d", i)
		}
	}
	return nil
}
