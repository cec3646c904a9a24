package catalog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// tableIdent names a table in arguments.
type tableIdent struct {
	Schema Name
	Name   Name
}

type dropTableArgs struct {
	Identifiers     []tableIdent `json:"identifiers,omitempty"`
	FKCheck         bool         `json:"fk_check,omitempty"`
	StartKey        []byte       `json:"start_key,omitempty"`
	OldPartitionIDs []int64      `json:"old_partition_ids,omitempty"`
	OldRuleIDs      []string     `json:"old_rule_ids,omitempty"`
}

type truncateArgs struct {
	FKCheck         bool    `json:"fk_check,omitempty"`
	NewTableID      int64   `json:"new_table_id,omitempty"`
	NewPartitionIDs []int64 `json:"new_partition_ids,omitempty"`
	OldPartitionIDs []int64 `json:"old_partition_ids,omitempty"`
}

func (p *planner) dropTable(s *ast.DropTableStmt) error {
	if s.TemporaryKeyword == ast.TemporaryLocal {
		return nil
	}
	action := ActionDropTable
	if s.IsView {
		action = ActionDropView
	}
	return p.drop(action, s.Tables, s.IfExists)
}

// dropped tells whether the statement of a kind drops such a table. If not, it
// is as if it were not there, or an error of its own.
func (t *TableInfo) dropped(action Action) (right bool, wrong string) {
	switch action {
	case ActionDropView:
		return t.View != nil, "VIEW"
	case ActionDropSequence:
		return t.Sequence != nil, "SEQUENCE"
	}
	return t.View == nil && t.Sequence == nil, ""
}

// drop makes a job of each table that is of the right kind.
func (p *planner) drop(action Action, names []*ast.TableName, ifExists bool) error {
	type target struct {
		db *DBInfo
		t  *TableInfo
	}
	var targets []target
	var idents []tableIdent
	var missing []string
	for _, n := range names {
		schema := n.Schema.O
		if schema == "" {
			schema = p.db
		}
		db, t, err := p.table(n)
		if err != nil && schema == "" {
			return err
		}
		idents = append(idents, tableIdent{MakeName(schema), MakeName(n.Name.O)})
		if err != nil {
			missing = append(missing, schema+"."+n.Name.O)
			continue
		}
		right, wrong := t.dropped(action)
		switch {
		case right:
			targets = append(targets, target{db, t})
		case wrong != "" && !(ifExists && action == ActionDropSequence):
			return refuse(errWrongObject, "'%s.%s' is not %s", db.Name.O, t.Name.O, wrong)
		default:
			missing = append(missing, schema+"."+n.Name.O)
		}
	}
	// What is there goes, even if the statement then fails for what is not.
	for _, x := range targets {
		args := &dropTableArgs{}
		if action == ActionDropTable {
			args.Identifiers, args.FKCheck = idents, true
		}
		j := p.job(action, x.db, x.t, args)
		j.info.SchemaState = StatePublic
	}
	if len(missing) > 0 && !ifExists {
		if action == ActionDropSequence {
			return refuse(4139, "Unknown SEQUENCE: '%s'", strings.Join(missing, ","))
		}
		return refuse(errBadTable, "Unknown table '%s'", strings.Join(missing, ","))
	}
	return nil
}

func (p *planner) dropSequence(s *ast.DropSequenceStmt) error {
	return p.drop(ActionDropSequence, s.Sequences, s.IfExists)
}

func (p *planner) truncate(s *ast.TruncateTableStmt) error {
	db, t, err := p.table(s.Table)
	if err != nil {
		return err
	}
	if t.View != nil || t.Sequence != nil {
		return refuse(errNoSuchTable, "Table '%s.%s' doesn't exist", db.Name.O, t.Name.O)
	}
	args := &truncateArgs{FKCheck: true, OldPartitionIDs: t.partitionIDs()}
	j := p.job(ActionTruncateTable, db, t, args)
	j.info.SessionVars = scatter()
	j.assign = func(ids *allocator) {
		args.NewTableID = ids.next()
		for range args.OldPartitionIDs {
			args.NewPartitionIDs = append(args.NewPartitionIDs, ids.next())
		}
		j.tables = []int64{t.ID, args.NewTableID}
	}
	return nil
}

// dropTable takes a table out of writers' hands, then away.
func (w *work) dropTable(a *dropTableArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	db := w.info.SchemaID
	switch t.State {
	case StatePublic:
		t.State = StateWriteOnly
	case StateWriteOnly:
		t.State = StateDeleteOnly
	default:
		w.bump(func(d *SchemaDiff) {
			for _, id := range t.partitionIDs() {
				d.AffectedOptions = append(d.AffectedOptions, &AffectedOption{TableID: id, OldTableID: id})
			}
		})
		t.State = StateNone
		t.Revision++
		w.dropAll(db, t.ID)
		w.j.args = &dropTableArgs{StartKey: tablePrefix(t.ID), OldPartitionIDs: t.partitionIDs(), OldRuleIDs: t.ruleIDs(w.info.SchemaName)}
		w.doneTable(StateNone, t)
		return nil
	}
	w.bump(nil)
	w.update(db, t)
	w.info.SchemaState = t.State
	return nil
}

// tablePrefix begins every key of a table.
func tablePrefix(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{'t'}, uint64(id)^1<<63)
}

// ruleIDs are the names of a table's placement rules: of its partitions, then its own.
func (t *TableInfo) ruleIDs(db string) []string {
	own := fmt.Sprintf("schema/%s/%s", db, t.Name.L)
	var out []string
	if t.Partition != nil {
		for _, d := range t.Partition.Definitions {
			out = append(out, own+"/"+d.Name.L)
		}
	}
	return append(out, own)
}

// dropAll deletes a table and its counters.
func (w *work) dropAll(db, id int64) {
	w.put(tableKey(db, id), nil)
	w.dropCounters(db, id)
}

// dropCounters deletes the counters of a table.
func (w *work) dropCounters(db, id int64) {
	suffix := fmt.Sprint(":", id)
	for _, key := range slices.Sorted(maps.Keys(w.c.other)) {
		if strings.HasPrefix(key, hashKey(db, "")) && strings.HasSuffix(key, suffix) {
			w.put(key, nil)
		}
	}
}

// truncateTable puts an empty table of new ids in the place of the old one.
func (w *work) truncateTable(a *truncateArgs) error {
	t, err := w.table()
	if t == nil {
		return err
	}
	db, old := w.info.SchemaID, t.ID
	w.bump(func(d *SchemaDiff) { d.TableID, d.OldTableID = a.NewTableID, old })
	w.dropAll(db, old)
	t.ID = a.NewTableID
	if t.Partition != nil {
		for i := range t.Partition.Definitions {
			t.Partition.Definitions[i].ID = a.NewPartitionIDs[i]
		}
	}
	w.putTable(db, t)
	w.doneTable(StatePublic, t)
	return nil
}
