package filter_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
)

// Each line: rules, then tables that match, then tables that do not.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		rules   []string
		in, out []string
	}{
		{nil, []string{"a.b", "test.t", "sys2.x"}, []string{"mysql.user", "INFORMATION_SCHEMA.tables", "Performance_Schema.x",
			"metrics_schema.x", "sys.x", "tidb_cdc.x", "lightning_task_info.x", "workload_schema.x", "inspection_schema.x"}},
		{[]string{"mysql.*", "sys.*"}, nil, []string{"mysql.user", "sys.x", "a.b"}},
		{[]string{"db1.tbl1", "db2.tbl2"}, []string{"db1.tbl1", "db2.tbl2", "DB1.Tbl1"}, []string{"db1.tbl2", "db11.tbl1", "xdb1.tbl1"}},
		{[]string{"\tdb.t "}, []string{"db.t"}, nil},
		{[]string{"# all", "", "db.t"}, []string{"db.t"}, []string{"a.b"}},
		{[]string{"db*.t?"}, []string{"db.t1", "dbx.té", "DB9.Tx"}, []string{"db.t", "db.t12", "xdb.t1"}},
		{[]string{"*a*b*.*"}, []string{"ab.x", "xaxbx.y", "aab.z"}, []string{"ba.x", "a.x"}},
		{[]string{"db[0-9].t[0-9a-f][0-9a-f]"}, []string{"db3.t0F", "db9.tff"}, []string{"db.t00", "dbx.t00", "db1.tg0", "db1.t0"}},
		{[]string{"db[!0-9].t"}, []string{"dbx.t", "db-.t", "dbé.t"}, []string{"db1.t", "db.t"}},
		{[]string{"[]a]x.t[!]]"}, []string{"]x.t1", "ax.ta"}, []string{"bx.t1", "ax.t]"}},
		{[]string{"[a-].[-a]"}, []string{"a.a", "-.-"}, []string{"b.a"}},
		{[]string{"a[ ].t"}, []string{"a .t"}, []string{"a.t"}},
		{[]string{`a[\]\-x].t`}, []string{"a].t", "a-.t", "ax.t"}, []string{`a\.t`, "ay.t"}},
		{[]string{`db\.with\.dots.*`}, []string{"db.with.dots|t"}, []string{"dbxwithxdots|t"}},
		{[]string{`a\*.\!t`}, []string{"a*.!t"}, []string{"ab.!t"}},
		{[]string{`"db.with.dots"."t\1"`, "`d``q`.`x.*`", `"a""b".t`}, []string{`db.with.dots|t\1`, "d`q|x.*", `a"b|t`}, []string{"d`q|x.y"}},
		{[]string{"\"日本\".`ß?`"}, []string{"日本.ß?"}, []string{"日本.ßx"}},
		{[]string{`/^db\d{2,}$/./^t\d$/`}, []string{"db12.t1", "DB345.T9"}, []string{"db1.t1", "xdb12.t1", "db12.t12"}},
		{[]string{`/b/.t`}, []string{"db01.t", "B.t"}, []string{"d.t"}},
		{[]string{`/a\/b|c/.*`}, []string{"a/b.x", "c.x"}, []string{"a.x"}},
		{[]string{`/^[a\/]+$/.*`}, []string{"a/a.x"}, []string{"b.x"}},
		{[]string{"employees.*", "!*.dep*", "*.departments"},
			[]string{"employees.employees", "employees.departments", "else.departments"}, []string{"irrelevant.table", "employees.dept_emp"}},
		{[]string{"!*.Password"}, nil, []string{"a.Password", "a.b"}},
		{[]string{"*.*", "!*.Password"}, []string{"a.b"}, []string{"a.password"}},
		{[]string{`!"a".b`, "a.*"}, []string{"a.b"}, nil},
	} {
		f, err := filter.New(filter.Config{Rules: c.rules})
		if err != nil {
			t.Errorf("%q: %v", c.rules, err)
			continue
		}
		for _, name := range c.in {
			if s, n := split(name); !f.Table(s, n) {
				t.Errorf("%q left %s out", c.rules, name)
			}
		}
		for _, name := range c.out {
			if s, n := split(name); f.Table(s, n) {
				t.Errorf("%q took %s", c.rules, name)
			}
		}
	}
}

// split cuts at the bar, where there is none at the last dot.
func split(name string) (schema, table string) {
	if s, n, ok := strings.Cut(name, "|"); ok {
		return s, n
	}
	i := strings.LastIndex(name, ".")
	return name[:i], name[i+1:]
}

func TestCaseSensitive(t *testing.T) {
	f, err := filter.New(filter.Config{Rules: []string{"Db.T[a-c]", "/^R/.x"}, CaseSensitive: true})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Table("Db", "Ta") || f.Table("db", "Ta") || f.Table("Db", "TA") || !f.Table("R1", "x") || f.Table("r1", "x") {
		t.Fatal("letter case was ignored or mixed up")
	}
	if f.Table("MySQL", "user") {
		t.Fatal("a system schema came in by its case")
	}
}

