package event

import "fmt"

// Action is TiDB's number for a kind of DDL job.
type Action int

// The kinds of DDL job, by TiDB's numbers.
const (
	ActionNone                Action = 0
	ActionCreateSchema        Action = 1
	ActionDropSchema          Action = 2
	ActionCreateTable         Action = 3
	ActionDropTable           Action = 4
	ActionAddColumn           Action = 5
	ActionDropColumn          Action = 6
	ActionAddIndex            Action = 7
	ActionDropIndex           Action = 8
	ActionAddForeignKey       Action = 9
	ActionDropForeignKey      Action = 10
	ActionTruncateTable       Action = 11
	ActionModifyColumn        Action = 12
	ActionRebaseAutoID        Action = 13
	ActionRenameTable         Action = 14
	ActionSetDefault          Action = 15
	ActionShardRowID          Action = 16
	ActionTableComment        Action = 17
	ActionRenameIndex         Action = 18
	ActionAddPartition        Action = 19
	ActionDropPartition       Action = 20
	ActionCreateView          Action = 21
	ActionTableCharset        Action = 22
	ActionTruncatePartition   Action = 23
	ActionDropView            Action = 24
	ActionRecoverTable        Action = 25
	ActionSchemaCharset       Action = 26
	ActionLockTable           Action = 27
	ActionUnlockTable         Action = 28
	ActionRepairTable         Action = 29
	ActionSetTiFlashReplica   Action = 30
	ActionTiFlashStatus       Action = 31
	ActionAddPrimaryKey       Action = 32
	ActionDropPrimaryKey      Action = 33
	ActionCreateSequence      Action = 34
	ActionAlterSequence       Action = 35
	ActionDropSequence        Action = 36
	ActionAddColumns          Action = 37
	ActionDropColumns         Action = 38
	ActionAutoIDCache         Action = 39
	ActionRebaseAutoRandom    Action = 40
	ActionIndexVisibility     Action = 41
	ActionExchangePartition   Action = 42
	ActionAddCheck            Action = 43
	ActionDropCheck           Action = 44
	ActionAlterCheck          Action = 45
	ActionAlterTableAlter     Action = 46
	ActionRenameTables        Action = 47
	ActionDropIndexes         Action = 48
	ActionTableAttributes     Action = 49
	ActionPartitionAttributes Action = 50
	ActionCreatePlacement     Action = 51
	ActionAlterPlacement      Action = 52
	ActionDropPlacement       Action = 53
	ActionPartitionPlacement  Action = 54
	ActionSchemaPlacement     Action = 55
	ActionTablePlacement      Action = 56
	ActionCacheTable          Action = 57
	ActionStatsOptions        Action = 58
	ActionNoCacheTable        Action = 59
	ActionCreateTables        Action = 60
	ActionMultiSchemaChange   Action = 61
	ActionFlashbackCluster    Action = 62
	ActionRecoverSchema       Action = 63
	ActionReorganizePartition Action = 64 // adding and coalescing hash partitions is one too
	ActionAlterTTL            Action = 65
	ActionUnused66            Action = 66
	ActionRemoveTTL           Action = 67
	ActionCreateResourceGroup Action = 68
	ActionAlterResourceGroup  Action = 69
	ActionDropResourceGroup   Action = 70
	ActionAlterPartitioning   Action = 71
	ActionRemovePartitioning  Action = 72
	ActionAddColumnarIndex    Action = 73
	ActionEngineAttribute     Action = 74
	ActionTableMode           Action = 75
	ActionRefreshMeta         Action = 76
	ActionSchemaReadOnly      Action = 77
	ActionTableAffinity       Action = 78
	ActionTableSoftDelete     Action = 79
	ActionSchemaSoftDelete    Action = 80
)

