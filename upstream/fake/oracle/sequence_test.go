package oracle_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

var (
	sequenceSeed = flag.Uint64("seed", 0, "run this one seed of the sequences")
	sequences    = flag.Int("sequences", 6, "how many sequences to run, of seeds that are drawn")
)

// alone begins a statement between whose steps nobody writes. A writer of the old
// schema who is late for a TRUNCATE writes into the table that is gone; those rows
// reach nobody, and would be there when the table comes back.
const alone = "/* alone */ "

// statement is one that fits the table at hand, perhaps: what TiDB would refuse
// is passed over.
func statement(rng *rand.Rand, n int) []string {
	return [][]string{
		{"ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3"},
		{"ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (4), PARTITION p1 VALUES LESS THAN (9), PARTITION p2 VALUES LESS THAN MAXVALUE)"},
		{"ALTER TABLE t REMOVE PARTITIONING"},
		{fmt.Sprintf("ALTER TABLE t TRUNCATE PARTITION p%d", rng.IntN(3))},
		{"ALTER TABLE t TRUNCATE PARTITION p0, p1"},
		{"ALTER TABLE t DROP PARTITION p0"},
		{"ALTER TABLE t COALESCE PARTITION 1"},
		{"ALTER TABLE t ADD PARTITION PARTITIONS 1"},
		{"ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p0 VALUES LESS THAN (6), PARTITION p1 VALUES LESS THAN (9))"},
		// Rows in a partition that is not theirs would meet others in the next
		// reorganisation: what TiDB makes of them is nobody's business.
		{fmt.Sprintf(alone+"CREATE TABLE x%d LIKE t", n), fmt.Sprintf(alone+"ALTER TABLE x%d REMOVE PARTITIONING", n), fmt.Sprintf(alone+"ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE x%d", n)},
		{fmt.Sprintf("ALTER TABLE t ADD COLUMN c%d int NOT NULL DEFAULT %d FIRST", n, n)},
		{fmt.Sprintf("ALTER TABLE t ADD COLUMN d%d varchar(20) DEFAULT 'd%d', ADD COLUMN e%d date", n, n, n)},
		{fmt.Sprintf("ALTER TABLE t ADD COLUMN v%d bigint, MODIFY COLUMN n varchar(30)", n)},
		{fmt.Sprintf("ALTER TABLE t ADD COLUMN n int DEFAULT %d", n)},
		{"ALTER TABLE t DROP COLUMN n"},
		{"ALTER TABLE t MODIFY COLUMN n varchar(30)"},
		{"ALTER TABLE t MODIFY COLUMN n bigint"},
		{"ALTER TABLE t MODIFY COLUMN v int"},
		{"ALTER TABLE t ADD INDEX i (n)"},
		{"ALTER TABLE t DROP INDEX i"},
		{"TRUNCATE TABLE t"},
		{"DROP TABLE t", "FLASHBACK TABLE t TO back", "RENAME TABLE back TO t"},
		{alone + "TRUNCATE TABLE t", fmt.Sprintf("FLASHBACK TABLE t TO b%d", n)},
		{"RENAME TABLE t TO o, t2 TO t, o TO t2", "RENAME TABLE t TO o, t2 TO t, o TO t2"},
		{"CREATE DATABASE other", "RENAME TABLE t TO other.t", "DROP DATABASE other", "FLASHBACK DATABASE other TO more", "RENAME TABLE more.t TO t", "DROP DATABASE more"},
	}[rng.IntN(25)]
}

// One table goes through a dozen jobs, one after the other, as writers between
// all their steps know it or knew it.
func TestWritersBetweenTheStepsOfManyJobs(t *testing.T) {
	seeds := []uint64{*sequenceSeed}
	if *sequenceSeed == 0 {
		seeds = nil
		for range *sequences {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			sequence(t, seed)
		})
	}
}

func sequence(t *testing.T, seed uint64) {
	r := newRig(t, seed)
	defer r.stop()
	must(t, r.server.Exec(r.ctx, "CREATE DATABASE d", catalog.Session{}, nil))
	for _, sql := range []string{
		"CREATE TABLE t (id bigint NOT NULL PRIMARY KEY, v varchar(20), n int NOT NULL DEFAULT 3)",
		"CREATE TABLE t2 (id varchar(30) NOT NULL, w int, PRIMARY KEY (id) CLUSTERED)",
	} {
		must(t, r.server.Exec(r.ctx, sql, catalog.Session{DB: "d"}, nil))
	}
	r.fill()
	// With every other seed the cluster is in trouble meanwhile.
	calm := r.storm(seed%2 == 1, seed)
	done := 0
	for n := 0; done < 12 && n < 200; n++ {
		for _, sql := range statement(r.rng, n) {
			var err error
			if strings.HasPrefix(sql, alone) {
				err = r.server.Exec(r.ctx, sql, catalog.Session{DB: "d"}, nil)
			} else {
				err = r.exec("d", sql)
			}
			if _, refused := errors.AsType[*catalog.Error](err); refused {
				break // the next may do
			}
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			t.Log(sql)
			done++
		}
	}
	calm()
	r.fill()
	r.finish()
	if done < 12 {
		t.Errorf("only %d jobs", done)
	}
}
