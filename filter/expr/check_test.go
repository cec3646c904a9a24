package expr_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter/expr"
)

func check(t *testing.T, text string) error {
	t.Helper()
	x, err := expr.Parse(text)
	if err != nil {
		return err
	}
	return x.Check(expr.Session{Order: newOrder(t)})
}

// What compiles for some table is let through without one.
func TestCheckLetsThrough(t *testing.T) {
	data, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		if err := check(t, line); err != nil {
			t.Error(err)
		}
	}
	if lines < 50 {
		t.Errorf("only %d lines", lines)
	}
	for _, text := range []string{"nothere > 3", "other.i = 1", "nothere collate utf8mb4_bin = 'a'"} {
		if err := check(t, text); err != nil {
			t.Error(err)
		}
	}
}

// What compiles for no table is refused without one.
func TestCheckRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"i >":                     "cannot be parsed",
		"i > 1 and now() > dm":    "function NOW is not supported",
		"abs(rand()) > i":         "function RAND is not supported",
		"s.f(i)":                  "function F is not supported",
		"ifnull(i)":               "IFNULL with 1 arguments",
		"i in (select 1)":         "subquery",
		"exists (select 1)":       "subquery",
		"@@tidb_current_ts > i":   "variables are not known",
		"count(*) > i":            "one row only",
		"cast(i as char) = '1'":   "CAST and CONVERT",
		"(i, s) = (1, 'x')":       "rows of several values",
		"dt > DATE 'yesterday'":   "none",
		"x'00'":                   "neither true nor false",
		"9223372036854775807 + 1": "out of the range of an integer",
	} {
		err := check(t, text)
		if err == nil || !cdcerr.FilterExpression.Is(err) || says != "none" && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error saying %q", text, err, says)
		}
	}
}
