package lint

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// Finding is one place that breaks one rule.
type Finding struct {
	File    string
	Line    int
	Rule    string
	Message string
}

// String is the form that editors jump to.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Message)
}

// Config is what the rules compare a module with.
type Config struct {
	Rooms      []Room
	Doors      []Door
	Planned    []string // packages that may come: none of them is there yet
	Exceptions []Exception
}

// House is this project's own.
func House() Config {
	return Config{Rooms: rooms, Doors: doors, Planned: planned, Exceptions: exceptions}
}

// Exception lets one thing break one rule, for a reason. What is a part of the
// finding's message, such as a function's name; empty means all in the file.
type Exception struct {
	Rule string
	File string
	What string
	Why  string
}

// Rule is one house rule.
type Rule struct {
	Name string
	Says string // what the rule asks for, one clause
	run  func(*pass)
}

// Rules lists every rule in the order of its file.
func Rules() []Rule {
	return slices.Concat(layerRules(), purityRules(), nameRules(), sizeRules(), conductRules(), textRules(), symbolRules())
}

// pass is one rule at work on one module.
type pass struct {
	*Module
	Config
	rule     string
	findings []Finding
}

func (p *pass) report(file string, line int, format string, args ...any) {
	p.findings = append(p.findings, Finding{File: file, Line: line, Rule: p.rule, Message: fmt.Sprintf(format, args...)})
}

func (p *pass) reportAt(f *File, pos token.Pos, format string, args ...any) {
	p.report(f.Path, p.Fset.Position(pos).Line, format, args...)
}

// files walks over all files, or over those that are no tests.
func (p *pass) files(tests bool, visit func(*Package, *File)) {
	for _, pkg := range p.Packages {
		for _, f := range pkg.Files {
			if tests || !f.Test {
				visit(pkg, f)
			}
		}
	}
}

// Check runs every rule and returns what it found, by file and line. An
// exception that nothing needs is a finding too.
func Check(m *Module, cfg Config) []Finding {
	var all []Finding
	used := make([]bool, len(cfg.Exceptions))
	for _, r := range Rules() {
		p := &pass{Module: m, Config: cfg, rule: r.Name}
		r.run(p)
		for _, f := range p.findings {
			i := slices.IndexFunc(cfg.Exceptions, func(e Exception) bool {
				return e.Rule == f.Rule && e.File == f.File && strings.Contains(f.Message, e.What)
			})
			if i >= 0 {
				used[i] = true
				continue
			}
			all = append(all, f)
		}
	}
	for i, e := range cfg.Exceptions {
		if !used[i] || e.Why == "" {
			all = append(all, Finding{File: e.File, Rule: e.Rule,
				Message: fmt.Sprintf("exception %q: nothing needs it, or it has no reason", e.What)})
		}
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line,
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	return all
}
