package mysql

import "github.com/sluice-cdc/sluice/event"

// The kinds of DDL job that this package tells apart, by TiDB's numbers. All
// others are statements on one table, which are rewritten clause by clause.
const (
	actionCreateSchema       event.Action = 1
	actionDropSchema         event.Action = 2
	actionCreateTable        event.Action = 3
	actionDropTable          event.Action = 4
	actionDropForeignKey     event.Action = 10
	actionTruncateTable      event.Action = 11
	actionRenameTable        event.Action = 14
	actionShardRowID         event.Action = 16
	actionCreateView         event.Action = 21
	actionTruncatePartition  event.Action = 23
	actionDropView           event.Action = 24
	actionRecoverTable       event.Action = 25
	actionSchemaCharset      event.Action = 26
	actionLockTable          event.Action = 27
	actionUnlockTable        event.Action = 28
	actionRepairTable        event.Action = 29
	actionSetTiFlashReplica  event.Action = 30
	actionTiFlashStatus      event.Action = 31
	actionCreateSequence     event.Action = 34
	actionAlterSequence      event.Action = 35
	actionDropSequence       event.Action = 36
	actionAutoIDCache        event.Action = 39
	actionRebaseAutoRandom   event.Action = 40
	actionExchangePartition  event.Action = 42
	actionAddCheck           event.Action = 43
	actionDropCheck          event.Action = 44
	actionAlterCheck         event.Action = 45
	actionRenameTables       event.Action = 47
	actionTableAttributes    event.Action = 49
	actionPartAttributes     event.Action = 50
	actionCreatePlacement    event.Action = 51
	actionAlterPlacement     event.Action = 52
	actionDropPlacement      event.Action = 53
	actionPartitionPlacement event.Action = 54
	actionSchemaPlacement    event.Action = 55
	actionTablePlacement     event.Action = 56
	actionCacheTable         event.Action = 57
	actionStatsOptions       event.Action = 58
	actionNoCacheTable       event.Action = 59
	actionCreateTables       event.Action = 60
	actionFlashbackCluster   event.Action = 62
	actionRecoverSchema      event.Action = 63
	actionAlterTTL           event.Action = 65
	actionRemoveTTL          event.Action = 67
	actionCreateGroup        event.Action = 68
	actionAlterGroup         event.Action = 69
	actionDropGroup          event.Action = 70
	actionColumnarIndex      event.Action = 73
	actionEngineAttribute    event.Action = 74
	actionTableMode          event.Action = 75
	actionRefreshMeta        event.Action = 76
	actionSchemaReadOnly     event.Action = 77
	actionAffinity           event.Action = 78
	actionTableSoftDelete    event.Action = 79
	actionSchemaSoftDelete   event.Action = 80
)

// withoutEffect names the feature to which a kind of job belongs that does
// nothing downstream; ok is false for all kinds that do something.
func withoutEffect(a event.Action, d Dialect) (feature string, ok bool) {
	switch a {
	case actionCreatePlacement, actionAlterPlacement, actionDropPlacement, actionPartitionPlacement,
		actionSchemaPlacement, actionTablePlacement:
		return FeaturePlacement, true
	case actionLockTable, actionUnlockTable, actionRepairTable, actionSetTiFlashReplica, actionTiFlashStatus,
		actionTableAttributes, actionPartAttributes, actionCacheTable, actionNoCacheTable, actionStatsOptions,
		actionCreateGroup, actionAlterGroup, actionDropGroup, actionColumnarIndex, actionEngineAttribute,
		actionTableMode, actionRefreshMeta, actionSchemaReadOnly, actionAffinity, actionTableSoftDelete,
		actionSchemaSoftDelete:
		return FeatureCluster, true
	}
	if d.Kind == TiDB {
		return "", false
	}
	switch a {
	case actionShardRowID, actionAutoIDCache, actionRebaseAutoRandom:
		return FeatureHints, true
	case actionAlterTTL, actionRemoveTTL:
		return FeatureTTL, true
	case actionAddCheck, actionDropCheck, actionAlterCheck:
		return FeatureCheck, true
	case actionCreateSequence, actionAlterSequence, actionDropSequence:
		return FeatureSequence, d.Kind != MariaDB
	}
	return "", false
}
