package changefeed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

// Verdict is what becomes of a table.
type Verdict string

// The verdicts.
const (
	Replicated Verdict = "replicated"
	Ineligible Verdict = "ineligible" // the rules take it, and no key names its rows
	LeftOut    Verdict = "left out"   // the rules do not take it
	NoRows     Verdict = "no rows"    // a view: its DDLs are replicated
	Invalid    Verdict = "invalid"    // an event filter's expression does not fit it
)

// Fate is what becomes of one table, and why.
type Fate struct {
	Schema  string  `json:"database_name"`
	Table   string  `json:"table_name"`
	ID      int64   `json:"table_id,omitempty"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Key are the columns that name its rows, where it is replicated by a key.
	Key []string `json:"key,omitempty"`
	// EventFilters are those that are about it, by their place in the configuration.
	EventFilters []int `json:"event_filters,omitempty"`
	// Err is why an expression does not fit it.
	Err error `json:"-"`
}

// Plan is what a configuration means for the tables that there are.
type Plan struct {
	Tables []Fate   `json:"tables"` // by name
	Notes  []string `json:"notes,omitempty"`
}

// Of are the tables with a verdict.
func (p *Plan) Of(v Verdict) []Fate {
	var out []Fate
	for _, f := range p.Tables {
		if f.Verdict == v {
			out = append(out, f)
		}
	}
	return out
}

// NewPlan judges tables, without a changefeed. The zone is the server's.
func NewPlan(c *Config, zone *time.Location, tables []*event.Table) (*Plan, error) {
	rules, err := filter.New(c.FilterConfig(zone))
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	for _, t := range tables {
		if filter.IsSystem(t.Schema) {
			continue
		}
		p.Tables = append(p.Tables, judge(c, rules, t))
	}
	slices.SortFunc(p.Tables, func(a, b Fate) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table), cmp.Compare(a.ID, b.ID))
	})
	switch {
	case rules.TakesNone():
		p.Notes = append(p.Notes, "filter.rules: they take no table, whatever it is called: the last rule that matches a name decides, and here that leaves every name out")
	case len(p.Of(Replicated)) == 0:
		p.Notes = append(p.Notes, "no table that there is now would be replicated")
	}
	return p, nil
}

// RulesWithout are the rules of the filter that match nothing, of those that leave
// out too: likely they are misspelt. The caller tries each rule on what there is.
func (c *Config) RulesWithout(any func(matches func(schema, table string) bool) bool) ([]string, error) {
	var out []string
	for _, rule := range c.Filter.Rules {
		// A rule that leaves out matches what it would take without its mark.
		alone, err := filter.New(filter.Config{Rules: []string{strings.TrimPrefix(rule, "!")}, CaseSensitive: c.CaseSensitive})
		if err != nil {
			return nil, err
		}
		if !any(alone.Table) {
			out = append(out, rule)
		}
	}
	return out, nil
}

func judge(c *Config, rules *filter.Filter, t *event.Table) Fate {
	f := Fate{Schema: t.Schema, Table: t.Name, ID: t.ID, Verdict: Replicated, Why: rules.Why(t.Schema, t.Name)}
	scope := filter.Scope{Rules: rules, ForceReplicate: c.ForceReplicate}
	switch scope.Table(t) {
	case filter.OutOfRule:
		f.Verdict = LeftOut
		return f
	case filter.Keyless:
		f.Verdict, f.Why = Ineligible, filter.WhyKeyless(t)
		return f
	case filter.Wanted:
	}
	f.EventFilters = rules.EventFilters(t.Schema, t.Name)
	if t.Kind != event.BaseTable {
		f.Verdict = NoRows
		return f
	}
	if _, err := rules.Rows(t); err != nil {
		f.Verdict, f.Why, f.Err = Invalid, cdcerr.Detail(err), err
		return f
	}
	for _, i := range t.Key {
		f.Key = append(f.Key, t.Columns[i].Name)
	}
	if len(t.Key) == 0 {
		f.Why += "; it has no usable key, and force-replicate takes it: a restart may double its rows"
	}
	return f
}

// Question is what a person asks of a filter: a table by its name, and where it is
// known as it is; and perhaps a statement on it.
type Question struct {
	Schema, Table string
	Known         *event.Table
	Statement     string
}

// Answer is what a filter says of it.
type Answer struct {
	Fate
	// Sent says, where a statement was asked about, whether it would be sent.
	Sent         *bool  `json:"sent,omitempty"`
	StatementWhy string `json:"statement_why,omitempty"`
}

// CheckTable answers for one table or statement, without an upstream.
func CheckTable(c *Config, zone *time.Location, q Question) (*Answer, error) {
	rules, err := filter.New(c.FilterConfig(zone))
	if err != nil {
		return nil, err
	}
	a := &Answer{}
	if q.Known != nil {
		a.Fate = judge(c, rules, q.Known)
	} else {
		a.Fate = Fate{Schema: q.Schema, Table: q.Table, Verdict: LeftOut, Why: rules.Why(q.Schema, q.Table)}
		if rules.Table(q.Schema, q.Table) {
			a.Verdict, a.EventFilters = Replicated, rules.EventFilters(q.Schema, q.Table)
		}
	}
	if q.Statement == "" {
		return a, nil
	}
	sent := false
	a.Sent = &sent
	return a, a.judge(rules, q)
}

// judge says what becomes of the statement.
func (a *Answer) judge(rules *filter.Filter, q Question) error {
	action, err := filter.ActionOf(q.Statement)
	if err != nil {
		return err
	}
	names, err := filter.NamesIn(q.Statement, a.Schema)
	if err != nil {
		return err
	}
	n, about := a.in(names)
	if !about {
		var all []string
		for _, n := range names {
			all = append(all, n.At().String())
		}
		return cdcerr.InvalidArgument.New("the statement is not about %s.%s, but about %s", a.Schema, a.Table, strings.Join(all, ", "))
	}
	table := a.Table
	if n.Before.Table == "" && n.After.Table == "" { // a whole database
		if table = ""; !rules.Schema(a.Schema) {
			a.StatementWhy = "no table of the database could be replicated"
			return nil
		}
	} else if done, err := a.renamed(rules, n); done || err != nil {
		return err
	}
	if i := rules.Ignores(action, a.Schema, table, q.Statement); i >= 0 {
		*a.Sent, a.StatementWhy = false, fmt.Sprintf("filter.event-filters[%d] ignores it, as %s; rows go on as if it had been sent", i, action)
		return nil
	}
	why := fmt.Sprintf("no event filter ignores it, as %s", action)
	if a.StatementWhy != "" {
		why = a.StatementWhy + "; " + why
	}
	*a.Sent, a.StatementWhy = true, why
	return nil
}

// in finds the table among the names of a statement. Names of tables have no letter
// case in TiDB.
func (a *Answer) in(names []filter.Named) (filter.Named, bool) {
	if len(names) == 0 {
		return filter.Named{Before: filter.Name{Schema: a.Schema, Table: a.Table}}, true // nobody can tell
	}
	for _, n := range names {
		at := n.At()
		if strings.EqualFold(at.Schema, a.Schema) && (at.Table == "" || strings.EqualFold(at.Table, a.Table)) {
			return n, true
		}
	}
	return filter.Named{}, false
}

// renamed decides by the old name, and by what the new one means for the table's
// rows; done where no event filter is asked any more.
func (a *Answer) renamed(rules *filter.Filter, n filter.Named) (done bool, err error) {
	taken := a.Verdict != LeftOut && a.Verdict != Ineligible
	if n.Before == (filter.Name{}) || n.After == (filter.Name{}) {
		if !taken {
			a.StatementWhy = "its table is not replicated"
		}
		return !taken, nil
	}
	to := n.After
	switch after := rules.Table(to.Schema, to.Table); {
	case !taken && after && a.Verdict == LeftOut:
		return true, cdcerr.RenameIntoScope.New("%s.%s to %s: the rules leave the old name out and take the new one (%s): the statement fails the changefeed",
			a.Schema, a.Table, to, rules.Why(to.Schema, to.Table))
	case !taken:
		a.StatementWhy = "the rules decide by the old name, and its table is not replicated"
		return true, nil
	case filter.IsSystem(to.Schema):
		a.StatementWhy = fmt.Sprintf("%s is in a system schema; the table's rows are not replicated afterwards", to)
		return true, nil
	case !after:
		a.StatementWhy = fmt.Sprintf("the rules decide by the old name; the new one is left out (%s), and its rows are not replicated afterwards", rules.Why(to.Schema, to.Table))
	}
	return false, nil
}
