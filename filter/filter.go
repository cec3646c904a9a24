package filter

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Config is what an operator writes under [filter].
type Config struct {
	// Rules in order; none at all means *.*.
	Rules []string
	// CaseSensitive compares names to the letter. TiDB itself never does.
	CaseSensitive bool
}

// Filter is a parsed Config. It is safe for concurrent use.
type Filter struct {
	rules []rule
	fold  bool
}

// New parses the rules. The error names the rule and the place in it.
func New(c Config) (*Filter, error) {
	f := &Filter{fold: !c.CaseSensitive}
	texts := c.Rules
	if len(texts) == 0 {
		texts = []string{"*.*"}
	}
	for i, text := range texts {
		p := parser{text: text, index: i + 1, fold: f.fold}
		r, ok, err := p.rule()
		if err != nil {
			return nil, err
		}
		if ok {
			f.rules = append(f.rules, r)
		}
	}
	if len(f.rules) == 0 {
		return nil, cdcerr.FilterRuleInvalid.New("rules: all %d are empty or comments, so no table would ever match", len(texts))
	}
	return f, nil
}

// Table tells whether rows of the table are wanted.
func (f *Filter) Table(schema, table string) bool {
	if IsSystem(schema) {
		return false
	}
	for _, r := range slices.Backward(f.rules) {
		if r.schema.match(schema) && r.table.match(table) {
			return !r.exclude
		}
	}
	return false
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
