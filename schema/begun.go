package schema

import (
	"encoding/json"

	"github.com/sluice-cdc/sluice/event"
)

// Begun is a job that had switched before the start and ran still: it counts as
// carried out downstream, by whoever copied the data there.
type Begun struct {
	*Job
	names   [][2]string // database and table, each by the names of before and after
	unknown bool        // some name of before cannot be told
}

// Touches tells whether any table of the job is wanted, under the name that it has
// or the one that it had. The words of a job do not tell: those of a rename are the
// old name in the new database, and of several tables none. Where a name cannot be
// told the job may touch anything.
func (b *Begun) Touches(wanted func(database, table string) bool) bool {
	for _, n := range b.names {
		if wanted(n[0], n[1]) {
			return true
		}
	}
	return b.unknown
}

// Begun are those jobs, with the names that their tables have at the start.
func (s *Store) Begun() (out []Begun) {
	for _, job := range s.begun {
		b := Begun{Job: job}
		switch job.Type {
		case event.ActionRenameTable, event.ActionRenameTables:
			b.renamed(s)
		default:
			b.name(job.SchemaName, job.TableName)
			b.table(s, job.TableID)
		}
		out = append(out, b)
	}
	return out
}

func (b *Begun) name(database, table string) {
	if table != "" {
		b.names = append(b.names, [2]string{database, table})
	}
}

// table adds what a table is called in the snapshot, which has the new names.
func (b *Begun) table(s *Store, id int64) {
	l := s.lines[id]
	if l == nil || len(l.versions) == 0 {
		return
	}
	t := l.versions[0].table
	b.name(t.Schema, t.Name)
}

// formerArg is where one table of a rename was.
type formerArg struct {
	TableID       int64 `json:"table_id"`
	OldSchemaID   int64 `json:"old_schema_id"`
	OldSchemaName Name  `json:"old_schema_name"`
	OldTableName  Name  `json:"old_table_name"`
}

// renamed adds the names of a rename's tables.
func (b *Begun) renamed(s *Store) {
	former, err := parseFormer(b.Job)
	b.unknown = err != nil || len(former) == 0
	for _, f := range former {
		b.table(s, f.TableID)
		database := f.OldSchemaName.O
		if db := s.databases[f.OldSchemaID]; database == "" && db != nil {
			database = db.Name.O
		}
		b.name(database, f.OldTableName.O)
		b.unknown = b.unknown || database == "" || f.OldTableName.O == ""
	}
}

// parseFormer reads where the tables of a rename, or of a rename of several, were.
func parseFormer(j *Job) (out []formerArg, err error) {
	if j.Type == event.ActionRenameTable {
		var newName json.RawMessage
		one := formerArg{}
		err = j.args(&one, &one.OldSchemaID, &newName, &one.OldSchemaName)
		one.TableID, one.OldTableName = j.TableID, Name{O: j.TableName}
		return []formerArg{one}, err
	}
	var v2 struct {
		Infos []formerArg `json:"rename_table_infos"`
	}
	var schemas, ids []int64
	var newSchemas, newNames json.RawMessage
	var schemaNames, names []Name
	err = j.args(&v2, &schemas, &newSchemas, &newNames, &ids, &schemaNames, &names)
	out = v2.Infos
	for i, id := range ids {
		one := formerArg{TableID: id}
		if i < len(schemas) {
			one.OldSchemaID = schemas[i]
		}
		if i < len(schemaNames) {
			one.OldSchemaName = schemaNames[i]
		}
		if i < len(names) {
			one.OldTableName = names[i]
		}
		out = append(out, one)
	}
	return out, err
}
