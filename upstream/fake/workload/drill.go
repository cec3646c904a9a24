package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// drillStreams is how many streams of DDL run in databases of their own; one more
// changes the bank's tables.
const drillStreams = 2

// drillTables is how many tables a stream keeps, about, beside the two that
// exchange a partition.
const drillTables = 4

// drill is a bank and other tables under DDL that can be counted: every statement
// is one job, is one statement downstream, and either bears a name that was never
// given before or does what would be seen if it were done twice.
type drill struct {
	bank
	rows
	counters [drillStreams + 1]int // names that were given
}

func drillDB(stream int) string { return fmt.Sprintf("drill%d", stream) }

func (g *drill) databases() []string {
	out := []string{BankDB}
	for i := range drillStreams {
		out = append(out, drillDB(i))
	}
	return out
}

func (g *drill) streams() int { return drillStreams + 1 }

func (g *drill) prepare(ctx context.Context, w *Workload) error {
	for i := range drillStreams {
		if err := w.create(ctx, "", "CREATE DATABASE "+drillDB(i)); err != nil {
			return err
		}
		err := w.create(ctx, drillDB(i),
			fmt.Sprintf("CREATE TABLE parted (id bigint NOT NULL PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id) "+
				"(PARTITION p0 VALUES LESS THAN (%d), PARTITION p1 VALUES LESS THAN MAXVALUE)", g.rows.cfg.Size),
			"CREATE TABLE apart (id bigint NOT NULL PRIMARY KEY, v varchar(20))")
		if err != nil {
			return err
		}
	}
	return g.bank.prepare(ctx, w)
}

// play is a transfer, four times of five, else a change of other rows.
func (g *drill) play(ctx context.Context, x *Session, rng *rand.Rand) (bool, error) {
	if rng.IntN(5) > 0 {
		return g.bank.play(ctx, x, rng)
	}
	return g.change(ctx, x, x.Tables(drillDB(rng.IntN(drillStreams))), rng)
}

func (g *drill) alter(ctx context.Context, w *Workload, stream int, rng *rand.Rand) (bool, error) {
	s := &scribe{server: w.Server, db: drillDB(stream), size: g.rows.cfg.Size, rng: rng, names: &g.counters[stream]}
	next := s.counted
	if stream == drillStreams {
		s.db, next = BankDB, s.ofTheBank
	}
	sql := next()
	err := w.Server.Exec(ctx, sql, catalog.Session{DB: s.db}, Linger(rng))
	var refused *catalog.Error
	if err != nil && !errors.As(err, &refused) {
		return true, fmt.Errorf("%s: %w", sql, err)
	}
	w.told(s.db, sql, err)
	return false, nil
}

// counted is the next statement in a database of the drill's.
func (s *scribe) counted() string {
	all := slices.DeleteFunc(s.tables(), func(t *catalog.Shape) bool { return t.Table.Name == "parted" || t.Table.Name == "apart" })
	if len(all) < 2 || len(all) < drillTables && s.rng.IntN(3) == 0 {
		if name := s.name("t"); len(all) > 0 && s.rng.IntN(3) == 0 {
			return fmt.Sprintf("CREATE TABLE %s LIKE %s", name, all[0].Table.Name)
		}
		return fmt.Sprintf("CREATE TABLE %s (id bigint NOT NULL PRIMARY KEY, x %s, y %s)", s.name("t"), s.plain(), s.plain())
	}
	at := s.rng.IntN(len(all))
	t, other := all[at].Table.Name, all[(at+1)%len(all)].Table.Name
	switch s.rng.IntN(12) {
	case 0, 1:
		return "TRUNCATE TABLE " + t
	case 2:
		return "DROP TABLE " + t
	case 3:
		return fmt.Sprintf("RENAME TABLE %s TO %s", t, s.name("t"))
	case 4:
		return fmt.Sprintf("RENAME TABLE %[1]s TO %[3]s, %[2]s TO %[1]s, %[3]s TO %[2]s", t, other, s.name("tmp"))
	case 5:
		return "ALTER TABLE parted EXCHANGE PARTITION p0 WITH TABLE apart"
	case 6:
		return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t, s.name("c"), s.plain())
	}
	return s.oneColumn(all[at])
}

// oneColumn changes one column of a table, or its indexes.
func (s *scribe) oneColumn(t *catalog.Shape) string {
	alter := "ALTER TABLE " + t.Table.Name + " "
	columns := free(t)
	if len(columns) < 2 {
		return alter + fmt.Sprintf("ADD COLUMN %s %s FIRST", s.name("c"), s.plain())
	}
	c := columns[s.rng.IntN(len(columns))]
	switch s.rng.IntN(4) {
	case 0:
		if !indexed(t, c) {
			return alter + "DROP COLUMN " + c.Name
		}
	case 1:
		return alter + s.index(t, c)
	case 2:
		return alter + fmt.Sprintf("ADD COLUMN %s %s AFTER %s", s.name("c"), s.plain(), c.Name)
	}
	return alter + s.modify(c)
}

// plain is the definition of a column that every downstream takes as it stands.
func (s *scribe) plain() string {
	all := []string{"int", "int NOT NULL DEFAULT 5", "varchar(20)", "varchar(20) NOT NULL DEFAULT 'dflt'", "decimal(10,2) DEFAULT 1.5", "datetime(3)", "date"}
	return all[s.rng.IntN(len(all))]
}

// ofTheBank is the next statement on a table of accounts: it leaves the accounts
// where they are.
func (s *scribe) ofTheBank() string {
	all := s.tables()
	t := all[s.rng.IntN(len(all))]
	alter := "ALTER TABLE " + t.Table.Name + " "
	columns := t.Table.Columns
	added := len(columns) > 3
	if !added || len(columns) < 6 && s.rng.IntN(2) == 0 {
		return alter + fmt.Sprintf("ADD COLUMN %s bigint NOT NULL DEFAULT %d", s.name("c"), s.rng.IntN(100))
	}
	last := &columns[len(columns)-1]
	if s.rng.IntN(2) == 0 {
		return alter + s.index(t, last)
	}
	if indexed(t, last) {
		return alter + fmt.Sprintf("ADD COLUMN %s bigint NOT NULL DEFAULT %d", s.name("c"), s.rng.IntN(100))
	}
	return alter + "DROP COLUMN " + last.Name
}
