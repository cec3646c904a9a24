package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// stormStreams is how many streams of DDL run at once, each in a database of
// its own: jobs of one table, and of one database, wait for each other in TiDB.
const stormStreams = 2

// stormTables is how many tables a stream keeps, about.
const stormTables = 5

// storm changes rows while DDL changes the tables under the writers.
type storm struct {
	rows
	counters [stormStreams]int // names that were given
}

func stormDB(stream int) string { return fmt.Sprintf("storm%d", stream) }

func (g *storm) databases() []string {
	var out []string
	for i := range stormStreams {
		out = append(out, stormDB(i))
	}
	return out
}

func (g *storm) streams() int { return stormStreams }

func (g *storm) prepare(ctx context.Context, w *Workload) error {
	for i := range stormStreams {
		if err := w.create(ctx, "", "CREATE DATABASE "+stormDB(i)); err != nil {
			return err
		}
		err := w.create(ctx, stormDB(i),
			"CREATE TABLE base (id bigint NOT NULL PRIMARY KEY, v varchar(20), n int NOT NULL DEFAULT 3)",
			"CREATE TABLE clustered (id varchar(30) NOT NULL, w int, PRIMARY KEY (id) CLUSTERED)",
			"CREATE TABLE hashed (id bigint NOT NULL PRIMARY KEY, v varchar(20)) PARTITION BY HASH (id) PARTITIONS 3",
			g.ranged("ranged"))
		if err != nil {
			return err
		}
	}
	return nil
}

// ranged is a table cut by ranges, the last of which takes all that is left.
func (g *storm) ranged(name string) string {
	n := g.cfg.Size
	return fmt.Sprintf("CREATE TABLE %s (id bigint NOT NULL PRIMARY KEY, v varchar(20), n int) PARTITION BY RANGE (id) "+
		"(PARTITION p0 VALUES LESS THAN (%d), PARTITION p1 VALUES LESS THAN (%d), PARTITION p2 VALUES LESS THAN (%d), PARTITION pmax VALUES LESS THAN MAXVALUE)",
		name, n/4, n/2, 3*n/4)
}

func (g *storm) play(ctx context.Context, x *Session, rng *rand.Rand) (bool, error) {
	return g.change(ctx, x, x.Tables(stormDB(rng.IntN(stormStreams))), rng)
}

// alter runs one statement, or a few that belong together. What TiDB would
// refuse is passed over: the next will do.
func (g *storm) alter(ctx context.Context, w *Workload, stream int, rng *rand.Rand) (bool, error) {
	s := &scribe{server: w.Server, db: stormDB(stream), size: g.cfg.Size, rng: rng, names: &g.counters[stream], create: g.ranged}
	for _, sql := range s.statements() {
		err := w.Server.Exec(ctx, sql, catalog.Session{DB: s.db}, Linger(rng))
		var refused *catalog.Error
		if errors.As(err, &refused) {
			w.told(s.db, sql, err)
			return false, nil
		}
		if err != nil {
			return true, fmt.Errorf("%s: %w", sql, err)
		}
		w.told(s.db, sql, nil)
	}
	return false, nil
}

// scribe makes DDL up for one database.
type scribe struct {
	server *Server
	db     string
	size   int
	rng    *rand.Rand
	names  *int
	create func(name string) string // a table cut by ranges
}

// name is one that was not given before.
func (s *scribe) name(prefix string) string {
	*s.names++
	return fmt.Sprintf("%s%d", prefix, *s.names)
}

// tables are those that stand now.
func (s *scribe) tables() []*catalog.Shape {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.server.current.tables), func(t *catalog.Shape) bool { return t.Table.Schema != s.db })
}

// statements are the next: on the tables' number, on one table, or on its partitions.
func (s *scribe) statements() []string {
	all := s.tables()
	if len(all) < stormTables-2 || (len(all) < stormTables && s.rng.IntN(3) == 0) {
		return s.newTable(all)
	}
	t := all[s.rng.IntN(len(all))]
	switch n := s.rng.IntN(10); {
	case n == 0:
		return s.rename(t, all)
	case n == 1:
		return s.away(t)
	case n <= 4:
		return s.partitions(t)
	}
	return s.columns(t)
}

func (s *scribe) newTable(all []*catalog.Shape) []string {
	name := s.name("t")
	switch s.rng.IntN(4) {
	case 0:
		return []string{s.create(name)}
	case 1:
		if len(all) > 0 {
			return []string{fmt.Sprintf("CREATE TABLE %s LIKE %s", name, all[s.rng.IntN(len(all))].Table.Name)}
		}
	case 2:
		return []string{fmt.Sprintf("CREATE TABLE %s (id varchar(30) NOT NULL, x %s, PRIMARY KEY (id) CLUSTERED)", name, s.definition())}
	}
	return []string{fmt.Sprintf("CREATE TABLE %s (id bigint NOT NULL PRIMARY KEY, x %s, y %s)", name, s.definition(), s.definition())}
}

