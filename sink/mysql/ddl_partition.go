package mysql

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// partitioning rewrites PARTITION BY; nil where the table is not partitioned
// downstream.
func (r *rewriter) partitioning(p *ast.PartitionOptions) (*ast.PartitionOptions, error) {
	if p == nil {
		return nil, nil
	}
	if feature := r.dialect.unpartitioned(r.after); feature != "" {
		r.note(feature, "PARTITION BY")
		return nil, nil
	}
	if p.Linear || p.Sub != nil || p.KeyAlgorithm != nil {
		p.Linear, p.Sub, p.KeyAlgorithm = false, nil, nil
		for _, def := range p.Definitions {
			def.Sub = nil
		}
		r.note(FeatureSubpartition, p.Tp.String())
	}
	if r.native() {
		return p, r.definitions(p.Definitions)
	}
	if p.Interval != nil {
		listed, err := partitionNode(r.after)
		if err != nil {
			return nil, err
		}
		r.note(FeatureInterval, "PARTITION BY")
		p = listed
	}
	p.UpdateIndexes = nil
	return p, r.definitions(p.Definitions)
}

// definitions rewrites the list of partitions.
func (r *rewriter) definitions(defs []*ast.PartitionDefinition) error {
	for _, def := range defs {
		options := def.Options
		def.Options = nil
		for _, o := range options {
			if o.Tp == ast.TableOptionComment || r.native() && o.Tp != ast.TableOptionPlacementPolicy {
				def.Options = append(def.Options, o)
			}
		}
		in, ok := def.Clause.(*ast.PartitionDefinitionClauseIn)
		if !ok || r.native() || !hasDefault(in) {
			continue
		}
		if r.dialect.Kind != MariaDB {
			return notPortable(r.ddl, r.dialect, FeatureListDefault, "partition %s", def.Name.O)
		}
		in.Values = nil // which prints as DEFAULT: values beside it stand in no other list
		r.note(FeatureListDefault, def.Name.O)
	}
	return nil
}

func hasDefault(in *ast.PartitionDefinitionClauseIn) bool {
	if len(in.Values) == 0 {
		return true
	}
	for _, tuple := range in.Values {
		for _, v := range tuple {
			if _, ok := v.(*ast.DefaultExpr); ok {
				return true
			}
		}
	}
	return false
}

// partitionNode is PARTITION BY made of the table's info.
func partitionNode(t *event.Table) (*ast.PartitionOptions, error) {
	text := "ALTER TABLE `t` " + partitionText(t)
	nodes, err := parseText(text, 0)
	if err != nil {
		return nil, cdcerr.ExecDDLFailed.Wrap(err, "%s: %s", t.FullName(), text)
	}
	if len(nodes) == 1 {
		if a, ok := nodes[0].(*ast.AlterTableStmt); ok && len(a.Specs) == 1 && a.Specs[0].Partition != nil {
			return a.Specs[0].Partition, nil
		}
	}
	return nil, cdcerr.ExecDDLFailed.New("%s: not one PARTITION BY: %s", t.FullName(), text)
}

func partitionText(t *event.Table) string {
	var b strings.Builder
	by := t.PartitionBy
	kinds := map[event.PartitionKind]string{event.ByRange: "RANGE", event.ByHash: "HASH", event.ByList: "LIST", event.ByKey: "KEY"}
	b.WriteString("PARTITION BY " + kinds[by.Kind])
	if by.Expr == "" || by.Kind == event.ByKey {
		if by.Kind != event.ByKey {
			b.WriteString(" COLUMNS")
		}
		names := make([]string, len(by.Columns))
		for i, c := range by.Columns {
			names[i] = ident(c)
		}
		b.WriteString(" (" + strings.Join(names, ",") + ")")
	} else {
		b.WriteString(" (" + by.Expr + ")")
	}
	b.WriteString(" (")
	for i, p := range t.Partitions {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("PARTITION " + ident(p.Name))
		switch by.Kind {
		case event.ByRange:
			b.WriteString(" VALUES LESS THAN (" + strings.Join(p.LessThan, ",") + ")")
		case event.ByList:
			tuples := make([]string, len(p.InValues))
			for i, v := range p.InValues {
				tuples[i] = strings.Join(v, ",")
				if len(v) > 1 {
					tuples[i] = "(" + tuples[i] + ")"
				}
			}
			b.WriteString(" VALUES IN (" + strings.Join(tuples, ",") + ")")
		}
	}
	b.WriteString(")")
	return b.String()
}

// exchange writes EXCHANGE PARTITION from the tables: the text's names may be
// those of the session's database.
func (s *script) exchange(d *event.DDL, dialect Dialect, canFill bool) error {
	if len(d.Tables) != 2 || d.Tables[0].Before == nil || d.Tables[1].Before == nil || d.Tables[0].After == nil || d.Tables[1].After == nil || d.Partition == "" {
		return cdcerr.Bug("job %d exchanges a partition and names %d tables and partition %q: %s", d.JobID, len(d.Tables), d.Partition, d.Query)
	}
	parted, plain := d.Tables[0].Before, d.Tables[1].Before
	if done, err := s.rowsAnew(d, dialect, canFill, parted); done || err != nil {
		return err
	}
	text := "ALTER TABLE " + qualified(parted.Schema, parted.Name) + " EXCHANGE PARTITION " + ident(d.Partition) +
		" WITH TABLE " + qualified(plain.Schema, plain.Name)
	if !d.WithValidation {
		if dialect.Kind == MariaDB && !dialect.atLeast(11, 4, 0) {
			s.note(FeatureValidation, parted.FullName())
		} else {
			text += " WITHOUT VALIDATION"
		}
	}
	s.add(text)
	return nil
}

// rowsAnew carries out a statement on the rows of one partition where upstream's
// and downstream's partitions of the same name hold different ones: the tables
// are emptied, and filled with what upstream has after the statement. done says
// that it was such a case.
func (s *script) rowsAnew(d *event.DDL, dialect Dialect, canFill bool, parted *event.Table) (done bool, err error) {
	feature := ""
	switch {
	case dialect.Kind == TiDB || parted.PartitionBy == nil:
		return false, nil
	case !dialect.keepsPartitions(parted):
		feature = dialect.unpartitioned(parted)
	case parted.PartitionBy.Kind == event.ByKey:
		feature = FeatureKeyPartition
	default:
		return false, nil
	}
	if !canFill {
		return false, notPortable(d, dialect, feature, "which rows of %s it takes cannot be told, and this sink was given nothing to read them with", parted.FullName())
	}
	s.note(feature, d.Query)
	for _, c := range d.Tables {
		s.add("TRUNCATE TABLE " + qualified(c.After.Schema, c.After.Name))
		s.fill = append(s.fill, c.After)
	}
	return true, nil
}
