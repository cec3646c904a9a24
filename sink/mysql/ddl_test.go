package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"

	"github.com/sluice-cdc/sluice/tso"
)

const ansiQuotes = 1 << 2 // of TiDB's SQL modes

// A clause inside of a version comment stays what the parser reads, without a
// comment inside a comment.
func TestVersionComments(t *testing.T) {
	w := newWorld(t)
	w.create(`create table cdc_test (id varchar(10) primary key, c1 varchar(10)) engine=innodb /*!90000 SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=3 */`)
	w.want("select count(*) from cdc_test", "0")
	tab := tableOf(t, "s", "create table cdc_test (id int primary key nonclustered)")
	s, err := planDDL(&event.DDL{Action: event.ActionCreateTable, Schema: "s", Tables: []event.TableChange{{After: tab}},
		Query: "create table cdc_test (id int primary key nonclustered) /*!90000 SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=3 */"}, Dialect{Kind: TiDB, Major: 8}, false)
	if err != nil {
		t.Fatal(err)
	}
	const want = "CREATE TABLE `s`.`cdc_test` (`id` INT PRIMARY KEY /*T![clustered_index] NONCLUSTERED */) " +
		"/*T! SHARD_ROW_ID_BITS = 4 */ /*T! PRE_SPLIT_REGIONS = 3 */ DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_BIN"
	if s.statements[0] != want {
		t.Errorf("got  %s\nwant %s", s.statements[0], want)
	}
}

// Under ANSI_QUOTES a double quote is a name's.
func TestANSIQuotes(t *testing.T) {
	w := newWorld(t)
	tab := tableOf(t, w.schema, "create table `my_table` (`column1` varchar(40) not null comment 'a\\\\b')")
	w.ddl(&event.DDL{Action: event.ActionCreateTable, SQLMode: ansiQuotes, Tables: []event.TableChange{{After: tab}},
		Query: `CREATE TABLE "my_table" ("column1" VARCHAR(40) NOT NULL COMMENT 'a\\b')`})
	w.want("select column_name, column_comment from information_schema.columns where table_schema=database()", `column1|a\b`)
}

// A table made LIKE another is made of its own info: the other may be
// elsewhere, look different by now, or not be there.
func TestCreateTableLike(t *testing.T) {
	w := newWorld(t)
	const like = `create table dst (id bigint unsigned not null auto_increment, a varchar(10) collate utf8mb4_general_ci not null default 'x''y\\' comment 'c',
		b timestamp(3) null default current_timestamp(3) on update current_timestamp(3), e enum('a','b') default 'b', s set('x','y') not null,
		d decimal(10,3) default 1.5, bi bit(9) default b'101', bin binary(4), t text, j json, g int as (y + 1) stored, v varchar(20) as (concat(a, '-')) virtual,
		f float, db double(15,5), y year default 2020, dt date, ti time(6), z int(5) unsigned zerofill, ts timestamp null default '2020-01-01 00:00:00',
		primary key (id), unique key ua (a), key kb (b, t(10)), key ke ((id + 1))) comment 'it''s'
		partition by range (id) (partition p0 values less than (10), partition p1 values less than maxvalue)`
	tab := tableOf(t, w.schema, like)
	tab.Indexes[1].Unique = false                            // ua does not hold the partitioning column
	tab.Columns[tab.Column("bi")].Flag |= event.FlagUnsigned // as TiDB stores every BIT
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: "create table dst like src", Schema: w.schema, Tables: []event.TableChange{{After: tab}}})
	shown := w.rows("show create table dst")[0]
	for _, want := range []string{
		"`id` bigint(20) unsigned NOT NULL AUTO_INCREMENT",
		"`a` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'x''y\\\\' COMMENT 'c'",
		"`b` timestamp(3) NULL DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3)",
		"`e` enum('a','b') DEFAULT 'b'", "`s` set('x','y') NOT NULL", "`d` decimal(10,3) DEFAULT 1.500", "`bi` bit(9) DEFAULT b'101'",
		"`bin` binary(4) DEFAULT NULL", "`t` text", "`j` longtext", "`g` int(11) GENERATED ALWAYS AS (`y` + 1) STORED",
		"`v` varchar(20) GENERATED ALWAYS AS (concat(`a`,'-')) VIRTUAL", "`f` float", "`db` double(15,5)", "`y` year(4) DEFAULT 2020",
		"`ti` time(6)", "`z` int(5) unsigned zerofill", "`ts` timestamp NULL DEFAULT '2020-01-01 00:00:00'",
		"PRIMARY KEY (`id`)", "KEY `ua` (`a`)", "KEY `kb` (`b`,`t`(10))", "COLLATE=utf8mb4_bin", "COMMENT='it''s'",
		"PARTITION BY RANGE (`id`)", "PARTITION `p0` VALUES LESS THAN (10)", "PARTITION `p1` VALUES LESS THAN MAXVALUE",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "ke") && strings.Contains(shown, "KEY `ke`") {
		t.Errorf("an expression index in\n%s", shown)
	}
}

