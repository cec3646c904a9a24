package filter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

func filtered(t *testing.T, c filter.Config) *filter.Filter {
	t.Helper()
	f, err := filter.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// goods is a table with a few kinds of column.
func goods(name string) *event.Table {
	s, n := split(name)
	text := event.Column{Name: "name", Type: event.TypeVarchar, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"}
	return &event.Table{ID: 1, Schema: s, Name: n, Key: []int{0}, Columns: []event.Column{
		{Name: "id", Type: event.TypeLong}, {Name: "price", Type: event.TypeLong}, text, {Name: "At", Type: event.TypeTimestamp}, {Name: "tag", Type: event.TypeLong},
	}, Indexes: []event.Index{
		{Unique: true, Primary: true, Parts: []event.IndexPart{{Column: 0, Length: event.FullLength}}},
		{Unique: true, Parts: []event.IndexPart{{Column: 4, Length: event.FullLength}, {Column: -1}}},
	}}
}

func image(id, price int64, name string, tag int64) event.Image {
	return event.Image{event.IntValue(id), event.IntValue(price), event.BytesValue([]byte(name)), event.TimeValue(event.DateTime{Year: 2023, Month: 12, Day: 31, Hour: 20}.Pack()), event.IntValue(tag)}
}

func insert(t *event.Table, after event.Image) *event.Row { return &event.Row{Table: t, After: after} }

func update(t *event.Table, before, after event.Image) *event.Row {
	return &event.Row{Table: t, Before: before, After: after}
}

func gone(t *event.Table, before event.Image) *event.Row { return &event.Row{Table: t, Before: before} }

func TestRowsByKind(t *testing.T) {
	f := filtered(t, filter.Config{EventFilters: []filter.EventFilter{
		{Matcher: []string{"a.t"}, IgnoreEvent: []string{"Delete"}},
		{Matcher: []string{"a.*", "!a.keep"}, IgnoreEvent: []string{"insert", "drop table"}},
		{Matcher: []string{"all.*"}, IgnoreEvent: []string{"ALL DML"}},
		{Matcher: []string{"ddl.*"}, IgnoreEvent: []string{"all ddl"}},
	}})
	for name, want := range map[string]string{
		"a.t": "insert delete", "A.T": "insert delete", "a.other": "insert", "a.keep": "", "all.t": "insert update delete", "ddl.t": "", "b.t": "",
	} {
		tab := goods(name)
		rows, err := f.Rows(tab)
		if err != nil {
			t.Fatal(err)
		}
		if (rows == nil) != (want == "") {
			t.Errorf("%s: a rule of %v, want %q", name, rows, want)
		}
		x := image(1, 1, "x", 1)
		for _, r := range []*event.Row{insert(tab, x), update(tab, x, image(2, 1, "x", 1)), gone(tab, x)} {
			ignored, err := rows.Ignores(r)
			if wanted := slices.Contains(strings.Fields(want), r.Kind().String()); err != nil || ignored != wanted || rows.IgnoresKind(r.Kind()) != wanted {
				t.Errorf("%s: %v ignored: %v, %v", name, r.Kind(), ignored, err)
			}
		}
	}
}

// tiflow 11570, ticdc 1809: one rule of letter case for rules and matchers.
// Which tables have updates left out, by kind, by value or by column.
func TestTablesWhoseUpdatesAreLeftOut(t *testing.T) {
	f := filtered(t, filter.Config{EventFilters: []filter.EventFilter{
		{Matcher: []string{"a.kind"}, IgnoreEvent: []string{"update"}},
		{Matcher: []string{"a.old"}, IgnoreUpdateOldValueExpr: "price > 1"},
		{Matcher: []string{"a.new"}, IgnoreUpdateNewValueExpr: "price > 1"},
		{Matcher: []string{"a.only"}, IgnoreUpdateOnlyColumns: []string{"price"}},
		{Matcher: []string{"a.gone"}, IgnoreEvent: []string{"delete", "insert", "truncate table"}, IgnoreInsertValueExpr: "price > 1"},
	}})
	for name, want := range map[string]bool{"a.kind": true, "a.old": true, "a.new": true, "a.only": true, "a.gone": false, "b.t": false} {
		if got := f.LeavesUpdates(goods(name)); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMatchersFollowCaseSensitive(t *testing.T) {
	for _, sensitive := range []bool{false, true} {
		f := filtered(t, filter.Config{Rules: []string{"test.T"}, CaseSensitive: sensitive, EventFilters: []filter.EventFilter{
			{Matcher: []string{"test.t"}, IgnoreEvent: []string{"delete"}}}})
		rows, err := f.Rows(goods("test.T"))
		if err != nil || rows.IgnoresKind(event.DeleteRow) == sensitive || !f.Table("test", "T") {
			t.Error(sensitive, rows, err)
		}
	}
}

func TestRowsByExpression(t *testing.T) {
	tab := goods("shop.goods")
	f := filtered(t, filter.Config{Zone: time.FixedZone("", 8*3600), EventFilters: []filter.EventFilter{{
		Matcher:                  []string{"shop.*"},
		IgnoreInsertValueExpr:    "price > 100 or name = 'FREE' or year(at) = 2025",
		IgnoreUpdateOldValueExpr: "price < 10",
		IgnoreUpdateNewValueExpr: "price < 20",
		IgnoreDeleteValueExpr:    "name like 'tmp%'",
	}, {
		Matcher: []string{"shop.goods"}, IgnoreInsertValueExpr: "year(at) = 2024 and price = 50",
	}, {
		Matcher: []string{"shop.goods"}, IgnoreUpdateNewValueExpr: "price = 77",
	}, {
		Matcher: []string{"shop.goods"}, IgnoreUpdateOldValueExpr: "price = 78",
	}}})
	rows, err := f.Rows(tab)
	if err != nil {
		t.Fatal(err)
	}
	none := func(i event.Image) event.Image { i[1] = event.NullValue(); return i }
	for i, c := range []struct {
		row  *event.Row
		want bool
	}{
		{insert(tab, image(1, 101, "x", 1)), true},
		{insert(tab, image(1, 100, "x", 1)), false},
		{insert(tab, image(1, 1, "free ", 1)), true},      // by the column's collation
		{insert(tab, image(1, 50, "x", 1)), true},         // a new year in the zone
		{insert(tab, none(image(1, 0, "x", 1))), false},   // NULL is not true
		{insert(tab, none(image(1, 0, "free", 1))), true}, // NULL or true is
		{update(tab, image(1, 5, "x", 1), image(1, 15, "x", 1)), true},
		{update(tab, image(1, 15, "x", 1), image(1, 15, "x", 1)), false}, // both must be true
		{update(tab, image(1, 5, "x", 1), image(1, 25, "x", 1)), false},
		{update(tab, image(1, 25, "x", 1), image(1, 77, "x", 1)), true},
		{update(tab, image(1, 78, "x", 1), image(1, 25, "x", 1)), true},
		{gone(tab, image(1, 1, "TMP1", 1)), true},
		{gone(tab, image(1, 101, "x", 1)), false},
	} {
		if got, err := rows.Ignores(c.row); err != nil || got != c.want {
			t.Errorf("row %d: %v, %v; want %v", i, got, err, c.want)
		}
	}
}

func TestUpdatesOfSomeColumnsOnly(t *testing.T) {
	tab := goods("shop.goods")
	f := filtered(t, filter.Config{EventFilters: []filter.EventFilter{{Matcher: []string{"*.*"}, IgnoreUpdateOnlyColumns: []string{"PRICE", "tag", "id"}}}})
	rows, err := f.Rows(tab)
	if err != nil {
		t.Fatal(err)
	}
	old := image(1, 1, "x", 1)
	for i, c := range []struct {
		row  *event.Row
		want bool
	}{
		{update(tab, old, image(1, 2, "x", 1)), true},
		{update(tab, old, image(1, 2, "y", 1)), false},
		{update(tab, old, image(1, 1, "x", 2)), false}, // in a unique key
		{update(tab, old, image(2, 2, "x", 1)), false}, // the primary key
		{update(tab, old, old), false},
		{insert(tab, old), false},
		{gone(tab, old), false},
	} {
		if got, err := rows.Ignores(c.row); err != nil || got != c.want {
			t.Errorf("row %d: %v, %v; want %v", i, got, err, c.want)
		}
	}
}

func TestEventFiltersRefused(t *testing.T) {
	for _, c := range []struct {
		filter filter.EventFilter
		code   *cdcerr.Code
		says   string
	}{
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreInsertValueExpr: "id > now()"}, cdcerr.FilterExpression, "event-filters[0]: [CDC:ErrInvalidFilterExpression] id > now(): function NOW is not supported"},
		{filter.EventFilter{IgnoreEvent: []string{"insert"}}, cdcerr.FilterRuleInvalid, "event-filters[0]: [CDC:ErrFilterRuleInvalid] matcher: it is empty"},
		{filter.EventFilter{Matcher: []string{"a"}}, cdcerr.FilterRuleInvalid, "a dot and a table pattern"},
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreEvent: []string{"drop tables"}}, cdcerr.IgnoreEventInvalid, `"drop tables"; did you mean drop table?`},
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreSQL: []string{"("}}, cdcerr.FilterRuleInvalid, "ignore-sql: error parsing regexp"},
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreSQL: []string{strings.Repeat("(", 100_000)}}, cdcerr.FilterRuleInvalid, "ignore-sql: it has 100000 bytes"},
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreInsertValueExpr: strings.Repeat("not ", 30_000) + "a"}, cdcerr.FilterRuleInvalid, "ignore-insert-value-expr: it has 120001 bytes"},
		{filter.EventFilter{Matcher: []string{"a.b"}, IgnoreDeleteValueExpr: "id >"}, cdcerr.FilterExpression, "ignore-delete-value-expr: [CDC:ErrInvalidFilterExpression] id >"},
	} {
		_, err := filter.New(filter.Config{EventFilters: []filter.EventFilter{c.filter}})
		if !c.code.Is(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
	for _, c := range []struct {
		filter filter.EventFilter
		code   *cdcerr.Code
	}{
		{filter.EventFilter{IgnoreInsertValueExpr: "nothere = 1"}, cdcerr.FilterColumn},
		{filter.EventFilter{IgnoreUpdateOnlyColumns: []string{"nothere"}}, cdcerr.FilterColumn},
		{filter.EventFilter{IgnoreInsertValueExpr: "at = 'yesterday'"}, cdcerr.FilterExpression},
	} {
		c.filter.Matcher = []string{"*.*"}
		f := filtered(t, filter.Config{EventFilters: []filter.EventFilter{c.filter}})
		_, err := f.Rows(goods("a.b"))
		if !c.code.Is(err) || !strings.Contains(err.Error(), "a.b") {
			t.Error(err)
		}
		// The same where a DDL changes the table.
		d := &event.DDL{JobID: 7, Action: event.ActionDropColumn, SwitchTS: 100, Tables: []event.TableChange{change(goods("a.b"), goods("a.b"))}}
		if _, err := (filter.Scope{Rules: f}).DDL(d); !c.code.Is(err) || !strings.Contains(err.Error(), "job 7") {
			t.Error(err)
		}
	}
}

func TestDDLsByKindAndText(t *testing.T) {
	f := filtered(t, filter.Config{Rules: []string{"*.*", "!out.*"}, IgnoreTxnStartTS: []uint64{9, 5}, EventFilters: []filter.EventFilter{
		{Matcher: []string{"a.t"}, IgnoreEvent: []string{"truncate table", "rename table"}},
		{Matcher: []string{"alter.*"}, IgnoreEvent: []string{"alter table"}},
		{Matcher: []string{"sql.*"}, IgnoreSQL: []string{"^drop", "ADD\\s+COLUMN"}},
		{Matcher: []string{"gone.*"}, IgnoreEvent: []string{"drop database", "create table"}},
		{Matcher: []string{"half.t"}, IgnoreEvent: []string{"drop database"}},
		{Matcher: []string{"x.p"}, IgnoreEvent: []string{"exchange table partition"}},
	}})
	db := func(name string) *event.Database { return &event.Database{Name: name} }
	one := func(from, to string) []event.TableChange {
		var c event.TableChange
		if from != "" {
			c.Before = table(1, from)
		}
		if to != "" {
			c.After = table(1, to)
		}
		return []event.TableChange{c}
	}
	for _, c := range []struct {
		what    string
		ddl     event.DDL
		send    string
		ignored int
		added   []int64
		removed []int64
	}{
		{"truncate", event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{change(table(1, "a.t"), table(2, "a.t"))}}, "nothing", 1, []int64{2}, []int64{1}},
		{"truncate of another", event.DDL{Action: event.ActionTruncateTable, Tables: []event.TableChange{change(table(1, "a.u"), table(2, "a.u"))}}, "a.u>a.u", 0, []int64{2}, []int64{1}},
		{"rename, by the old name", event.DDL{Action: event.ActionRenameTable, Tables: one("a.t", "a.u")}, "nothing", 1, nil, nil},
		{"rename to that name", event.DDL{Action: event.ActionRenameTable, Tables: one("a.u", "a.t")}, "a.u>a.t", 0, nil, nil},
		{"drop", event.DDL{Action: event.ActionDropTable, Tables: one("a.t", "")}, "a.t>-", 0, nil, []int64{1}},
		{"add column is an alter table", event.DDL{Action: event.ActionAddColumn, Tables: one("alter.t", "alter.t")}, "nothing", 1, nil, nil},
		{"create index is none", event.DDL{Action: event.ActionAddIndex, Tables: one("alter.t", "alter.t")}, "alter.t>alter.t", 0, nil, nil},
		{"by text, in any case", event.DDL{Action: event.ActionDropTable, Query: "DROP TABLE t", Tables: one("sql.t", "")}, "nothing", 1, nil, []int64{1}},
		{"by text, inside", event.DDL{Action: event.ActionAddColumn, Query: "alter table t add column x int", Tables: one("sql.t", "sql.t")}, "nothing", 1, nil, nil},
		{"by text, not there", event.DDL{Action: event.ActionAddIndex, Query: "alter table t add index x (x)", Tables: one("sql.t", "sql.t")}, "sql.t>sql.t", 0, nil, nil},
		{"drop database", event.DDL{Action: event.ActionDropSchema, DatabaseBefore: db("gone"), Tables: one("gone.t", "")}, "nothing", 1, nil, []int64{1}},
		{"a matcher of one table is not about its database", event.DDL{Action: event.ActionDropSchema, DatabaseBefore: db("half"), Tables: one("half.t", "")}, "half.t>-", 0, nil, []int64{1}},
		{"create tables, each by its own text", event.DDL{Action: event.ActionCreateTables, Query: "create table a (i int); create table drop_b (i int, add column_x int)",
			Tables: []event.TableChange{change(nil, table(1, "gone.a")), change(nil, table(2, "b.b"))}}, "->b.b", 1, []int64{1, 2}, nil},
		{"exchange is one statement", event.DDL{Action: event.ActionExchangePartition, Tables: []event.TableChange{
			change(table(9, "x.p", 10, 11), table(9, "x.p", 10, 1)), change(table(1, "x.t"), table(11, "x.t"))}}, "nothing", 1, nil, nil},
		{"by start-ts", event.DDL{Action: event.ActionAddColumn, StartTS: 5, Tables: one("b.t", "b.t")}, "nothing", 1, nil, nil},
		{"by start-ts, into the rules", event.DDL{Action: event.ActionRenameTable, StartTS: 9, Tables: one("out.t", "b.t")}, "nothing", 1, []int64{1}, nil},
		{"by start-ts, outside", event.DDL{Action: event.ActionAddColumn, StartTS: 5, Tables: one("out.t", "out.t")}, "nothing", 0, nil, nil},
	} {
		c.ddl.JobID, c.ddl.SwitchTS = 7, 100
		got, err := filter.Scope{Rules: f}.DDL(&c.ddl)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if names(got.Send) != c.send || len(got.Ignored) != c.ignored || !slices.Equal(got.Added, c.added) || !slices.Equal(got.Removed, c.removed) {
			t.Errorf("%s: sent %s, ignored %q, added %v, removed %v", c.what, names(got.Send), got.Ignored, got.Added, got.Removed)
		}
	}
	if !f.IgnoresTxn(5) || !f.IgnoresTxn(9) || f.IgnoresTxn(7) || filtered(t, filter.Config{}).IgnoresTxn(5) {
		t.Error("ignore-txn-start-ts")
	}
}

