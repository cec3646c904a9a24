package filter

import (
	tidb "github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals: without it the parser panics on the first

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// ActionOf is the kind of job that TiDB makes of a statement, for a person who
// asks what a filter would do about it. What replicates never guesses: a job
// says its kind itself.
func ActionOf(statement string) (action event.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = cdcerr.InvalidArgument.New("the parser gave up (%v) on: %s", p, statement)
		}
	}()
	nodes, _, err := tidb.New().Parse(statement, "", "")
	if err != nil {
		return 0, cdcerr.InvalidArgument.Wrap(err, "statement %s", statement)
	}
	if len(nodes) != 1 {
		return 0, cdcerr.InvalidArgument.New("want one statement, there are %d", len(nodes))
	}
	if action = statementAction(nodes[0]); action == event.ActionNone {
		return 0, cdcerr.InvalidArgument.New("%s is no DDL whose kind can be told here", statement)
	}
	return action, nil
}

func statementAction(n ast.StmtNode) event.Action {
	switch n := n.(type) {
	case *ast.CreateDatabaseStmt:
		return event.ActionCreateSchema
	case *ast.DropDatabaseStmt:
		return event.ActionDropSchema
	case *ast.AlterDatabaseStmt:
		return event.ActionSchemaCharset
	case *ast.CreateTableStmt:
		return event.ActionCreateTable
	case *ast.DropTableStmt:
		if n.IsView {
			return event.ActionDropView
		}
		return event.ActionDropTable
	case *ast.TruncateTableStmt:
		return event.ActionTruncateTable
	case *ast.RenameTableStmt:
		if len(n.TableToTables) > 1 {
			return event.ActionRenameTables
		}
		return event.ActionRenameTable
	case *ast.CreateIndexStmt:
		return event.ActionAddIndex
	case *ast.DropIndexStmt:
		return event.ActionDropIndex
	case *ast.CreateViewStmt:
		return event.ActionCreateView
	case *ast.RecoverTableStmt, *ast.FlashBackTableStmt:
		return event.ActionRecoverTable
	case *ast.FlashBackDatabaseStmt:
		return event.ActionRecoverSchema
	case *ast.AlterTableStmt:
		return alterAction(n.Specs)
	}
	return event.ActionNone
}

// alterAction is one kind for one change, and the kind for several.
func alterAction(specs []*ast.AlterTableSpec) event.Action {
	out := event.ActionNone
	for _, s := range specs {
		switch s.Tp {
		case ast.AlterTableAlgorithm, ast.AlterTableLock, ast.AlterTableWithValidation, ast.AlterTableWithoutValidation:
			continue // they change nothing
		}
		if out != event.ActionNone {
			return event.ActionMultiSchemaChange
		}
		if out = specAction(s); out == event.ActionNone {
			return out
		}
	}
	return out
}

// specActions are the kinds of what can stand in ALTER TABLE.
var specActions = map[ast.AlterTableType]event.Action{
	ast.AlterTableAddColumns:          event.ActionAddColumn,
	ast.AlterTableDropColumn:          event.ActionDropColumn,
	ast.AlterTableDropPrimaryKey:      event.ActionDropPrimaryKey,
	ast.AlterTableDropIndex:           event.ActionDropIndex,
	ast.AlterTableDropForeignKey:      event.ActionDropForeignKey,
	ast.AlterTableModifyColumn:        event.ActionModifyColumn,
	ast.AlterTableChangeColumn:        event.ActionModifyColumn,
	ast.AlterTableRenameColumn:        event.ActionModifyColumn,
	ast.AlterTableRenameTable:         event.ActionRenameTable,
	ast.AlterTableAlterColumn:         event.ActionSetDefault,
	ast.AlterTableRenameIndex:         event.ActionRenameIndex,
	ast.AlterTableAddPartitions:       event.ActionAddPartition,
	ast.AlterTableCoalescePartitions:  event.ActionReorganizePartition,
	ast.AlterTableDropPartition:       event.ActionDropPartition,
	ast.AlterTableTruncatePartition:   event.ActionTruncatePartition,
	ast.AlterTablePartition:           event.ActionAlterPartitioning,
	ast.AlterTableRemovePartitioning:  event.ActionRemovePartitioning,
	ast.AlterTableReorganizePartition: event.ActionReorganizePartition,
	ast.AlterTableExchangePartition:   event.ActionExchangePartition,
	ast.AlterTableIndexInvisible:      event.ActionIndexVisibility,
	ast.AlterTableRemoveTTL:           event.ActionRemoveTTL,
	ast.AlterTableSetTiFlashReplica:   event.ActionSetTiFlashReplica,
	ast.AlterTableCache:               event.ActionCacheTable,
	ast.AlterTableNoCache:             event.ActionNoCacheTable,
	ast.AlterTableAttributes:          event.ActionTableAttributes,
	ast.AlterTablePartitionAttributes: event.ActionPartitionAttributes,
	ast.AlterTableAlterCheck:          event.ActionAlterCheck,
	ast.AlterTableDropCheck:           event.ActionDropCheck,
	ast.AlterTableDropFirstPartition:  event.ActionDropPartition,
	ast.AlterTableAddLastPartition:    event.ActionAddPartition,
}

func specAction(s *ast.AlterTableSpec) event.Action {
	switch s.Tp {
	case ast.AlterTableAddConstraint:
		switch s.Constraint.Tp {
		case ast.ConstraintPrimaryKey:
			return event.ActionAddPrimaryKey
		case ast.ConstraintForeignKey:
			return event.ActionAddForeignKey
		case ast.ConstraintCheck:
			return event.ActionAddCheck
		case ast.ConstraintFulltext, ast.ConstraintVector:
			return event.ActionAddColumnarIndex
		}
		return event.ActionAddIndex
	case ast.AlterTableOption:
		for _, o := range s.Options {
			switch o.Tp {
			case ast.TableOptionComment:
				return event.ActionTableComment
			case ast.TableOptionCharset, ast.TableOptionCollate:
				return event.ActionTableCharset
			case ast.TableOptionAutoIncrement:
				return event.ActionRebaseAutoID
			case ast.TableOptionTTL, ast.TableOptionTTLEnable, ast.TableOptionTTLJobInterval:
				return event.ActionAlterTTL
			case ast.TableOptionShardRowID:
				return event.ActionShardRowID
			}
		}
	}
	return specActions[s.Tp]
}