// RENAME TABLE a TO c, b TO a, c TO b is one statement, each table keeps its rows.
func TestRenameSwap(t *testing.T) {
	w := newWorld(t)
	a := w.create("create table a (a bigint primary key, b int)")
	b := w.create("create table b (a bigint primary key, b int)")
	w.insert(a, cells("3", "4"))
	w.insert(b, cells("5", "6"))
	named := func(t *event.Table, name string) *event.Table {
		c := *t
		c.Name = name
		return &c
	}
	w.ddl(&event.DDL{Action: event.ActionRenameTables, Query: "rename table a to c, b to a, c to b", Tables: []event.TableChange{
		{Before: a, After: named(a, "c")}, {Before: b, After: named(b, "a")}, {Before: named(a, "c"), After: named(a, "b")},
	}})
	w.want("select * from a", "5|6")
	w.want("select * from b", "3|4")
	// told by its result only
	a, b = named(b, "a"), named(a, "b")
	w.ddl(&event.DDL{Action: event.ActionRenameTables, Tables: []event.TableChange{{Before: a, After: named(a, "B")}, {Before: b, After: named(b, "a")}}})
	w.want("select * from a", "3|4")
	w.want("select * from B", "5|6")
}

func TestExchangePartition(t *testing.T) {
	w := newWorld(t)
	other := w.schema + "_2"
	mustExec(t, w.db, "create or replace database "+ident(other))
	t.Cleanup(func() { mustExec(t, w.db, "drop database "+ident(other)) })
	const parts = ` partition by range (a) (partition p0 values less than (6), partition p3 values less than (26))`
	t1 := w.create("create table t1 (a int primary key)" + parts)
	t2 := tableOf(t, other, "create table t2 (a int primary key)")
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Schema: other, Query: "create table t2 (a int primary key)", Tables: []event.TableChange{{After: t2}}})
	w.insert(t1, cells("1"), cells("7"))
	w.insert(t2, cells("20"))
	after, moved := *t1, *t2
	d := &event.DDL{Action: event.ActionExchangePartition, Partition: "p3", WithValidation: true, Query: "alter table t1 exchange partition p3 with table partition_table2.t2",
		Tables: []event.TableChange{{Before: t1, After: &after}, {Before: t2, After: &moved}}}
	w.ddl(d)
	w.want("select a from t1", "1", "20")
	w.want("select a from "+ident(other)+".t2", "7")
	for _, c := range []struct {
		d    Dialect
		want string
	}{
		{Dialect{Kind: MariaDB, Major: 10, Minor: 11}, "ALTER TABLE `x`.`t1` EXCHANGE PARTITION `p3` WITH TABLE `y`.`t2`"},
		{Dialect{Kind: TiDB}, "ALTER TABLE `x`.`t1` EXCHANGE PARTITION `p3` WITH TABLE `y`.`t2` WITHOUT VALIDATION"},
	} {
		e := *d
		e.WithValidation = false
		p1, p2 := *t1, *t2
		p1.Schema, p2.Schema = "x", "y"
		e.Tables = []event.TableChange{{Before: &p1, After: &p1}, {Before: &p2, After: &p2}}
		s, err := planDDL(&e, c.d, false)
		if err != nil || s.statements[0] != c.want {
			t.Errorf("%v: %v %v", c.d, s, err)
		}
	}
}