// actionNames are what logs and errors call them.
var actionNames = [...]string{
	ActionCreateSchema:        "create schema",
	ActionDropSchema:          "drop schema",
	ActionCreateTable:         "create table",
	ActionDropTable:           "drop table",
	ActionAddColumn:           "add column",
	ActionDropColumn:          "drop column",
	ActionAddIndex:            "add index",
	ActionDropIndex:           "drop index",
	ActionAddForeignKey:       "add foreign key",
	ActionDropForeignKey:      "drop foreign key",
	ActionTruncateTable:       "truncate table",
	ActionModifyColumn:        "modify column",
	ActionRebaseAutoID:        "rebase auto id",
	ActionRenameTable:         "rename table",
	ActionSetDefault:          "set default",
	ActionShardRowID:          "shard row id",
	ActionTableComment:        "table comment",
	ActionRenameIndex:         "rename index",
	ActionAddPartition:        "add partition",
	ActionDropPartition:       "drop partition",
	ActionCreateView:          "create view",
	ActionTableCharset:        "table charset",
	ActionTruncatePartition:   "truncate partition",
	ActionDropView:            "drop view",
	ActionRecoverTable:        "recover table",
	ActionSchemaCharset:       "schema charset",
	ActionLockTable:           "lock table",
	ActionUnlockTable:         "unlock table",
	ActionRepairTable:         "repair table",
	ActionSetTiFlashReplica:   "set TiFlash replica",
	ActionTiFlashStatus:       "TiFlash status",
	ActionAddPrimaryKey:       "add primary key",
	ActionDropPrimaryKey:      "drop primary key",
	ActionCreateSequence:      "create sequence",
	ActionAlterSequence:       "alter sequence",
	ActionDropSequence:        "drop sequence",
	ActionAddColumns:          "add columns",
	ActionDropColumns:         "drop columns",
	ActionAutoIDCache:         "auto id cache",
	ActionRebaseAutoRandom:    "rebase auto random",
	ActionIndexVisibility:     "index visibility",
	ActionExchangePartition:   "exchange partition",
	ActionAddCheck:            "add check",
	ActionDropCheck:           "drop check",
	ActionAlterCheck:          "alter check",
	ActionAlterTableAlter:     "alter table alter",
	ActionRenameTables:        "rename tables",
	ActionDropIndexes:         "drop indexes",
	ActionTableAttributes:     "table attributes",
	ActionPartitionAttributes: "partition attributes",
	ActionCreatePlacement:     "create placement",
	ActionAlterPlacement:      "alter placement",
	ActionDropPlacement:       "drop placement",
	ActionPartitionPlacement:  "partition placement",
	ActionSchemaPlacement:     "schema placement",
	ActionTablePlacement:      "table placement",
	ActionCacheTable:          "cache table",
	ActionStatsOptions:        "stats options",
	ActionNoCacheTable:        "no cache table",
	ActionCreateTables:        "create tables",
	ActionMultiSchemaChange:   "multi schema change",
	ActionFlashbackCluster:    "flashback cluster",
	ActionRecoverSchema:       "recover schema",
	ActionReorganizePartition: "reorganize partition",
	ActionAlterTTL:            "alter TTL",
	ActionRemoveTTL:           "remove TTL",
	ActionCreateResourceGroup: "create resource group",
	ActionAlterResourceGroup:  "alter resource group",
	ActionDropResourceGroup:   "drop resource group",
	ActionAlterPartitioning:   "alter partitioning",
	ActionRemovePartitioning:  "remove partitioning",
	ActionAddColumnarIndex:    "add columnar index",
	ActionEngineAttribute:     "engine attribute",
	ActionTableMode:           "table mode",
	ActionRefreshMeta:         "refresh meta",
	ActionSchemaReadOnly:      "schema read only",
	ActionTableAffinity:       "table affinity",
	ActionTableSoftDelete:     "table soft delete",
	ActionSchemaSoftDelete:    "schema soft delete",
}

// Known tells whether this release knows the kind, and TiDB uses it.
func (a Action) Known() bool {
	return a > ActionNone && int(a) < len(actionNames) && a != ActionUnused66
}

func (a Action) String() string {
	if !a.Known() {
		return fmt.Sprintf("action %d", int(a))
	}
	return actionNames[a]
}
