package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// statements are those that random worlds are made with: T, U are tables, N is
// a number, D a database.
var statements = []string{
	"create table T (id int primary key, a int, b varchar(20), c decimal(10,2) default 1.5)",
	"create table T (id bigint primary key nonclustered, a int not null, b varchar(20), key kb(b))",
	"create table T (b varchar(20) not null, id int, a int, d date, primary key(b, id) clustered)",
	"create table T (id int, a int, b varchar(30)) partition by range(id) (partition p0 values less than (30), partition p1 values less than (60), partition pm values less than maxvalue)",
	"create table T (id int primary key, a int, b varchar(30)) partition by hash(id) partitions 3",
	"create table T (id int, a int, b varchar(30), key(a)) partition by list(id) (partition p0 values in (1,2,3,10,20,30), partition pd default)",
	"create table T like U",
	"drop table T",
	"drop table if exists T, U",
	"truncate table T",
	"rename table T to U",
	"rename table T to swap, U to T, swap to U",
	"rename table d0.T to d1.T",
	"rename table d1.T to d0.T",
	"alter table T add column cN int default N",
	"alter table T add column cN varchar(20) not null first",
	"alter table T add column cN timestamp default '2022-02-02 02:02:02' after a",
	"alter table T add column cN enum('x','y') not null, add column eN bit(9) default b'101', add index i1(a)",
	"alter table T add column (fN json, gN datetime(3) default current_timestamp(3))",
	"alter table T add column vN int as (a+1) virtual",
	"alter table T drop column a",
	"alter table T drop column cN",
	"alter table T drop column cN, add column cN varchar(5) default 'new', drop index i1",
	"alter table T modify column a bigint",
	"alter table T modify column a varchar(20)",
	"alter table T modify column a int",
	"alter table T modify column a smallint unsigned first",
	"alter table T modify column b int",
	"alter table T modify column b varchar(40) not null default 'x'",
	"alter table T modify column b varchar(20) after id",
	"alter table T modify column c decimal(12,4), add column hN int",
	"alter table T change column b bb varchar(60)",
	"alter table T change column bb b char(30)",
	"alter table T rename column cN to kN",
	"alter table T alter column a set default N",
	"alter table T alter column a drop default",
	"alter table T add index i1(b)",
	"alter table T add unique index uN(id, a)",
	"alter table T add index xN((a+N))",
	"alter table T drop index i1",
	"alter table T drop index xN",
	"alter table T rename index i1 to i2",
	"alter table T add primary key (id) nonclustered",
	"alter table T drop primary key",
	"alter table T alter index i1 invisible",
	"alter table T comment 'N'",
	"alter table T auto_increment = N",
	"alter table T convert to character set utf8mb4 collate utf8mb4_general_ci",
	"alter table T add constraint k1 check (a > N)",
	"alter table T drop constraint k1",
	"alter table T partition by range(id) (partition p0 values less than (50), partition p1 values less than (1000))",
	"alter table T partition by hash(id) partitions 2",
	"alter table T remove partitioning",
	"alter table T truncate partition p0",
	"alter table T drop partition p0",
	"alter table T add partition (partition pN values less than (N000))",
	"alter table T reorganize partition p1 into (partition p1a values less than (55), partition p1 values less than (60))",
	"alter table T reorganize partition pm into (partition p3 values less than (80), partition pm values less than maxvalue)",
	"alter table T add partition partitions 2",
	"alter table T coalesce partition 1",
	"alter table T exchange partition p0 with table U",
	"alter table T exchange partition p0 with table e0 without validation",
	"create table e0 (id int, a int, b varchar(30))",
	"create table t0 (id int, a int, b varchar(30)) partition by range(id) (partition p0 values less than (30), partition pm values less than maxvalue)",
	"drop table e0",
	"recover table T",
	"flashback table T to U",
	"create or replace view w0 as select * from T",
	"drop view w0",
	"create sequence q0 start N",
	"drop sequence q0",
	"drop database d1",
	"create database d1 charset utf8mb4",
	"flashback database d1",
	"alter database d1 collate utf8mb4_general_ci",
	"create table d1.T (id int primary key, b varchar(20))",
}

// planned is a random statement that the server does not refuse.
func (w *world) planned() string {
	for {
		sql := randomStatement(w.rnd)
		jobs, err := w.c.Plan(sql, w.session())
		w.tally["refused"]++
		if err == nil && len(jobs) > 0 {
			return sql
		}
	}
}

func randomStatement(rnd *rand.Rand) string {
	tables := []string{"t0", "t1", "t2", "t3"}
	s := statements[rnd.IntN(len(statements))]
	s = strings.ReplaceAll(s, "table T", "table "+tables[rnd.IntN(len(tables))])
	words := strings.NewReplacer(
		" T ", " "+tables[rnd.IntN(len(tables))]+" ", "d0.T", "d0.t1", "d1.T", "d1.t1", " T,", " t2,", "from T", "from t0",
		" U ", " "+tables[rnd.IntN(len(tables))]+" ", "N", fmt.Sprint(rnd.IntN(3)+1),
	)
	s = words.Replace(s + " ")
	return strings.ReplaceAll(strings.TrimSpace(s), " U,", " t3,")
}

// In random worlds a changefeed's reader, which shares nothing with this
// package, follows every DDL to the same tables as the metadata holds, and
// decodes every row that servers of the present and the last version wrote
// between any two steps.
func TestRandomWorldsAreFollowed(t *testing.T) {
	count := uint64(60)
	if testing.Short() {
		count = 20
	}
	first := uint64(1)
	if *worldSeed != 0 {
		first, count = *worldSeed, 1
	}
	tally := map[string]int{}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.follow("create database d0")
			w.follow("create database d1")
			for range 60 {
				w.failing = seed%2 == 0
				w.follow(w.planned())
			}
			if err := w.check(); err != nil {
				w.fatal(err)
			}
			for k, n := range w.tally {
				tally[k] += n
			}
		})
	}
	t.Log(tally)
	if *worldSeed == 0 && !testing.Short() {
		for _, a := range []Action{
			1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 32, 33, 34, 36, 41, 42, 43, 44, 47, 61, 63, 64, 71, 72,
		} {
			if tally[fmt.Sprint("action ", a)] == 0 {
				t.Errorf("no job of action %d", a)
			}
		}
	}
}