// tiflow 12286, 9531: an ignored swap of names still moves the names.
func TestIgnoredSwapStillFollowsTheTables(t *testing.T) {
	f := filtered(t, filter.Config{Rules: []string{"t.a", "t.b", "t.c"}, EventFilters: []filter.EventFilter{{Matcher: []string{"*.*"}, IgnoreSQL: []string{"^rename"}}}})
	d := &event.DDL{Action: event.ActionRenameTables, Query: "RENAME TABLE a TO c, b TO a, c TO b", Tables: []event.TableChange{
		change(table(1, "t.a"), table(1, "t.c")), change(table(2, "t.b"), table(2, "t.a")), change(table(1, "t.c"), table(1, "t.b")),
	}}
	got, err := filter.Scope{Rules: f}.DDL(d)
	if err != nil || got.Send != nil || len(got.Ignored) != 2 || len(got.Added)+len(got.Removed) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// tiflow 9876: kinds are known from the job, so that no SQL mode can hide them.
func TestANSIQuotesHideNoKind(t *testing.T) {
	f := filtered(t, filter.Config{EventFilters: []filter.EventFilter{{Matcher: []string{"t.my_table"}, IgnoreEvent: []string{"create table"}}}})
	d := &event.DDL{Action: event.ActionCreateTable, SQLMode: 4, Query: `CREATE TABLE "my_table"("column1" VARCHAR(40) NOT NULL)`,
		Tables: []event.TableChange{change(nil, table(1, "t.my_table"))}}
	if got, err := (filter.Scope{Rules: f}).DDL(d); err != nil || got.Send != nil || len(got.Ignored) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every kind of event has its name, and no name is told twice.
func TestEventNames(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range filter.EventNames() {
		if seen[n.Name] || n.Name != strings.ToLower(n.Name) {
			t.Errorf("%q", n.Name)
		}
		seen[n.Name] = true
		if _, err := filter.New(filter.Config{EventFilters: []filter.EventFilter{{Matcher: []string{"*.*"}, IgnoreEvent: []string{strings.ToUpper(n.Name)}}}}); err != nil {
			t.Error(err)
		}
	}
}

// Without an expression the filter costs a row no allocation.
func TestRowsWithoutExpressionsAllocateNothing(t *testing.T) {
	tab := goods("a.b")
	f := filtered(t, filter.Config{IgnoreTxnStartTS: []uint64{1}, EventFilters: []filter.EventFilter{
		{Matcher: []string{"a.*"}, IgnoreEvent: []string{"delete"}, IgnoreUpdateOnlyColumns: []string{"price"}}}})
	rows, err := f.Rows(tab)
	if err != nil {
		t.Fatal(err)
	}
	r := update(tab, image(1, 1, "x", 1), image(1, 2, "x", 1))
	if n := testing.AllocsPerRun(100, func() {
		if f.IgnoresTxn(7) || rows.IgnoresKind(event.Update) {
			t.Fatal("ignored")
		}
		if ok, err := rows.Ignores(r); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
