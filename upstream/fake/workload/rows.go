package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// RowsDB is the database of the rows workload.
const RowsDB = "kinds"

// kindsOfTables are tables of every kind of key, and together of every type of
// column that a MariaDB has too.
func kindsOfTables() []string {
	return []string{
		"CREATE TABLE ints (id bigint NOT NULL PRIMARY KEY, t tinyint, s smallint unsigned NOT NULL, m mediumint, i int unsigned, b bigint, y year, u tinyint unsigned DEFAULT 7)",
		"CREATE TABLE strings (id varchar(40) COLLATE utf8mb4_bin NOT NULL, c char(10), v varchar(100) NOT NULL, t text, vb varbinary(50), b binary(8), bl blob, g varchar(30) COLLATE utf8mb4_general_ci, PRIMARY KEY (id) CLUSTERED)",
		"CREATE TABLE numbers (a int NOT NULL, b varchar(10) COLLATE utf8mb4_bin NOT NULL, d decimal(20,6), n decimal(65,30), f float, g double NOT NULL, bits bit(12), PRIMARY KEY (a, b) CLUSTERED)",
		"CREATE TABLE times (id bigint unsigned NOT NULL PRIMARY KEY, d date, dt datetime, dt6 datetime(6), ts timestamp NULL, ti time NOT NULL)",
		"CREATE TABLE others (id int NOT NULL, e enum('red','green','blue'), s set('a','b','c','d'), j json, n int GENERATED ALWAYS AS (id + 1) VIRTUAL, UNIQUE KEY (id), KEY (e))",
		"CREATE TABLE parts (id int NOT NULL PRIMARY KEY, v varchar(20), w int) PARTITION BY HASH (id) PARTITIONS 4",
	}
}

// rows inserts, updates and deletes rows of tables of every kind.
type rows struct {
	cfg Config
}

func (g *rows) databases() []string { return []string{RowsDB} }

func (g *rows) streams() int { return 0 }

func (g *rows) alter(context.Context, *Workload, int, *rand.Rand) (bool, error) { return true, nil }

func (g *rows) prepare(ctx context.Context, w *Workload) error {
	if err := w.create(ctx, "", "CREATE DATABASE "+RowsDB); err != nil {
		return err
	}
	return w.create(ctx, RowsDB, kindsOfTables()...)
}

// play changes one to four rows of one or two tables.
func (g *rows) play(ctx context.Context, x *Session, rng *rand.Rand) (commit bool, err error) {
	return g.change(ctx, x, x.Tables(RowsDB), rng)
}

// change changes rows of some of the tables.
func (g *rows) change(ctx context.Context, x *Session, tables []*catalog.Shape, rng *rand.Rand) (bool, error) {
	if len(tables) == 0 {
		return false, nil
	}
	done := map[string]bool{} // keys: each once a transaction
	for range 1 + rng.IntN(4) {
		shape := tables[rng.IntN(len(tables))]
		if err := g.one(ctx, x, shape, rng, done); err != nil {
			return false, err
		}
	}
	return len(done) > 0, nil
}

// one inserts, updates, deletes or moves one row.
func (g *rows) one(ctx context.Context, x *Session, shape *catalog.Shape, rng *rand.Rand, done map[string]bool) error {
	id := rng.IntN(g.cfg.Size)
	r, key, err := x.Draw(shape, id, rng)
	if err != nil {
		return err
	}
	if done[string(key)] {
		return nil
	}
	done[string(key)] = true
	there, err := x.Exists(ctx, key)
	switch {
	case err != nil:
		return err
	case there && rng.IntN(3) == 0:
		return x.Delete(shape, r)
	case there && rng.IntN(6) == 0 && shape.Table.Handle.Kind != event.RowIDHandle:
		return g.move(ctx, x, shape, r, rng, done)
	}
	return x.Put(shape, r)
}

// move gives a row another key: it is deleted here and written there.
func (g *rows) move(ctx context.Context, x *Session, shape *catalog.Shape, r *Record, rng *rand.Rand, done map[string]bool) error {
	other, key, err := x.Draw(shape, rng.IntN(g.cfg.Size), rng)
	if err != nil || done[string(key)] {
		return err
	}
	done[string(key)] = true
	if there, err := x.Exists(ctx, key); there || err != nil {
		return err
	}
	if err := x.Delete(shape, r); err != nil {
		return err
	}
	return x.Put(shape, other)
}

// identifies tells whether a column is part of the key, or alone in a unique
// one: its value follows from the row's number.
func identifies(shape *catalog.Shape, at int) bool {
	if slices.ContainsFunc(shape.Table.Handle.Parts, func(p event.IndexPart) bool { return p.Column == at }) {
		return true
	}
	name := shape.Table.Columns[at].Name
	for _, x := range shape.Info.Indices {
		if x.Unique && slices.ContainsFunc(x.Columns, func(c *catalog.IndexColumn) bool { return c.Name.O == name }) {
			return true
		}
	}
	return false
}

// keyCell is the value of a number in a column of a key.
func keyCell(c *event.Column, id int) (Cell, error) {
	text := strconv.Itoa(id)
	if c.IsString() {
		text = fmt.Sprintf("k%03d", id)
		if c.Flen > 20 && id%3 == 0 {
			text += "-ключ"
		}
	}
	return textCell(c, text)
}