// One rule of case for plain names, wildcards, ranges (turned round too), quoted
// names and regular expressions.
func TestCaseIgnoredEverywhere(t *testing.T) {
	for _, rule := range []string{"TEST.T", "te?t.t", "[a-t]est.T", `"TesT".t`, "/^TEST$/./T/", "t[!X]st.t"} {
		f, err := filter.New(filter.Config{Rules: []string{rule}})
		if err != nil {
			t.Fatal(err)
		}
		if !f.Table("tEst", "T") {
			t.Errorf("%s did not match tEst.T", rule)
		}
	}
	f, _ := filter.New(filter.Config{Rules: []string{"[!a-z]x.t"}})
	if f.Table("Ax", "t") || !f.Table("1x", "t") {
		t.Error("a range turned round let the other case in")
	}
}

func TestSchema(t *testing.T) {
	f, err := filter.New(filter.Config{Rules: []string{"a.*", "b.t1", "c.*", "!c.x", "d.*", "!d.*", "!e.*", "e.y"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "B": true, "c": true, "d": false, "e": true, "z": false, "mysql": false} {
		if f.Schema(name) != want {
			t.Errorf("Schema(%s) = %v", name, !want)
		}
	}
}

func TestErrorsNameRuleAndPlace(t *testing.T) {
	for _, c := range []struct{ rule, place, words string }{
		{"db", "character 3", "table pattern must follow"},
		{"db.", "character 4", "table pattern is missing"},
		{".t", "character 1", "schema pattern is missing"},
		{"db.t x", "character 6", "nothing may follow"},
		{"db.t.x", "character 5", "nothing may follow"},
		{"db .t", "character 3", "must follow"},
		{"é-b.t", "character 2", `'-' has no meaning`},
		{"a.b!", "character 4", `'!' has no meaning`},
		{`a\b.t`, "character 2", "ordinary already"},
		{`a.t\`, "character 4", "at the end"},
		{"a[bc.t", "character 2", "no closing ]"},
		{"a[].t", "character 2", "no closing ]"},
		{"a[z-a].t", "character 6", "upside down"},
		{"a[^b].t", "character 3", `not with \^`},
		{"a[[:alpha:]].t", "character 3", "character classes"},
		{`"this is "invalid*.*`, "character 11", "must follow"},
		{`"open.t`, "character 1", "no closing"},
		{"``.t", "character 1", "empty"},
		{"/x.t", "character 1", "no closing /"},
		{"/(/.t", "character 1", "regular expression is wrong"},
		{"/a)(b/.t", "character 1", "regular expression is wrong"},
		{"@file", "character 1", "written out|write them out"},
		{"a.t\x00", "character 1", "plain UTF-8"},
		{"a\xff.t", "character 1", "plain UTF-8"},
	} {
		_, err := filter.New(filter.Config{Rules: []string{"ok.*", c.rule}})
		if !cdcerr.FilterRuleInvalid.Is(err) {
			t.Errorf("%q: %v", c.rule, err)
			continue
		}
		if !strings.Contains(err.Error(), "rule 2 ") || !strings.Contains(err.Error(), c.place+":") || !regexp.MustCompile(c.words).MatchString(err.Error()) {
			t.Errorf("%q: want %s and %q in: %v", c.rule, c.place, c.words, err)
		}
	}
	if _, err := filter.New(filter.Config{Rules: []string{"", "# nothing"}}); !cdcerr.FilterRuleInvalid.Is(err) {
		t.Errorf("rules that say nothing: %v", err)
	}
}

// Wildcards against the same pattern as a regular expression.
func TestWildcardsAgainstRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "B", "*", "?", "[ab]", "[!b-c]", "é"}), 1, 8).Draw(t, "pieces")
		name := rapid.StringOfN(rapid.RuneFrom([]rune("abBcéÉ1")), 0, 10, -1).Draw(t, "name")
		f, err := filter.New(filter.Config{Rules: []string{"s." + strings.Join(pieces, "")}})
		if err != nil {
			t.Fatal(err)
		}
		re := strings.NewReplacer("*", ".*", "?", ".", "[!", "[^").Replace(strings.Join(pieces, ""))
		if want := regexp.MustCompile("(?is)^" + re + "$").MatchString(name); f.Table("s", name) != want {
			t.Fatalf("%v on %q: %v", pieces, name, !want)
		}
	})
}

// No text makes the parser panic, and what it takes it can match.
func FuzzRules(f *testing.F) {
	for _, s := range []string{"*.*", "!a[b-c]\\.d.`x``y`", `/^a\/b$/."q"`, "[]a].[!-]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := filter.New(filter.Config{Rules: []string{s}})
		if err == nil {
			r.Table(s, s)
			r.Schema(s)
		} else if !cdcerr.FilterRuleInvalid.Is(err) {
			t.Fatal(err)
		}
	})
}

func TestTakesNone(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "*.*": false, "!*.*": true, "a.*,!*.*": true, "!*.*,a.b": false, "*.*,!a.*": false, "!a.*": true, "a.*,!*.b": false, "a.b,!**.*": true,
	} {
		var rules []string
		if text != "" {
			rules = strings.Split(text, ",")
		}
		f, err := filter.New(filter.Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		if f.TakesNone() != want {
			t.Errorf("%s: %v, want %v", text, !want, want)
		}
	}
}
