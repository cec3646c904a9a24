package filter

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter/expr"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is what an operator writes under [filter].
type Config struct {
	// Rules in order; none at all means *.*.
	Rules []string `toml:"rules" json:"rules,omitempty"`
	// IgnoreTxnStartTS are start-ts of transactions whose rows and DDLs are left out.
	IgnoreTxnStartTS []uint64 `toml:"ignore-txn-start-ts" json:"ignore_txn_start_ts,omitempty"`
	// EventFilters leave out some of what the rules take.
	EventFilters []EventFilter `toml:"event-filters" json:"event_filters,omitempty"`

	// CaseSensitive compares names to the letter, in rules and matchers. TiDB
	// itself never does. It stands at the top of a changefeed's configuration.
	CaseSensitive bool `toml:"-" json:"-"`
	// Zone is in which expressions read TIMESTAMP columns; nil is UTC.
	Zone *time.Location `toml:"-" json:"-"`
}

// EventFilter leaves events of some tables out.
type EventFilter struct {
	// Matcher are rules for the tables that it is about.
	Matcher []string `toml:"matcher" json:"matcher"`
	// IgnoreEvent are kinds of event, of EventNames.
	IgnoreEvent []string `toml:"ignore-event" json:"ignore_event"`
	// IgnoreSQL are regular expressions on the text of DDLs, in which case never matters.
	IgnoreSQL []string `toml:"ignore-sql" json:"ignore_sql"`

	// Expressions over the row; a row of which one is true is left out. An update
	// with both has to meet both.
	IgnoreInsertValueExpr    string `toml:"ignore-insert-value-expr" json:"ignore_insert_value_expr"`
	IgnoreUpdateNewValueExpr string `toml:"ignore-update-new-value-expr" json:"ignore_update_new_value_expr"`
	IgnoreUpdateOldValueExpr string `toml:"ignore-update-old-value-expr" json:"ignore_update_old_value_expr"`
	IgnoreDeleteValueExpr    string `toml:"ignore-delete-value-expr" json:"ignore_delete_value_expr"`

	// IgnoreUpdateOnlyColumns leaves updates out that change no other column.
	IgnoreUpdateOnlyColumns []string `toml:"ignore-update-only-columns" json:"ignore_update_only_columns,omitempty"`
}

// Filter is a parsed Config. It is safe for concurrent use.
type Filter struct {
	rules   []rule
	fold    bool
	events  []eventFilter
	ignored []tso.TS // sorted
	session expr.Session
}

// eventFilter is a parsed EventFilter.
type eventFilter struct {
	matcher                     []rule
	kinds                       kinds
	sql                         []*regexp.Regexp
	insert, before, after, gone *expr.Text
	only                        []string
}

// New parses the configuration. The error names the key and the place in it.
func New(c Config) (*Filter, error) {
	f := &Filter{fold: !c.CaseSensitive, session: expr.Session{Zone: c.Zone}}
	texts := c.Rules
	if len(texts) == 0 {
		texts = []string{"*.*"}
	}
	var err error
	if f.rules, err = f.parseRules(texts); err != nil {
		return nil, err
	}
	if len(f.rules) == 0 {
		return nil, cdcerr.FilterRuleInvalid.New("rules: all %d are empty or comments, so no table would ever match", len(texts))
	}
	for _, ts := range c.IgnoreTxnStartTS {
		f.ignored = append(f.ignored, tso.TS(ts))
	}
	slices.Sort(f.ignored)
	for i, e := range c.EventFilters {
		parsed, err := f.parseEventFilter(e)
		if err != nil {
			return nil, cdcerr.FilterRuleInvalid.Wrap(err, "filter.event-filters[%d]", i)
		}
		f.events = append(f.events, parsed)
		if parsed.reads() && f.session.Order == nil {
			if f.session.Order, err = collation.New(); err != nil {
				return nil, cdcerr.Bug("%v", err)
			}
		}
		if err := parsed.check(f.session); err != nil {
			return nil, cdcerr.FilterExpression.Wrap(err, "filter.event-filters[%d]", i)
		}
	}
	return f, nil
}

