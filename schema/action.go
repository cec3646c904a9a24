package schema

import "github.com/sluice-cdc/sluice/event"

// The kinds of DDL job, by TiDB's numbers.
const (
	ActionNone                event.Action = 0
	ActionCreateSchema        event.Action = 1
	ActionDropSchema          event.Action = 2
	ActionCreateTable         event.Action = 3
	ActionDropTable           event.Action = 4
	ActionAddColumn           event.Action = 5
	ActionDropColumn          event.Action = 6
	ActionAddIndex            event.Action = 7
	ActionDropIndex           event.Action = 8
	ActionAddForeignKey       event.Action = 9
	ActionDropForeignKey      event.Action = 10
	ActionTruncateTable       event.Action = 11
	ActionModifyColumn        event.Action = 12
	ActionRebaseAutoID        event.Action = 13
	ActionRenameTable         event.Action = 14
	ActionSetDefault          event.Action = 15
	ActionShardRowID          event.Action = 16
	ActionTableComment        event.Action = 17
	ActionRenameIndex         event.Action = 18
	ActionAddPartition        event.Action = 19
	ActionDropPartition       event.Action = 20
	ActionCreateView          event.Action = 21
	ActionTableCharset        event.Action = 22
	ActionTruncatePartition   event.Action = 23
	ActionDropView            event.Action = 24
	ActionRecoverTable        event.Action = 25
	ActionSchemaCharset       event.Action = 26
	ActionLockTable           event.Action = 27
	ActionUnlockTable         event.Action = 28
	ActionRepairTable         event.Action = 29
	ActionSetTiFlashReplica   event.Action = 30
	ActionTiFlashStatus       event.Action = 31
	ActionAddPrimaryKey       event.Action = 32
	ActionDropPrimaryKey      event.Action = 33
	ActionCreateSequence      event.Action = 34
	ActionAlterSequence       event.Action = 35
	ActionDropSequence        event.Action = 36
	ActionAddColumns          event.Action = 37
	ActionDropColumns         event.Action = 38
	ActionAutoIDCache         event.Action = 39
	ActionRebaseAutoRandom    event.Action = 40
	ActionIndexVisibility     event.Action = 41
	ActionExchangePartition   event.Action = 42
	ActionAddCheck            event.Action = 43
	ActionDropCheck           event.Action = 44
	ActionAlterCheck          event.Action = 45
	ActionAlterTableAlter     event.Action = 46
	ActionRenameTables        event.Action = 47
	ActionDropIndexes         event.Action = 48
	ActionTableAttributes     event.Action = 49
	ActionPartitionAttributes event.Action = 50
	ActionCreatePlacement     event.Action = 51
	ActionAlterPlacement      event.Action = 52
	ActionDropPlacement       event.Action = 53
	ActionPartitionPlacement  event.Action = 54
	ActionSchemaPlacement     event.Action = 55
	ActionTablePlacement      event.Action = 56
	ActionCacheTable          event.Action = 57
	ActionStatsOptions        event.Action = 58
	ActionNoCacheTable        event.Action = 59
	ActionCreateTables        event.Action = 60
	ActionMultiSchemaChange   event.Action = 61
	ActionFlashbackCluster    event.Action = 62
	ActionRecoverSchema       event.Action = 63
	ActionReorganizePartition event.Action = 64
	ActionAlterTTL            event.Action = 65
	ActionUnused66            event.Action = 66
	ActionRemoveTTL           event.Action = 67
	ActionCreateResourceGroup event.Action = 68
	ActionAlterResourceGroup  event.Action = 69
	ActionDropResourceGroup   event.Action = 70
	ActionAlterPartitioning   event.Action = 71
	ActionRemovePartitioning  event.Action = 72
	ActionAddColumnarIndex    event.Action = 73
	ActionEngineAttribute     event.Action = 74
	ActionTableMode           event.Action = 75
	ActionRefreshMeta         event.Action = 76
	ActionSchemaReadOnly      event.Action = 77
	ActionTableAffinity       event.Action = 78
	ActionTableSoftDelete     event.Action = 79
	ActionSchemaSoftDelete    event.Action = 80
)

// lastAction is the highest number that this release knows.
const lastAction = ActionSchemaSoftDelete

// The states of a job that matter to a reader.
const (
	StateNone         = 0
	StateRunning      = 1
	StateRollingBack  = 2
	StateRollbackDone = 3
	StateDone         = 4
	StateCancelled    = 5
	StateSynced       = 6
	StateCancelling   = 7
	StateQueueing     = 8
	StatePaused       = 9
	StatePausing      = 10
)

// The states of a schema object on its way into, or out of, public sight.
const (
	SchemaNone        = 0
	SchemaDeleteOnly  = 1
	SchemaWriteOnly   = 2
	SchemaDeleteReorg = 4
	SchemaPublic      = 5
)
