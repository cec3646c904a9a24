package mysql

import "github.com/sluice-cdc/sluice/event"

// withoutEffect names the feature to which a kind of job belongs that does
// nothing downstream; ok is false for all kinds that do something.
func withoutEffect(a event.Action, d Dialect) (feature string, ok bool) {
	switch a {
	case event.ActionCreatePlacement, event.ActionAlterPlacement, event.ActionDropPlacement, event.ActionPartitionPlacement,
		event.ActionSchemaPlacement, event.ActionTablePlacement:
		return FeaturePlacement, true
	case event.ActionLockTable, event.ActionUnlockTable, event.ActionRepairTable, event.ActionSetTiFlashReplica, event.ActionTiFlashStatus,
		event.ActionTableAttributes, event.ActionPartitionAttributes, event.ActionCacheTable, event.ActionNoCacheTable, event.ActionStatsOptions,
		event.ActionCreateResourceGroup, event.ActionAlterResourceGroup, event.ActionDropResourceGroup, event.ActionAddColumnarIndex, event.ActionEngineAttribute,
		event.ActionTableMode, event.ActionRefreshMeta, event.ActionSchemaReadOnly, event.ActionTableAffinity, event.ActionTableSoftDelete,
		event.ActionSchemaSoftDelete:
		return FeatureCluster, true
	}
	if d.Kind == TiDB {
		return "", false
	}
	switch a {
	case event.ActionShardRowID, event.ActionAutoIDCache, event.ActionRebaseAutoRandom:
		return FeatureHints, true
	case event.ActionAlterTTL, event.ActionRemoveTTL:
		return FeatureTTL, true
	case event.ActionAddCheck, event.ActionDropCheck, event.ActionAlterCheck:
		return FeatureCheck, true
	case event.ActionCreateSequence, event.ActionAlterSequence, event.ActionDropSequence:
		return FeatureSequence, d.Kind != MariaDB
	}
	return "", false
}
