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
		{Question{Schema: "shop", Table: "orders", Statement: "truncate table orders"}, Replicated, false, "filter.event-filters[0] ignores it, as truncate table"},
		{Question{Schema: "shop", Table: "orders", Statement: "ALTER TABLE orders ADD COLUMN secret INT"}, Replicated, false, "filter.event-filters[0] ignores it, as add column"},
		{Question{Schema: "shop", Table: "orders", Statement: "drop table orders"}, Replicated, true, "no event filter ignores it, as drop table"},
		{Question{Schema: "shop", Table: "log1", Statement: "drop table log1"}, LeftOut, false, "its table is not replicated"},
	} {
		a, err := CheckTable(&c, nil, x.q)
		if err != nil || a.Verdict != x.verdict || a.Sent != x.sent || a.StatementWhy != x.why {
			t.Errorf("%+v: %+v, %v", x.q, a, err)
		}
	}
	if _, err := CheckTable(&c, nil, Question{Schema: "shop", Table: "t", Statement: "nonsense"}); !cdcerr.InvalidArgument.Is(err) {
		t.Error(err)
	}
}
