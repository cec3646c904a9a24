package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// bench is a small cluster whose jobs run as soon as they are planned.
type bench struct {
	t     *testing.T
	c     *Catalog
	start uint64
}

func newBench(t *testing.T, statements ...string) *bench {
	t.Helper()
	c, _, err := Bootstrap(1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, c: c, start: 100}
	for _, sql := range statements {
		if got, err := b.run(sql); err != nil || got == "nothing" {
			t.Fatalf("%s: %s, %v", sql, got, err)
		}
	}
	return b
}

func (b *bench) session() Session {
	return Session{DB: "d0", SQLMode: DefaultSQLMode, Now: tso.TS(1 << 58).Time()}
}

func (b *bench) next(j *Job) *Step {
	b.t.Helper()
	b.start += 10
	s, err := j.Next(tso.TS(b.start))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// run takes a statement's jobs to their ends, and returns their kinds.
func (b *bench) run(sql string) (kinds string, err error) {
	b.t.Helper()
	jobs, err := b.c.Plan(sql, b.session())
	var out []string
	for _, j := range jobs {
		for !j.Ended() {
			b.next(j)
		}
		info := j.Info()
		if info.State != JobSynced {
			b.t.Errorf("%s: the job ends in state %d: %+v", sql, info.State, info.Err)
		}
		out = append(out, fmt.Sprint(info.Type))
	}
	if out == nil {
		return "nothing", err
	}
	return strings.Join(out, " "), err
}

// small are the tables that statements are tried on.
func small() []string {
	return []string{
		"create database d0",
		"create table t0 (id int primary key, a int, b varchar(20), d date, key a(a))",
		"create table t1 (id int, a int, b varchar(20), key(id)) partition by range(id) (partition p0 values less than (10), partition p1 values less than (20))",
		"create view v1 as select * from t0",
		"create sequence s1",
		"create table t2 (id int, a int, b varchar(20), key(id))",
		"create table t3 (id int auto_increment primary key, c char(10), k varchar(20), at timestamp, p int, key(k), key(p), check (p > id), foreign key (p) references t0(id)) ttl = `at` + interval 1 day",
	}
}

// What TiDB refuses is refused under the same number, and makes no job.
func TestStatementsAreRefused(t *testing.T) {
	for code, statements := range map[int][]string{
		1007: {
			"create database d0",
		},
		1008: {
			"drop database nope",
			"flashback database nope",
		},
		1049: {
			"create table nope.t (a int)",
			"alter table t0 rename nope.t",
			"alter database nope charset utf8",
			"use nope",
		},
		1050: {
			"create table t0 (a int)",
			"create table v1 (a int)",
			"alter table t0 rename to t1",
			"rename table t0 to t1, t1 to t0",
			"create view v1 as select 1",
		},
		1051: {
			"drop table nope",
			"drop table v1",
		},
		1054: {
			"create table a1 (a int) partition by range(zz) (partition p0 values less than (1))",
			"create table a1 (a int as (b) stored)",
			"create table a1 (a int) ttl=`b`+interval 1 day",
			"alter table t0 add column z int after nope",
			"alter table t0 add column z int as (nope) virtual",
			"alter table t0 modify column nope int",
			"alter table t0 alter column nope set default 1",
			"alter table t0 add index x((nope+1))",
		},
		1059: {
			"create table xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx (a int)",
			"alter table t0 add column xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx int",
		},
		1060: {
			"create table a1 (a int, a int)",
			"alter table t0 add column a int",
			"alter table t0 change a b int",
			"alter table t0 rename column a to b",
			"alter table t0 drop column b, add column b int",
		},
		1061: {
			"alter table t0 add index a(a)",
			"create index a on t0(a)",
			"alter table t0 drop index a, add index a(b)",
		},
		1064: {
			"create table a1 (a int default (1+1))",
			"alter database charset gbk",
			"drop the table t0",
		},
		1067: {
			"create table a1 (a tinyint default 128)",
			"create table a1 (a char(2) default 'abc')",
			"create table a1 (a date default '2023-02-29')",
			"create table a1 (a datetime default '0000-00-00 00:00:00')",
			"create table a1 (a int default 'x')",
			"create table a1 (a int not null default null)",
			"create table a1 (a datetime default 'x')",
			"create table a1 (a enum('x') default 'y')",
			"alter table t0 alter column a set default 'x'",
		},
		1068: {
			"create table a1 (a int primary key, b int primary key)",
			"alter table t0 add primary key(a)",
		},
		1070: {
			"create table a1 (c0 int, c1 int, c2 int, c3 int, c4 int, c5 int, c6 int, c7 int, c8 int, c9 int, c10 int, c11 int, c12 int, c13 int, c14 int, c15 int, c16 int, key(c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16))",
		},
		1071: {
			"create table a1 (a varchar(1000), key(a))",
		},
		1072: {
			"create table a1 (a int, primary key(b))",
			"alter table t0 add index (nope)",
		},
		1074: {
			"create table a1 (a varchar(70000))",
		},
		1090: {
			"alter table t0 drop column a, drop column b, drop column d, drop column id",
		},
		1091: {
			"alter table t0 drop column nope",
			"alter table t0 drop index nope",
			"alter table t0 drop foreign key nope",
			"drop index nope on t0",
		},
		1101: {
			"create table a1 (a text default 'x')",
		},
		1113: {
			"create table a1 select * from t0",
		},
		1115: {
			"create table a1 (a varchar(10) charset klingon)",
			"create database dx charset klingon",
		},
		1146: {
			"create table a1 like nope",
			"alter table t1 exchange partition p0 with table nope",
			"rename table t0 to tx, nope to ty",
			"truncate table nope",
			"truncate table v1",
			"create view v2 as select * from nope",
			"alter sequence q restart",
			"recover table nope",
			"flashback table nope",
		},
		1170: {
			"create table a1 (a blob, key(a))",
		},
		1253: {
			"create table a1 (a varchar(10) charset utf8 collate gbk_bin)",
		},
		1273: {
			"create table a1 (a varchar(10) collate klingon)",
		},
		1347: {
			"create table a1 like v1",
			"drop view t0",
			"drop sequence t0",
			"alter table v1 add column z int",
			"create or replace view t0 as select 1",
			"alter sequence t0 restart",
		},
		1353: {
			"create view v2(a,b) as select 1",
		},
		1488: {
			"create table a1 (id int) partition by key() partitions 3",
		},
		1492: {
			"alter table t1 add partition partitions 2",
		},
		1499: {
			"create table a1 (a int) partition by hash(a) partitions 9000",
		},
		1504: {
			"alter table t1 partition by hash(id) partitions 0",
		},
		1505: {
			"alter table t0 add partition (partition p9 values less than (90))",
		},
		1507: {
			"alter table t1 drop partition nope",
		},
		1508: {
			"alter table t1 drop partition p0,p1",
		},
		1509: {
			"alter table t1 coalesce partition 1",
		},
		1517: {
			"alter table t1 add partition (partition p1 values less than (90))",
		},
		1697: {
			"create table a1 (a int) partition by range(a) (partition p0 values less than ('x'))",
		},
		1735: {
			"alter table t1 truncate partition nope",
			"alter table t1 reorganize partition nope into (partition pp values less than (50))",
		},
		1736: {
			"alter table t1 exchange partition p0 with table t0",
		},
		1828: {
			"alter table t3 drop column p",
		},
		3106: {
			"alter table t0 add column z int as (a) stored",
		},
		3107: {
			"create table a1 (a int, b int as (c) virtual, c int as (a) virtual)",
		},
		3109: {
			"create table a1 (a int auto_increment primary key, b int as (a) virtual)",
		},
		3152: {
			"create table a1 (a json, key(a))",
		},
		3820: {
			"create table a1 (a int check (a>1), constraint c check (b>1))",
		},
		3940: {
			"alter table t0 drop check nope",
			"alter table t0 alter check nope enforced",
		},
		3959: {
			"alter table t3 rename column id to i",
			"alter table t3 change id i int auto_increment",
		},
		4128: {
			"create table a1 (a int) partition by system_time",
		},
		8149: {
			"alter table t3 drop column at",
		},
		8150: {
			"alter table t0 ttl_enable='ON'",
		},
		8200: {
			"alter table t3 drop column id",
			"alter table t3 modify k varchar(20) collate utf8mb4_general_ci",
			"alter table t3 modify c char(10) charset gbk",
			"alter table t3 modify k varbinary(20)",
			"alter table t3 modify at bit(1)",
			"create table a1 (id bigint auto_random, x int)",
			"alter table t0 add column z int unique",
			"alter table t0 add column z int auto_increment",
			"alter table t0 drop column id",
			"alter table t0 modify column id varchar(10)",
			"alter table t0 modify column a int unique",
			"alter table t0 modify column a int auto_increment",
			"alter table t0 add fulltext index f(b)",
			"alter table t0 add vector index ((vec_l2_distance(a)))",
			"alter table t1 add primary key(a) clustered",
			"alter table t0 drop primary key",
			"alter table t0 charset=gbk",
			"alter table t0 convert to charset gbk",
			"alter table t0 shard_row_id_bits=4",
			"alter table t0 secondary_load",
			"alter table t0 partition by range(a) (partition p0 values less than (5))",
			"alter table t0 discard tablespace",
			"create fulltext index f on t0(b)",
			"recover table by job 1",
			"flashback cluster to timestamp '2020-01-01'",
			"lock tables t0 read",
			"select 1",
			"insert into t0 values (1)",
			"create user x",
			"alter table t0 alter column a set default 5, comment 'x', add check(a>1)",
		},
		8216: {
			"alter table t0 auto_random_base=10",
		},
		8239: {
			"alter placement policy nope followers=1",
			"drop placement policy nope",
			"alter table t0 placement policy=nope",
			"create database dx placement policy nope",
		},
		8242: {
			"alter table t1 cache",
		},
		8249: {
			"alter resource group nope ru_per_sec=1",
			"drop resource group nope",
		},
	} {
		for _, sql := range statements {
			b := newBench(t, small()...)
			jobs, err := b.c.Plan(sql, b.session())
			refused, ok := errors.AsType[*Error](err)
			if !ok || refused.Code != code || len(jobs) > 0 {
				t.Errorf("%s: %d jobs, %v; want a refusal with %d", sql, len(jobs), err, code)
			}
		}
	}
}

// What TiDB takes makes jobs of those kinds, and they end well.
func TestStatementsMakeJobs(t *testing.T) {
	for kinds, statements := range map[string][]string{
		"nothing": {
			"create temporary table a1 (a int)",
			"create table if not exists t0 (a int)",
			"drop table if exists nope",
			"alter table t0 add column if not exists a int",
			"alter table t0 drop column if exists nope",
			"alter table t0 rename column a to a",
			"alter table t0 add index if not exists a(b)",
			"alter table t0 engine=innodb",
			"alter table t0 remove ttl",
			"alter table t0 nocache",
			"alter table t0 rename to t0",
			"drop index if exists nope on t0",
			"create database if not exists d0",
			"drop database if exists nope",
		},
		"3": {
			"create table a1 (id int, pid int, foreign key (pid) references t0(id))",
			"create table a1 (id int, index ((id+1)))",
			"create table a1 (id int, index ((id+1), id, (lower('x'))))",
			"create table a1 (id int, fulltext key (id))",
			"create table a1 (id varchar(10), fulltext key (id))",
			"create table a1 (id int primary key) partition by key() partitions 3",
			"create table a1 (id int, d date) partition by range(to_days(d)) (partition p0 values less than (to_days('2024-01-01')), partition p1 values less than maxvalue)",
			"create table a1 (id int, d date) partition by range(year(d)) subpartition by hash(id) subpartitions 2 (partition p0 values less than (2020))",
			"create table a1 (a int, b int) partition by list columns(a,b) (partition p0 values in ((1,2),(3,4)))",
			"create table a1 (a int, b int) partition by list columns(a,b) (partition p0 values in ((1,2),(3,null)), partition p1 values in (default))",
			"create table a1 (a int) partition by range(a) (partition p0 values less than (1+1))",
			"create table a1 (a int) partition by hash(a)",
			"create table a1 (a int) partition by linear hash(a) partitions 4",
			"create table a1 (a int unique, b int unique key, c int key)",
			"create table a1 (a blob, key(a(10)))",
			"create table a1 (a int default (uuid()))",
			"create table a1 (id bigint auto_random primary key, x int)",
			"create table a1 (a timestamp) ttl=`a`+interval 1 day ttl_enable='ON' ttl_job_interval='2h'",
			"create global temporary table a1 (a int) on commit delete rows",
		},
		"5": {
			"alter table t0 add column z timestamp default current_timestamp on update current_timestamp comment 'x'",
			"alter table t0 add column z date default (current_date)",
			"alter table t0 add column z int check (z>1)",
		},
		"7": {
			"alter table t0 add unique index u(b(5))",
			"alter table t0 add index x((cast(b as char(10))), a)",
			"alter table t0 add index x((upper(b)))",
			"create index x on t0(a)",
		},
		"8": {
			"drop index a on t0",
		},
		"9": {
			"alter table t0 add foreign key (a) references t1(id)",
		},
		"12": {
			"alter table t3 modify c varchar(10)",
			"alter table t3 modify c char(10) collate utf8mb4_general_ci",
			"alter table t0 modify column b varchar(10) charset latin1",
			"alter table t0 modify column b json",
			"alter table t0 modify column b text",
			"alter table t0 modify column a decimal(10,2) not null default 3",
		},
		"13": {
			"alter table t0 force auto_increment=1",
		},
		"15": {
			"alter table t0 alter column a set default (uuid())",
		},
		"16": {
			"alter table t1 shard_row_id_bits=4",
		},
		"17 13": {
			"alter table t0 comment 'x' auto_increment=5",
		},
		"19": {
			"alter table t1 add partition (partition p9 values less than (90))",
			"alter table t1 last partition less than (100)",
		},
		"20": {
			"alter table t1 first partition less than (20)",
		},
		"21": {
			"create view v2 as select t0.*, 1 x from t0 join t1",
			"create view v2 as select a from t0 union select 2",
			"create view v2 as with c as (select 1) select * from c",
			"create definer=`x`@`y` sql security invoker view v2 as select count(*) from t0",
		},
		"23": {
			"alter table t1 truncate partition all",
		},
		"30": {
			"alter table t0 set tiflash replica 1",
		},
		"32": {
			"alter table t1 add primary key(a)",
		},
		"34": {
			"create sequence q increment -1",
			"create sequence q nocache cycle maxvalue 5",
		},
		"35": {
			"alter sequence s1 restart",
			"alter sequence s1 increment 5 restart with 3",
		},
		"39": {
			"alter table t0 auto_id_cache=10",
		},
		"42": {
			"alter table t1 exchange partition p0 with table t2",
		},
		"51": {
			"create placement policy p followers=2",
		},
		"54": {
			"alter table t1 partition p0 placement policy default",
		},
		"57": {
			"alter table t0 cache",
		},
		"61": {
			"alter table t0 comment 'x', add column q int",
			"alter table t0 add column (x1 int, x2 int, index (a))",
			"alter table t0 add column b2 int after b, drop column b",
			"alter table t0 modify column a bigint, modify column b varchar(50)",
			"alter table t0 modify column a varchar(5), add index k(b), drop column d",
			"alter table t0 modify column a varchar(5), modify column b int",
			"alter table t0 rename column a to q, add index k(b)",
		},
		"64": {
			"alter table t1 reorganize partition p0,p1 into (partition pp values less than (50))",
		},
		"68": {
			"create resource group g ru_per_sec=10 burstable priority=high",
		},
		"72": {
			"alter table t1 remove partitioning",
		},
	} {
		for _, sql := range statements {
			b := newBench(t, small()...)
			if got, err := b.run(sql); err != nil || got != kinds {
				t.Errorf("%s: kinds %s, %v; want %s", sql, got, err, kinds)
			}
		}
	}
}