// Partitions by KEY hold other rows in each database: what upstream has left is read.
func TestRowsOfAKeyPartition(t *testing.T) {
	w := newWorld(t)
	const create = "create table k (a int primary key) partition by key (a) partitions 2"
	tab := w.create(create)
	w.insert(tab, cells("1"), cells("2"), cells("3"), cells("4"))
	after := tableOf(t, w.schema, create)
	d := &event.DDL{Action: event.ActionTruncatePartition, Query: "alter table k truncate partition p0", Tables: []event.TableChange{{Before: tab, After: after}}}
	if err := w.tryDDL(d); !cdcerr.DDLNotPortable.Is(err) || StoppedBy(err) != FeatureKeyPartition {
		t.Fatal(err)
	}
	w.want("select a from k", "1", "2", "3", "4")
	w.sink.snapshot = rowsOf{w, [][]string{cells("2"), cells("3")}, nil}
	for range 2 {
		w.ddl(d)
		w.want("select a from k", "2", "3")
	}
	plain := w.create("create table e (a int primary key)")
	w.ddl(&event.DDL{Action: event.ActionExchangePartition, Partition: "p0", Query: "alter table k exchange partition p0 with table e",
		Tables: []event.TableChange{{Before: after, After: after}, {Before: plain, After: plain}}})
	w.want("select a from e", "2", "3") // the same snapshot for both
}

// A column with the present moment as default: old rows hold upstream's.
func TestAddColumnWithTheMomentAsDefault(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t1 (id int primary key)")
	w.insert(tab, cells("1"))
	at := time.Date(2021, 3, 4, 5, 6, 7, 891_000_000, time.UTC)
	packed := event.DateTime{Year: 2021, Month: 3, Day: 4, Hour: 5, Minute: 6, Second: 7, Micro: 891_000}.Pack()
	columns, text := "id int primary key", "alter table t1"
	for i, add := range []string{
		"a datetime default current_timestamp", "b timestamp(3) default now(3) on update now(3)", "c datetime(6) not null default localtime(6)", "d date default (current_date)",
	} {
		if i > 0 {
			text += ","
		}
		text += " add column " + add
		columns += ", " + add
	}
	after := tableOf(t, w.schema, "create table t1 ("+columns+")")
	after.ID = tab.ID
	for i := 1; i < 5; i++ {
		after.Columns[i].Absent, after.Columns[i].HasOrigin = event.TimeValue(packed), true
	}
	w.ts = tso.At(at)
	w.ddl(&event.DDL{Action: event.ActionMultiSchemaChange, Query: text, Tables: []event.TableChange{{Before: tab, After: after}}})
	w.want("select a, b, c, d from t1", "2021-03-04 05:06:07|2021-03-04 05:06:07.891|2021-03-04 05:06:07.891000|2021-03-04")
	w.want("select column_name, column_default, extra, is_nullable from information_schema.columns where table_schema=database() and column_name<>'id'",
		"a|current_timestamp()||YES", "b|current_timestamp(3)|on update current_timestamp(3)|YES", "c|current_timestamp(6)||NO", "d|curdate()||YES")
	// the session's own clock runs again
	w.want("select abs(timestampdiff(day, a, now())) > 100 from t1", "1")
}

// What TiDB's metadata made of bytes that are no UTF-8 is what old rows hold.
func TestAddColumnWithBytesAsDefault(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key)")
	w.insert(tab, cells("1"))
	after := tableOf(t, w.schema, "create table t (id int primary key, b varbinary(5) default x'ff00', j json not null, c binary(3) default 'a')")
	after.ID = tab.ID
	after.Columns[1].Absent, after.Columns[1].HasOrigin = event.BytesValue([]byte("\xEF\xBF\xBD\x00")), true
	after.Columns[3].Absent, after.Columns[3].HasOrigin = event.BytesValue([]byte("a\x00\x00")), true
	w.ddl(&event.DDL{Action: event.ActionMultiSchemaChange, Query: "alter table t add column b varbinary(5) default x'ff00', add column j json not null, add column c binary(3) default 'a'",
		Tables: []event.TableChange{{Before: tab, After: after}}})
	mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" (id, j) values (2, '1')")
	w.want("select id, hex(b), j, hex(c) from t", "1|EFBFBD00|null|610000", "2|FF00|1|610000")
	w.want("select column_default is null from information_schema.columns where table_schema=database() and column_name='j'", "1")
}

