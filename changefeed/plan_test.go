package changefeed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

func planned(id int64, schema, name string, key bool) *event.Table {
	t := &event.Table{ID: id, Schema: schema, Name: name, Columns: []event.Column{{Name: "id", Type: event.TypeLong, Flag: event.FlagNotNull}, {Name: "b", Type: event.TypeLong}},
		Indexes: []event.Index{{Name: "u", Unique: true, Parts: []event.IndexPart{{Column: 1, Length: event.FullLength}}}}}
	if key {
		t.Key = []int{0}
	}
	return t
}

func TestPlan(t *testing.T) {
	c := Default()
	c.Filter.Rules = []string{"shop.*", "!shop.log*"}
	c.Filter.EventFilters = []filter.EventFilter{{Matcher: []string{"shop.orders"}, IgnoreEvent: []string{"delete"}}, {Matcher: []string{"shop.odd"}, IgnoreInsertValueExpr: "nothere = 1"}}
	view := &event.Table{ID: 7, Schema: "shop", Name: "view", Kind: event.View}
	tables := []*event.Table{planned(5, "shop", "orders", true), planned(1, "mysql", "user", true), planned(2, "other", "t", true), planned(3, "shop", "log1", true),
		planned(4, "shop", "nokey", false), planned(6, "shop", "odd", true), view}
	p, err := NewPlan(&c, nil, tables)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range p.Tables {
		got = append(got, fmt.Sprintf("%s.%s %s: %s %v %v", f.Schema, f.Table, f.Verdict, f.Why, f.Key, f.EventFilters))
	}
	want := []string{
		`other.t left out: no rule matches it [] []`,
		`shop.log1 left out: rule "!shop.log*" leaves it out [] []`,
		`shop.nokey ineligible: unique key u may be NULL in b [] []`,
		`shop.odd invalid: filter.event-filters[1]: nothere = 1, for table shop.odd: there is no column nothere [] [1]`,
		`shop.orders replicated: rule "shop.*" takes it [id] [0]`,
		`shop.view no rows: rule "shop.*" takes it [] []`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	c.ForceReplicate = true
	p, err = NewPlan(&c, nil, tables[4:5])
	if err != nil || len(p.Of(Replicated)) != 1 || !strings.Contains(p.Tables[0].Why, "force-replicate takes it") {
		t.Errorf("%+v %v", p, err)
	}
	c.Filter.Rules = []string{"none.*"}
	if p, err = NewPlan(&c, nil, tables); err != nil || len(p.Notes) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	c.Filter.Rules = []string{"!*.*"}
	if p, err = NewPlan(&c, nil, nil); err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "whatever it is called") {
		t.Errorf("%+v %v", p, err)
	}
	c.Filter.Rules = []string{"none"}
	if _, err = NewPlan(&c, nil, tables); !cdcerr.FilterRuleInvalid.Is(err) {
		t.Error(err)
	}
}

func TestCheckTable(t *testing.T) {
	c := Default()
	c.Filter.Rules = []string{"shop.*", "!shop.log*"}
	c.Filter.EventFilters = []filter.EventFilter{{Matcher: []string{"shop.*"}, IgnoreEvent: []string{"truncate table"}, IgnoreSQL: []string{"add column secret"}}}
	for _, x := range []struct {
		q       Question
		verdict Verdict
		sent    bool
		why     string
	}{
		{Question{Schema: "shop", Table: "orders"}, Replicated, false, ""},
		{Question{Schema: "shop", Table: "log1"}, LeftOut, false, ""},
		{Question{Known: planned(1, "shop", "nokey", false)}, Ineligible, false, ""},
		{Question{Schema: "shop", Table: "orders", Statement: "truncate table orders"}, Replicated, false, "filter.event-filters[0] ignores it, as truncate table; rows go on as if it had been sent"},
		{Question{Schema: "shop", Table: "orders", Statement: "ALTER TABLE orders ADD COLUMN secret INT"}, Replicated, false, "filter.event-filters[0] ignores it, as add column; rows go on as if it had been sent"},
		{Question{Schema: "shop", Table: "orders", Statement: "drop table orders"}, Replicated, true, "no event filter ignores it, as drop table"},
		{Question{Schema: "shop", Table: "log1", Statement: "drop table log1"}, LeftOut, false, "its table is not replicated"},
		{Question{Schema: "shop", Table: "orders", Statement: "DROP TABLE a.b, SHOP.Orders"}, Replicated, true, "no event filter ignores it, as drop table"},
		{Question{Schema: "shop", Table: "orders", Statement: "RENAME TABLE orders TO orders2"}, Replicated, true, "no event filter ignores it, as rename table"},
		{Question{Schema: "shop", Table: "orders", Statement: "ALTER TABLE shop.orders RENAME TO log3"}, Replicated, true,
			`the rules decide by the old name; the new one is left out (rule "!shop.log*" leaves it out), and its rows are not replicated afterwards; no event filter ignores it, as rename table`},
		{Question{Schema: "shop", Table: "orders", Statement: "RENAME TABLE orders TO mysql.orders"}, Replicated, false,
			"mysql.orders is in a system schema; the table's rows are not replicated afterwards"},
		{Question{Schema: "shop", Table: "log1", Statement: "RENAME TABLE x TO y, log1 TO log2"}, LeftOut, false, "the rules decide by the old name, and its table is not replicated"},
		{Question{Schema: "shop", Table: "log1", Statement: "DROP DATABASE shop"}, LeftOut, true, "no event filter ignores it, as drop schema"},
		{Question{Schema: "other", Table: "log1", Statement: "CREATE DATABASE other"}, LeftOut, false, "no table of the database could be replicated"},
	} {
		a, err := CheckTable(&c, nil, x.q)
		if err != nil || a.Verdict != x.verdict || (a.Sent != nil) != (x.q.Statement != "") || a.Sent != nil && *a.Sent != x.sent || a.StatementWhy != x.why {
			t.Errorf("%+v: %+v, %v", x.q, a, err)
		}
	}
	if _, err := CheckTable(&c, nil, Question{Schema: "shop", Table: "t", Statement: "nonsense"}); !cdcerr.InvalidArgument.Is(err) {
		t.Error(err)
	}
	if _, err := CheckTable(&c, nil, Question{Schema: "shop", Table: "log1", Statement: "RENAME TABLE log1 TO good"}); !cdcerr.RenameIntoScope.Is(err) {
		t.Error(err)
	}
	if _, err := CheckTable(&c, nil, Question{Schema: "shop", Table: "t", Statement: "DROP TABLE u, shop2.t"}); err == nil || !strings.Contains(err.Error(), "not about shop.t, but about shop.u, shop2.t") {
		t.Error(err)
	}
	c.CaseSensitive, c.Filter.Rules = true, []string{"shop.Orders"}
	for name, want := range map[string]Verdict{"Orders": Replicated, "orders": LeftOut} {
		if a, err := CheckTable(&c, nil, Question{Schema: "shop", Table: name}); err != nil || a.Verdict != want {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}