// rename renames a table, or swaps two in one statement.
func (s *scribe) rename(t *catalog.Shape, all []*catalog.Shape) []string {
	other := all[s.rng.IntN(len(all))]
	if other == t || s.rng.IntN(2) == 0 {
		return []string{fmt.Sprintf("RENAME TABLE %s TO %s", t.Table.Name, s.name("t"))}
	}
	between := s.name("tmp")
	return []string{fmt.Sprintf("RENAME TABLE %[1]s TO %[3]s, %[2]s TO %[1]s, %[3]s TO %[2]s", t.Table.Name, other.Table.Name, between)}
}

// away empties a table, drops it, or drops it and brings it back.
func (s *scribe) away(t *catalog.Shape) []string {
	name := t.Table.Name
	switch s.rng.IntN(4) {
	case 0:
		return []string{"DROP TABLE " + name}
	case 1:
		return []string{"DROP TABLE " + name, fmt.Sprintf("FLASHBACK TABLE %s TO %s", name, s.name("t"))}
	}
	return []string{"TRUNCATE TABLE " + name}
}

// definition is the type of a column, with its default.
func (s *scribe) definition() string {
	all := []string{
		"int", "int NOT NULL DEFAULT 5", "bigint unsigned DEFAULT 18446744073709551615", "varchar(20)", "varchar(20) NOT NULL DEFAULT 'dflt'",
		"decimal(10,2) DEFAULT 1.5", "datetime(3)", "datetime DEFAULT '2024-02-03 04:05:06'", "timestamp NULL DEFAULT NULL", "double NOT NULL DEFAULT 0.25",
		"enum('a','b','c') DEFAULT 'b'", "set('x','y','z')", "date", "varbinary(16)", "year", "char(5) NOT NULL DEFAULT 'x'", "bit(5) DEFAULT b'101'", "text",
	}
	return all[s.rng.IntN(len(all))]
}

// free are the columns that may be changed: all but the key.
func free(t *catalog.Shape) []*event.Column {
	var out []*event.Column
	for i := range t.Table.Columns {
		if !identifies(t, i) {
			out = append(out, &t.Table.Columns[i])
		}
	}
	return out
}

// columns changes the columns or indexes of a table.
func (s *scribe) columns(t *catalog.Shape) []string {
	var clauses []string
	used := map[string]bool{}
	for range 1 + s.rng.IntN(3)/2 { // a third of them change several things at once
		if c := s.clause(t, used); c != "" {
			clauses = append(clauses, c)
		}
	}
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("ALTER TABLE %s %s", t.Table.Name, strings.Join(clauses, ", "))}
}

// clause is one change of a table; the columns in used are part of another.
func (s *scribe) clause(t *catalog.Shape, used map[string]bool) string {
	columns := slices.DeleteFunc(free(t), func(c *event.Column) bool { return used[c.Name] })
	var c *event.Column
	if len(columns) > 0 {
		c = columns[s.rng.IntN(len(columns))]
	}
	if c == nil || len(t.Table.Columns) < 4 && s.rng.IntN(2) == 0 {
		return s.add(t, used)
	}
	used[c.Name] = true
	switch s.rng.IntN(7) {
	case 0:
		delete(used, c.Name)
		return s.add(t, used)
	case 1:
		if len(columns) > 1 && !indexed(t, c) {
			return "DROP COLUMN " + c.Name
		}
	case 2:
		return fmt.Sprintf("RENAME COLUMN %s TO %s", c.Name, s.name("r"))
	case 3:
		return s.index(t, c)
	case 4:
		if c.Type == event.TypeLong && !c.Unsigned() {
			return fmt.Sprintf("ALTER COLUMN %s SET DEFAULT %d", c.Name, s.rng.IntN(100))
		}
	}
	return s.modify(c)
}

func (s *scribe) add(t *catalog.Shape, used map[string]bool) string {
	place := ""
	switch s.rng.IntN(3) {
	case 0:
		place = " FIRST"
	case 1:
		if c := t.Table.Columns[s.rng.IntN(len(t.Table.Columns))].Name; !used[c] {
			place = " AFTER " + c
		}
	}
	return fmt.Sprintf("ADD COLUMN %s %s%s", s.name("c"), s.definition(), place)
}

func indexed(t *catalog.Shape, c *event.Column) bool {
	return slices.ContainsFunc(t.Info.Indices, func(x *catalog.IndexInfo) bool {
		return slices.ContainsFunc(x.Columns, func(part *catalog.IndexColumn) bool { return part.Name.O == c.Name })
	})
}