// A TIMESTAMP literal was typed in the session's zone; the info has it in UTC.
func TestTimestampDefaults(t *testing.T) {
	w := newWorld(t)
	const create = "create table t (id int primary key, a timestamp default '2021-06-01 12:00:00', b datetime default '2021-06-01 12:00:00')"
	tab := tableOf(t, w.schema, create)
	utc := "2021-06-01 04:00:00" // +08:00
	tab.Columns[1].Default = &utc
	w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: tab}}})
	mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" (id) values (1)")
	w.want("select a, b from t", "2021-06-01 04:00:00|2021-06-01 12:00:00")
	moved := *tab
	moved.Columns = slices.Clone(tab.Columns)
	other := "2022-06-01 04:00:00"
	moved.Columns[1].Default = &other
	w.ddl(&event.DDL{Action: event.ActionSetDefault, Query: "alter table t alter column a set default '2022-06-01 12:00:00'", Tables: []event.TableChange{{Before: tab, After: &moved}}})
	mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" (id) values (2)")
	w.want("select a from t where id=2", "2022-06-01 04:00:00")
}

// Each DDL again: what is in effect already is success, what is not an error.
func TestDDLAgain(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (id int primary key, a int, b int, key kb (b))")
	again := func(d *event.DDL) {
		t.Helper()
		for range 2 {
			w.ddl(d)
		}
	}
	change := func(before *event.Table, then string) []event.TableChange {
		after := tableOf(t, w.schema, then)
		after.ID = before.ID
		return []event.TableChange{{Before: before, After: after}}
	}
	again(&event.DDL{Action: event.ActionCreateTable, Query: "create table t (id int primary key, a int, b int, key kb (b))", Tables: []event.TableChange{{After: tab}}})
	again(&event.DDL{Action: event.ActionAddColumn, Query: "alter table t add column c int", Tables: change(tab, "create table t (id int primary key, a int, b int, c int, key kb (b))")})
	again(&event.DDL{Action: event.ActionDropColumn, Query: "alter table t drop column c", Tables: change(tableOf(t, w.schema, "create table t (id int primary key, a int, b int, c int, key kb (b))"),
		"create table t (id int primary key, a int, b int, key kb (b))")})
	again(&event.DDL{Action: event.ActionAddIndex, Query: "create index ka on t (a)", Tables: change(tab, "create table t (id int primary key, a int, b int, key kb (b), key ka (a))")})
	withKA := tableOf(t, w.schema, "create table t (id int primary key, a int, b int, key kb (b), key ka (a))")
	again(&event.DDL{Action: event.ActionRenameIndex, Query: "alter table t rename index ka to kaa", Tables: change(withKA, "create table t (id int primary key, a int, b int, key kb (b), key kaa (a))")})
	again(&event.DDL{Action: event.ActionDropIndex, Query: "drop index kb on t", Tables: change(tab, "create table t (id int primary key, a int, b int)")})
	again(&event.DDL{Action: event.ActionModifyColumn, Query: "alter table t change column b bb bigint", Tables: change(tableOf(t, w.schema, "create table t (id int primary key, a int, b int)"),
		"create table t (id int primary key, a int, bb bigint)")})
	renamed := tableOf(t, w.schema, "create table t2 (id int primary key, a int, bb bigint)")
	renamed.ID = tab.ID
	again(&event.DDL{Action: event.ActionRenameTable, Tables: []event.TableChange{{Before: tab, After: renamed}}})
	again(&event.DDL{Action: event.ActionDropTable, Tables: []event.TableChange{{Before: renamed}}})
	w.want("show tables")

	// not in effect: another table of that name, and a column that never was
	w.create("create table u (x int)")
	for _, d := range []*event.DDL{
		{Action: event.ActionCreateTable, Query: "create table u (y int)", Tables: []event.TableChange{{After: tableOf(t, w.schema, "create table u (y int)")}}},
		{Action: event.ActionDropColumn, Query: "alter table u drop column z, drop column x", Tables: change(tableOf(t, w.schema, "create table u (x int, z int, w int)"), "create table u (w int)")},
		{Action: event.ActionRenameTable, Tables: []event.TableChange{{Before: tableOf(t, w.schema, "create table n (a int)"), After: tableOf(t, w.schema, "create table nn (a int)")}}},
	} {
		if err := w.tryDDL(d); !cdcerr.ExecDDLFailed.Is(err) && !cdcerr.MySQLTableDiffers.Is(err) {
			t.Errorf("%s: %v", d.Query, err)
		}
	}
	w.want("select column_name from information_schema.columns where table_schema=database()", "x")
}

