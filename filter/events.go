package filter

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/strict"
)

// eventKind is one word that may stand in ignore-event.
type eventKind struct {
	name    string
	rows    []event.RowKind
	actions []event.Action
	all     bool   // every DDL
	means   string // where the name does not say it
}

// alterActions are the statements that begin with ALTER TABLE, but for those
// that have a statement of their own beside (CREATE INDEX, RENAME TABLE, TRUNCATE).
var alterActions = []event.Action{
	event.ActionAddPartition, event.ActionDropPartition, event.ActionTruncatePartition, event.ActionReorganizePartition,
	event.ActionExchangePartition, event.ActionAlterPartitioning, event.ActionRemovePartitioning,
	event.ActionAddColumn, event.ActionAddColumns, event.ActionDropColumn, event.ActionDropColumns, event.ActionModifyColumn,
	event.ActionSetDefault, event.ActionRenameIndex, event.ActionAddPrimaryKey, event.ActionDropPrimaryKey, event.ActionRebaseAutoID,
	event.ActionIndexVisibility, event.ActionAlterTTL, event.ActionRemoveTTL, event.ActionTableComment, event.ActionTableCharset,
	event.ActionMultiSchemaChange, event.ActionAddForeignKey, event.ActionDropForeignKey, event.ActionShardRowID,
}

// eventKinds are the words, in the order in which the documents list them.
var eventKinds = []eventKind{
	{name: "all dml", rows: []event.RowKind{event.Insert, event.Update, event.DeleteRow}, means: "every change of a row"},
	{name: "insert", rows: []event.RowKind{event.Insert}},
	{name: "update", rows: []event.RowKind{event.Update}, means: "also one that changes the key"},
	{name: "delete", rows: []event.RowKind{event.DeleteRow}},
	{name: "all ddl", all: true, means: "every DDL"},
	{name: "create schema", actions: []event.Action{event.ActionCreateSchema}},
	{name: "create database", actions: []event.Action{event.ActionCreateSchema}},
	{name: "drop schema", actions: []event.Action{event.ActionDropSchema}},
	{name: "drop database", actions: []event.Action{event.ActionDropSchema}},
	{name: "create table", actions: []event.Action{event.ActionCreateTable, event.ActionCreateTables}},
	{name: "drop table", actions: []event.Action{event.ActionDropTable}},
	{name: "truncate table", actions: []event.Action{event.ActionTruncateTable}},
	{name: "rename table", actions: []event.Action{event.ActionRenameTable, event.ActionRenameTables}},
	{name: "create index", actions: []event.Action{event.ActionAddIndex}, means: "also by ALTER TABLE"},
	{name: "drop index", actions: []event.Action{event.ActionDropIndex, event.ActionDropIndexes}, means: "also by ALTER TABLE"},
	{name: "create view", actions: []event.Action{event.ActionCreateView}},
	{name: "drop view", actions: []event.Action{event.ActionDropView}},
	{name: "alter table", actions: alterActions, means: "every ALTER TABLE, but for indexes that are created or dropped and for RENAME"},
	{name: "add table partition", actions: []event.Action{event.ActionAddPartition}},
	{name: "drop table partition", actions: []event.Action{event.ActionDropPartition}},
	{name: "truncate table partition", actions: []event.Action{event.ActionTruncatePartition}},
	{name: "reorganize table partition", actions: []event.Action{event.ActionReorganizePartition}, means: "also hash partitions added or taken together"},
	{name: "exchange table partition", actions: []event.Action{event.ActionExchangePartition}},
	{name: "alter table partitioning", actions: []event.Action{event.ActionAlterPartitioning}},
	{name: "remove table partitioning", actions: []event.Action{event.ActionRemovePartitioning}},
	{name: "add column", actions: []event.Action{event.ActionAddColumn, event.ActionAddColumns}},
	{name: "drop column", actions: []event.Action{event.ActionDropColumn, event.ActionDropColumns}},
	{name: "modify column", actions: []event.Action{event.ActionModifyColumn}},
	{name: "set default value", actions: []event.Action{event.ActionSetDefault}},
	{name: "rename index", actions: []event.Action{event.ActionRenameIndex}},
	{name: "add primary key", actions: []event.Action{event.ActionAddPrimaryKey}},
	{name: "drop primary key", actions: []event.Action{event.ActionDropPrimaryKey}},
	{name: "rebase auto id", actions: []event.Action{event.ActionRebaseAutoID}},
	{name: "alter index visibility", actions: []event.Action{event.ActionIndexVisibility}},
	{name: "alter ttl info", actions: []event.Action{event.ActionAlterTTL}},
	{name: "alter ttl remove", actions: []event.Action{event.ActionRemoveTTL}},
	{name: "modify table comment", actions: []event.Action{event.ActionTableComment}},
	{name: "modify table charset and collate", actions: []event.Action{event.ActionTableCharset}},
	{name: "modify schema charset and collate", actions: []event.Action{event.ActionSchemaCharset}},
	{name: "recover table", actions: []event.Action{event.ActionRecoverTable}},
	{name: "multi schema change", actions: []event.Action{event.ActionMultiSchemaChange}, means: "one ALTER TABLE with several changes, whatever they are"},
	{name: "add foreign key", actions: []event.Action{event.ActionAddForeignKey}},
	{name: "drop foreign key", actions: []event.Action{event.ActionDropForeignKey}},
	{name: "add fulltext index", actions: []event.Action{event.ActionAddColumnarIndex}},
	{name: "create hybrid index", actions: []event.Action{event.ActionAddColumnarIndex}},
}

// EventName is one word for ignore-event, with what it means where that is not plain.
type EventName struct{ Name, Means string }

// EventNames are all words for ignore-event.
func EventNames() []EventName {
	out := make([]EventName, len(eventKinds))
	for i, k := range eventKinds {
		out[i] = EventName{k.name, k.means}
	}
	return out
}

// kinds is what a list of words comes to.
type kinds struct {
	rows    [event.DeleteRow + 1]bool
	actions map[event.Action]bool
	all     bool
}

func parseKinds(words []string) (kinds, error) {
	out := kinds{actions: map[event.Action]bool{}}
	for _, w := range words {
		i := slices.IndexFunc(eventKinds, func(k eventKind) bool { return k.name == strings.ToLower(strings.TrimSpace(w)) })
		if i < 0 {
			names := make([]string, len(eventKinds))
			for i, k := range eventKinds {
				names[i] = k.name
			}
			hint := ""
			if near := strict.Nearest(w, names); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return out, cdcerr.IgnoreEventInvalid.New("ignore-event: %q%s", w, hint)
		}
		k := eventKinds[i]
		for _, r := range k.rows {
			out.rows[r] = true
		}
		for _, a := range k.actions {
			out.actions[a] = true
		}
		out.all = out.all || k.all
	}
	return out, nil
}

func (k *kinds) ddl(a event.Action) bool { return k.all || k.actions[a] }