func (f *Filter) parseRules(texts []string) ([]rule, error) {
	var out []rule
	for i, text := range texts {
		p := parser{text: text, index: i + 1, fold: f.fold}
		r, ok, err := p.rule()
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *Filter) parseEventFilter(c EventFilter) (eventFilter, error) {
	var e eventFilter
	var err error
	if e.matcher, err = f.parseRules(c.Matcher); err != nil {
		return e, err
	}
	if len(e.matcher) == 0 {
		return e, cdcerr.FilterRuleInvalid.New(`matcher: it is empty, so that the filter would do nothing; write ["*.*"] for every table`)
	}
	if e.kinds, err = parseKinds(c.IgnoreEvent); err != nil {
		return e, err
	}
	for _, text := range c.IgnoreSQL {
		if err := bounded("ignore-sql", text); err != nil {
			return e, err
		}
		re, err := regexp.Compile("(?i)" + text)
		if err != nil {
			return e, cdcerr.FilterRuleInvalid.New("ignore-sql: %v", err)
		}
		e.sql = append(e.sql, re)
	}
	for _, x := range []struct {
		key, text string
		to        **expr.Text
	}{
		{"ignore-insert-value-expr", c.IgnoreInsertValueExpr, &e.insert},
		{"ignore-update-old-value-expr", c.IgnoreUpdateOldValueExpr, &e.before},
		{"ignore-update-new-value-expr", c.IgnoreUpdateNewValueExpr, &e.after},
		{"ignore-delete-value-expr", c.IgnoreDeleteValueExpr, &e.gone},
	} {
		if x.text == "" {
			continue
		}
		if err := bounded(x.key, x.text); err != nil {
			return e, err
		}
		parsed, err := expr.Parse(x.text)
		if err != nil {
			return e, cdcerr.FilterExpression.Wrap(err, "%s", x.key)
		}
		*x.to = &parsed
	}
	e.only = c.IgnoreUpdateOnlyColumns
	return e, nil
}

// textMax bounds one expression of a filter: reading it takes time that is everybody's.
const textMax = 64 << 10

func bounded(key, text string) error {
	if len(text) <= textMax {
		return nil
	}
	return cdcerr.FilterRuleInvalid.New("%s: it has %d bytes, which is more than %d; write it shorter, or as several event filters", key, len(text), textMax)
}

// check refuses expressions that fit no table, whatever its columns.
func (e *eventFilter) check(s expr.Session) error {
	for _, x := range []*expr.Text{e.insert, e.before, e.after, e.gone} {
		if x == nil {
			continue
		}
		if err := x.Check(s); err != nil {
			return err
		}
	}
	return nil
}

// reads tells whether the filter looks at the values of rows.
func (e *eventFilter) reads() bool {
	return e.insert != nil || e.before != nil || e.after != nil || e.gone != nil
}

func (e *eventFilter) touchesRows() bool {
	return e.reads() || len(e.only) > 0 || slices.Contains(e.kinds.rows[:], true)
}

// matches tells whether the filter is about the table; a database as a whole has
// no table name, which only a pattern for every name matches.
func (e *eventFilter) matches(schema, table string) bool { return decide(e.matcher, schema, table) }

// decide is what the last rule that matches says.
func decide(rules []rule, schema, table string) bool {
	for _, r := range slices.Backward(rules) {
		if r.schema.match(schema) && r.table.match(table) {
			return !r.exclude
		}
	}
	return false
}

// Table tells whether rows of the table are wanted.
func (f *Filter) Table(schema, table string) bool {
	return !IsSystem(schema) && decide(f.rules, schema, table)
}

// Schema tells whether some table of the schema could be wanted.
func (f *Filter) Schema(schema string) bool {
	if IsSystem(schema) {
		return false
	}
	for _, r := range slices.Backward(f.rules) {
		if !r.schema.match(schema) {
			continue
		}
		if !r.exclude {
			return true
		}
		if r.table.matchesAll() {
			return false
		}
	}
	return false
}

// TakesNone tells whether no table there ever may be could be wanted.
func (f *Filter) TakesNone() bool {
	for _, r := range slices.Backward(f.rules) {
		if !r.exclude || r.schema.matchesAll() && r.table.matchesAll() {
			return r.exclude
		}
	}
	return true
}

// IgnoresTxn tells whether the transaction of this start-ts is left out.
func (f *Filter) IgnoresTxn(start tso.TS) bool {
	if len(f.ignored) == 0 {
		return false
	}
	_, found := slices.BinarySearch(f.ignored, start)
	return found
}

// ignoresDDL is the first event filter that leaves the DDL out for this table, -1
// for none. The text is the statement that is about the table.
func (f *Filter) ignoresDDL(a event.Action, schema, table, text string) int {
	return slices.IndexFunc(f.events, func(e eventFilter) bool {
		if !e.matches(schema, table) {
			return false
		}
		return e.kinds.ddl(a) || slices.ContainsFunc(e.sql, func(re *regexp.Regexp) bool { return re.MatchString(text) })
	})
}

// system are the schemas that hold the cluster's own state, or that of the tools
// round it; in lower case.
func system() []string {
	return []string{
		"information_schema", "performance_schema", "metrics_schema", "inspection_schema",
		"mysql", "sys", "tidb_cdc", "lightning_task_info", "lightning_metadata", "workload_schema",
	}
}

// IsSystem tells whether no rule can ever bring the schema in.
func IsSystem(schema string) bool {
	return slices.ContainsFunc(system(), func(s string) bool { return strings.EqualFold(s, schema) })
}