// The session goes on by the server's clock after a DDL, refused or not: rows
// and later DDLs must not be dated by it.
func TestClockGoesOnAfterADDL(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (x int)")
	running := func() bool {
		var same bool
		conn, err := w.sink.session.use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRowContext(t.Context(), "select abs(timestampdiff(second, now(), sysdate())) < 60").Scan(&same); err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !running() {
		t.Error("the clock stands still after a DDL")
	}
	refused := &event.DDL{Action: event.ActionAddColumn, Query: "alter table t add unique (x)", Tables: []event.TableChange{{Before: tab, After: tab}}}
	w.insert(tab, cells("1"), cells("1"))
	if err := w.tryDDL(refused); !cdcerr.ExecDDLFailed.Is(err) {
		t.Fatal(err)
	}
	if !running() {
		t.Error("the clock stands still after a DDL that the server refused")
	}
}

// A statement that the parser cannot read is an error with the statement in it.
func TestUnreadableDDL(t *testing.T) {
	tab := tableOf(t, "s", "create table t (a int)")
	_, err := planDDL(&event.DDL{Action: event.ActionAddColumn, Query: "alter table t add colunm b int", Tables: []event.TableChange{{Before: tab, After: tab}}}, Dialect{Kind: MariaDB}, false)
	if !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "add colunm b int") {
		t.Error(err)
	}
	err = nil
	func() {
		defer guard("alter table t", &err)
		panic("a nil pointer")
	}()
	if !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "alter table t") || !strings.Contains(err.Error(), "a nil pointer") {
		t.Error(err)
	}
}

// What comes back without events is read, or refused.
func TestRecover(t *testing.T) {
	w := newWorld(t)
	tab := tableOf(t, w.schema, "create table t (id int primary key, v varchar(10))")
	d := &event.DDL{Action: event.ActionRecoverTable, Query: "recover table t", Tables: []event.TableChange{{After: tab}}}
	if err := w.tryDDL(d); !cdcerr.DDLNotPortable.Is(err) || StoppedBy(err) != FeatureRecover {
		t.Fatal(err)
	}
	var rows [][]string
	for i := range 5000 {
		rows = append(rows, cells(fmt.Sprint(i), "x"))
	}
	w.sink.snapshot = rowsOf{w, rows, nil}
	w.ddl(d)
	w.want("select count(*), count(distinct id), min(v) from t", "5000|5000|x")
	w.ddl(d) // once more, after a crash
	w.want("select count(*) from t", "5000")
	w.sink.snapshot = rowsOf{w, nil, errors.New("no store answers")}
	if err := w.tryDDL(d); !cdcerr.SnapshotRead.Is(err) || !strings.Contains(err.Error(), "no store answers") {
		t.Fatal(err)
	}
	if err := w.tryDDL(&event.DDL{Action: event.ActionFlashbackCluster, Query: "flashback cluster to timestamp '2024-01-01'"}); !cdcerr.DDLNotPortable.Is(err) {
		t.Fatal(err)
	}
}

type rowsOf struct {
	w    *world
	rows [][]string
	err  error
}

func (r rowsOf) Rows(_ context.Context, t *event.Table, _ tso.TS, fn func(*event.Row) error) error {
	for i, cells := range r.rows {
		if err := fn(r.w.row(t, i, nil, cells)); err != nil {
			return err
		}
	}
	return r.err
}

// While REMOVE PARTITIONING runs, a table is cut by nothing, and is written so.
func TestATableThatIsCutByNothing(t *testing.T) {
	tab := &event.Table{
		ID: 7, Schema: "db", Name: "t", Key: []int{0},
		Columns:     []event.Column{{ID: 1, Name: "a", Type: event.TypeLong, Flag: event.FlagNotNull | event.FlagPriKey, Absent: event.NullValue()}},
		PartitionBy: &event.PartitionBy{Columns: []string{"a"}},
		Partitions:  []event.Partition{{ID: 8, Name: "CollapsedPartitions"}},
	}
	n, err := tableNode(tab)
	if err != nil || n.Partition != nil {
		t.Fatal(n, err)
	}
}
