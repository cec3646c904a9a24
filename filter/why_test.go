package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

func TestWhy(t *testing.T) {
	f := filtered(t, filter.Config{Rules: []string{"a.*", " !a.secret ", "b.t"}, EventFilters: []filter.EventFilter{
		{Matcher: []string{"b.*"}, IgnoreEvent: []string{"insert"}}, {Matcher: []string{"*.t"}, IgnoreSQL: []string{"drop"}}}})
	for name, want := range map[string]string{
		"a.t": `rule "a.*" takes it`, "A.Secret": `rule "!a.secret" leaves it out`, "b.t": `rule "b.t" takes it`, "c.t": "no rule matches it",
		"MySQL.user": "MySQL is a system schema, which no rule takes",
	} {
		if s, n := split(name); f.Why(s, n) != want {
			t.Errorf("%s: %s, want %s", name, f.Why(s, n), want)
		}
	}
	if got := f.EventFilters("b", "t"); len(got) != 2 || got[0] != 0 || got[1] != 1 {
		t.Error(got)
	}
	if f.Ignores(event.ActionDropTable, "a", "t", "DROP TABLE t") != 1 || f.Ignores(event.ActionDropTable, "a", "u", "DROP TABLE u") != -1 {
		t.Error("Ignores")
	}
}

func TestWhyKeyless(t *testing.T) {
	whole := func(c int) event.IndexPart { return event.IndexPart{Column: c, Length: event.FullLength} }
	tab := &event.Table{Columns: []event.Column{{Name: "a", Flag: event.FlagNotNull}, {Name: "b"}, {Name: "v", Flag: event.FlagNotNull, Generated: event.Virtual}}}
	for _, c := range []struct {
		index event.Index
		want  string
	}{
		{event.Index{Name: "i", Parts: []event.IndexPart{whole(0)}}, "it has no primary key and no unique key"},
		{event.Index{Name: "i", Unique: true, Parts: []event.IndexPart{whole(0), whole(1)}}, "unique key i may be NULL in b"},
		{event.Index{Name: "i", Unique: true, Parts: []event.IndexPart{whole(2)}}, "unique key i has the virtual generated column v"},
		{event.Index{Name: "i", Unique: true, Parts: []event.IndexPart{{Column: 0, Length: 3}}}, "unique key i is over a prefix of a"},
		{event.Index{Name: "i", Unique: true, Parts: []event.IndexPart{{Column: -1}}}, "unique key i is over an expression"},
		{event.Index{Name: "i", Unique: true, Invisible: true, Parts: []event.IndexPart{whole(0)}}, "unique key i is invisible"},
		{event.Index{Name: "i", Unique: true, Condition: "a > 1", Parts: []event.IndexPart{whole(0)}}, "unique key i is partial"},
	} {
		tab.Indexes = []event.Index{c.index}
		if got := filter.WhyKeyless(tab); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestActionOf(t *testing.T) {
	for text, want := range map[string]event.Action{
		"create database d": event.ActionCreateSchema, "drop database d": event.ActionDropSchema, "alter database d charset utf8mb4": event.ActionSchemaCharset,
		"create table t (a int)": event.ActionCreateTable, "drop table t": event.ActionDropTable, "drop view v": event.ActionDropView,
		"truncate table t": event.ActionTruncateTable, "rename table a to b": event.ActionRenameTable, "rename table a to b, c to d": event.ActionRenameTables,
		"create unique index i on t (a)": event.ActionAddIndex, "drop index i on t": event.ActionDropIndex, "create view v as select 1": event.ActionCreateView,
		"flashback table t": event.ActionRecoverTable, "recover table t": event.ActionRecoverTable, "flashback database d": event.ActionRecoverSchema,
		"alter table t add column a int": event.ActionAddColumn, "alter table t add column a int, drop column b": event.ActionMultiSchemaChange,
		"alter table t add column a int, algorithm=instant": event.ActionAddColumn, "alter table t add primary key (a)": event.ActionAddPrimaryKey,
		"alter table t add unique (a)": event.ActionAddIndex, "alter table t add foreign key (a) references u (a)": event.ActionAddForeignKey,
		"alter table t comment 'x'": event.ActionTableComment, "alter table t charset utf8mb4": event.ActionTableCharset, "alter table t auto_increment 5": event.ActionRebaseAutoID,
		"alter table t rename to u": event.ActionRenameTable, "alter table t alter a set default 1": event.ActionSetDefault,
		"alter table t exchange partition p with table u": event.ActionExchangePartition, "alter table t ttl = a + interval 1 day": event.ActionAlterTTL, "alter table t remove ttl": event.ActionRemoveTTL,
	} {
		if got, err := filter.ActionOf(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{"": "want one statement", "drop table a; drop table b": "there are 2", "select 1": "no DDL", "drop tabel t": "near"} {
		if _, err := filter.ActionOf(text); !cdcerr.InvalidArgument.Is(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNamesIn(t *testing.T) {
	for sql, want := range map[string]string{
		"CREATE DATABASE a":                      "[{ a}]",
		"DROP DATABASE a":                        "[{a }]",
		"ALTER DATABASE a CHARACTER SET utf8mb4": "[{a }]",
		"FLASHBACK DATABASE a":                   "[{ a}]",
		"CREATE TABLE t (id int)":                "[{ in.t}]",
		"CREATE VIEW x.v AS SELECT 1":            "[{ x.v}]",
		"DROP TABLE t, x.u":                      "[{in.t } {x.u }]",
		"TRUNCATE TABLE t":                       "[{in.t }]",
		"CREATE INDEX i ON t (id)":               "[{in.t }]",
		"DROP INDEX i ON t":                      "[{in.t }]",
		"RENAME TABLE t TO u, x.a TO y.b":        "[{in.t in.u} {x.a y.b}]",
		"ALTER TABLE t RENAME TO x.u":            "[{in.t x.u}]",
		"ALTER TABLE t ADD COLUMN c INT":         "[{in.t }]",
		"RECOVER TABLE t":                        "[]",
		"DROP TABLE a; DROP TABLE b":             "one statement, there are 2",
		"DROP TABEL a":                           "TABEL",
	} {
		names, err := filter.NamesIn(sql, "in")
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