func (s *scribe) index(t *catalog.Shape, c *event.Column) string {
	for _, x := range t.Info.Indices {
		if !x.Primary && s.rng.IntN(2) == 0 {
			return "DROP INDEX " + x.Name.O
		}
	}
	if c.Type == event.TypeBlob || c.Type == event.TypeJSON || c.Type == event.TypeBit {
		return s.modify(c)
	}
	return fmt.Sprintf("ADD INDEX %s (%s)", s.name("i"), c.Name)
}

// modify changes a column's type to one that holds all it held: in place where
// the stored form stays, else by rewriting every row.
func (s *scribe) modify(c *event.Column) string {
	to := ""
	switch c.Type {
	case event.TypeVarchar:
		to = fmt.Sprintf("varchar(%d)", c.Flen+10)
		if c.IsBinary() {
			to = fmt.Sprintf("varbinary(%d)", c.Flen+10)
		}
	case event.TypeLong:
		to = "bigint"
		if s.rng.IntN(2) == 0 {
			to = "varchar(30)" // rewrites
		}
		if c.Unsigned() {
			to = "bigint unsigned"
		}
	case event.TypeLonglong:
		to = "varchar(40)" // rewrites
	case event.TypeNewDecimal:
		to = fmt.Sprintf("decimal(%d,%d)", min(c.Flen+2, 60), c.Decimal)
		if s.rng.IntN(2) == 0 {
			to = "varchar(80)" // rewrites
		}
	case event.TypeDate:
		to = "varchar(20)" // rewrites
	case event.TypeEnum:
		to = "enum('a','b','c','d')"
	case event.TypeString:
		to = fmt.Sprintf("char(%d)", min(c.Flen+1, 200))
		if c.IsBinary() {
			to = fmt.Sprintf("binary(%d)", min(c.Flen+1, 200))
		}
	default:
		return fmt.Sprintf("ADD COLUMN %s %s", s.name("c"), s.definition())
	}
	if c.NotNull() {
		to += " NOT NULL"
	}
	return fmt.Sprintf("MODIFY COLUMN %s %s", c.Name, to)
}

// partitions changes how a table is cut.
func (s *scribe) partitions(t *catalog.Shape) []string {
	name, p := t.Table.Name, t.Info.Partition
	if p == nil {
		if t.Table.Handle.Kind != event.IntHandle {
			return s.columns(t)
		}
		return []string{fmt.Sprintf("ALTER TABLE %s PARTITION BY HASH (id) PARTITIONS %d", name, 2+s.rng.IntN(3))}
	}
	defs := p.Definitions
	if event.PartitionKind(p.Type) != event.ByRange {
		switch s.rng.IntN(4) {
		case 0:
			return []string{fmt.Sprintf("ALTER TABLE %s ADD PARTITION PARTITIONS 1", name)}
		case 1:
			return []string{fmt.Sprintf("ALTER TABLE %s COALESCE PARTITION 1", name)}
		case 2:
			return []string{fmt.Sprintf("ALTER TABLE %s TRUNCATE PARTITION %s", name, defs[s.rng.IntN(len(defs))].Name.O)}
		}
		return []string{fmt.Sprintf("ALTER TABLE %s REMOVE PARTITIONING", name)}
	}
	at := s.rng.IntN(len(defs))
	part := defs[at].Name.O
	switch n := s.rng.IntN(6); {
	case n == 0 && len(defs) > 2 && at < len(defs)-1:
		return []string{fmt.Sprintf("ALTER TABLE %s DROP PARTITION %s", name, part)}
	case n <= 2:
		return []string{fmt.Sprintf("ALTER TABLE %s TRUNCATE PARTITION %s", name, part)}
	case n == 3 && at < len(defs)-1:
		return []string{fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s, %s INTO (PARTITION %s VALUES LESS THAN (%s))",
			name, part, defs[at+1].Name.O, s.name("p"), upTo(&defs[at+1]))}
	case n == 4:
		// A partition's rows become a table of their own.
		apart := s.name("x")
		return []string{
			fmt.Sprintf("CREATE TABLE %s LIKE %s", apart, name),
			fmt.Sprintf("ALTER TABLE %s REMOVE PARTITIONING", apart),
			fmt.Sprintf("ALTER TABLE %s EXCHANGE PARTITION %s WITH TABLE %s", name, part, apart),
		}
	}
	return []string{fmt.Sprintf("ALTER TABLE %s REMOVE PARTITIONING", name)}
}

func upTo(d *catalog.PartitionDef) string {
	if len(d.LessThan) == 0 {
		return "MAXVALUE"
	}
	return d.LessThan[0]
}
