package catalog

// Action is TiDB's number for a kind of DDL.
type Action uint8

// The actions, as TiDB stores them.
const (
	ActionNone              Action = 0
	ActionCreateSchema      Action = 1
	ActionDropSchema        Action = 2
	ActionCreateTable       Action = 3
	ActionDropTable         Action = 4
	ActionAddColumn         Action = 5
	ActionDropColumn        Action = 6
	ActionAddIndex          Action = 7
	ActionDropIndex         Action = 8
	ActionAddForeignKey     Action = 9
	ActionDropForeignKey    Action = 10
	ActionTruncateTable     Action = 11
	ActionModifyColumn      Action = 12
	ActionRebaseAutoID      Action = 13
	ActionRenameTable       Action = 14
	ActionSetDefault        Action = 15
	ActionShardRowID        Action = 16
	ActionTableComment      Action = 17
	ActionRenameIndex       Action = 18
	ActionAddPartition      Action = 19
	ActionDropPartition     Action = 20
	ActionCreateView        Action = 21
	ActionTableCharset      Action = 22
	ActionTruncatePartition Action = 23
	ActionDropView          Action = 24
	ActionRecoverTable      Action = 25
	ActionSchemaCharset     Action = 26
	ActionTiFlashReplica    Action = 30
	ActionAddPrimaryKey     Action = 32
	ActionDropPrimaryKey    Action = 33
	ActionCreateSequence    Action = 34
	ActionAlterSequence     Action = 35
	ActionDropSequence      Action = 36
	ActionAutoIDCache       Action = 39
	ActionRebaseAutoRandom  Action = 40
	ActionIndexVisibility   Action = 41
	ActionExchangePartition Action = 42
	ActionAddCheck          Action = 43
	ActionDropCheck         Action = 44
	ActionAlterCheck        Action = 45
	ActionRenameTables      Action = 47
	ActionTableAttributes   Action = 49
	ActionPartAttributes    Action = 50
	ActionCreatePolicy      Action = 51
	ActionAlterPolicy       Action = 52
	ActionDropPolicy        Action = 53
	ActionPartitionPolicy   Action = 54
	ActionSchemaPolicy      Action = 55
	ActionTablePolicy       Action = 56
	ActionCacheTable        Action = 57
	ActionNoCacheTable      Action = 59
	ActionCreateTables      Action = 60
	ActionMultiSchemaChange Action = 61
	ActionRecoverSchema     Action = 63
	ActionReorganize        Action = 64
	ActionAlterTTL          Action = 65
	ActionRemoveTTL         Action = 67
	ActionCreateGroup       Action = 68
	ActionAlterGroup        Action = 69
	ActionDropGroup         Action = 70
	ActionPartitionBy       Action = 71
	ActionRemovePartition   Action = 72
)
