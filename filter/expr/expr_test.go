package expr_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/collation"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter/expr"
)

func compile(t *testing.T, text string, s expr.Session) (*expr.Expr, error) {
	t.Helper()
	x, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	if s.Order == nil {
		s.Order = newOrder(t)
	}
	tab := table()
	tab.Columns = append(tab.Columns,
		event.Column{Name: "v", Type: event.TypeLong, Generated: event.Virtual, GenExpr: "`i` + 1"},
		event.Column{Name: "a9", Type: event.TypeVarchar, Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"},
		event.Column{Name: "gb", Type: event.TypeVarchar, Charset: "gbk", Collation: "gbk_chinese_ci"},
		event.Column{Name: "vec", Type: event.TypeVector})
	return x.Compile(tab, s)
}

func TestRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                          "cannot be parsed",
		"i >":                       "cannot be parsed",
		"i > 1; drop table t":       "cannot be parsed",
		"i > 1) from t where (1":    "nothing behind it",
		"i > 1, s":                  "rows of several values",
		"(select 1)":                "subquery",
		"exists (select 1)":         "subquery",
		"i in (select 1)":           "subquery",
		"i = any (select 1)":        "subquery",
		"now() > dm":                "function NOW is not supported; there are ABS, CEIL",
		"rand() > 0.5":              "function RAND is not supported",
		"@@tidb_current_ts > 0":     "variables are not known",
		"@x = 1":                    "variables are not known",
		"count(*) > 0":              "one row only",
		"cast(i as char) = '1'":     "CAST and CONVERT",
		"nothere = 1":               "there is no column nothere",
		"other.i = 1":               "column of another table",
		"v > 1":                     "v is a virtual generated column, which no event carries: write its expression (`i` + 1) out",
		"j = '{}'":                  "j is JSON or a vector",
		"j":                         "neither true nor false",
		"j + 1 = 1":                 "which is no number",
		"vec = '[1]'":               "JSON or a vector",
		"j->'$.a' = 1":              "function JSON_EXTRACT is not supported",
		"a9 = 'x'":                  "the order of collation utf8mb4_0900_ai_ci is not known here",
		"a9 like 'x'":               "utf8mb4_0900_ai_ci",
		"g = c":                     "g is in utf8mb4_general_ci and c in utf8mb4_unicode_ci: say which of them by COLLATE",
		"s collate utf8mb4_x = 'a'": "Unknown collation: 'utf8mb4_x'",
		"dt = 'yesterday'":          "none",
		"dt = s":                    "write one of them as a constant",
		"dt = tm":                   "write one of them as a constant",
		"dt > i":                    "write one of them as a constant",
		"b = '5'":                   "write the bits as a number",
		"length(gb) = 2":            "its length in bytes is not known",
		"s regexp g":                "the pattern must be a constant",
		"s regexp '('":              "missing closing",
		"if(i, 1, 'x') = 1":         "they cannot stand for each other",
		"ifnull(i)":                 "IFNULL with 1 arguments",
		"s.f(1)":                    "function F is not supported",
		"9223372036854775807 + 1":   "out of the range of an integer",
		"i ilike 'x'":               "ILIKE",
		"x'00' ":                    "neither true nor false",
	} {
		_, err := compile(t, text, expr.Session{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error saying %q", text, err, says)
			continue
		}
		if want := text == "nothere = 1"; cdcerr.FilterColumn.Is(err) != want || cdcerr.FilterExpression.Is(err) == want {
			t.Errorf("%s: wrong code: %v", text, err)
		}
	}
}

func row(t *testing.T, cells map[string]string) event.Image {
	t.Helper()
	tab := table()
	out := make(event.Image, len(tab.Columns), len(tab.Columns)+4)
	for i := range tab.Columns {
		out[i] = event.NullValue()
	}
	for name, text := range cells {
		i := tab.Column(name)
		v, err := event.ParseText(&tab.Columns[i], text)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = v
	}
	return out
}

func TestTimestampsAreReadInTheZone(t *testing.T) {
	zone := time.FixedZone("east", 8*3600)
	r := row(t, map[string]string{"ts": "2023-12-31 20:00:00", "dm": "2023-12-31 20:00:00"})
	for text, want := range map[string]bool{
		"year(ts) = 2024":            true,
		"year(dm) = 2024":            false,
		"ts = '2024-01-01 04:00:00'": true,
		"hour(ts) = 4":               true,
	} {
		x, err := compile(t, text, expr.Session{Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.True(r); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	zero := row(t, map[string]string{"ts": "0000-00-00 00:00:00"})
	x, err := compile(t, "ts = '0000-00-00 00:00:00'", expr.Session{Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.True(zero); err != nil || !got {
		t.Error("the zero time is in no zone", got, err)
	}
}

func TestRowErrors(t *testing.T) {
	x, err := compile(t, "u - 1 < 5", expr.Session{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.True(row(t, map[string]string{"u": "0"}))
	if !cdcerr.FilterExpression.Is(err) || !strings.Contains(err.Error(), "-1 is out of the range of an integer") {
		t.Error(err)
	}
	x, err = compile(t, "g = 'x'", expr.Session{})
	if err != nil {
		t.Fatal(err)
	}
	bad := row(t, nil)
	bad[table().Column("g")] = event.BytesValue([]byte{0xff})
	if _, err := x.True(bad); !cdcerr.FilterExpression.Is(err) {
		t.Error("a string that is no UTF-8 has an order:", err)
	}
}

// TiDB keeps the digits of a quotient up to the end of their group of nine, and
// cuts what follows; other servers round, so that this is not compared with one.
func TestDigitsOfQuotients(t *testing.T) {
	r := row(t, map[string]string{"d": "1.500"})
	for text, want := range map[string]bool{
		"1 / 3 > 0.3333":           true,
		"1 / 3 = 0.333333333":      true,
		"2 / 3 = 0.666666666":      true,
		"d / 7 = 0.214285714":      true,
		"0.0001 / 3 = 0.000033333": true,
		"1.0123456789 / 3.1 = 0.326563122225806451612903225": true,
		"-2 / 3 = -0.666666666":                              true,
		"1 / 0 is null":                                      true,
	} {
		x, err := compile(t, text, expr.Session{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.True(r); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestYearsAndNames(t *testing.T) {
	r := row(t, map[string]string{"id": "1", "y": "1999", "i": "3"})
	for _, text := range []string{"T.id = 1", "s.t.ID = 1", "`id` = 1", "y = 99", "id = 1 -- a comment", "id = 1 /* another */", "i\n=\n3"} {
		x, err := compile(t, text, expr.Session{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := x.True(r); err != nil || !got {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if x.String() != text {
			t.Errorf("%q prints as %q", text, x)
		}
	}
}

// A comparison of numbers and strings of the common kinds allocates nothing.
func TestAllocations(t *testing.T) {
	r := row(t, map[string]string{"id": "7", "s": "apple", "dt": "2024-01-01"})
	x, err := compile(t, "id > 2 and s <> 'pear' and dt > '2000-01-01' and i is null", expr.Session{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if ok, err := x.True(r); !ok || err != nil {
			err = errors.Join(err, errors.New("not true"))
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"i > 1", "s like 'a%'", "case when i then 1 end", "((", "1e400 > 0", "1e-400"} {
		f.Add(text)
	}
	tab := table()
	order, err := collation.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := expr.Parse(text)
		if err != nil {
			return
		}
		e, err := x.Compile(tab, expr.Session{Order: order})
		if err != nil {
			return
		}
		_, _ = e.True(row(t, map[string]string{"id": "1", "s": "x", "d": "1.5", "dt": "2024-01-01"}))
	})
}

// Where an expression cannot be parsed is said in its own text.
func TestWhereItCannotBeParsed(t *testing.T) {
	for text, says := range map[string]string{
		"":                     "something is missing at its end",
		"id >":                 "something is missing at its end",
		"a = 1)":               "a parenthesis is closed that was not opened",
		"id > > 3":             `begins at, or just before, "> 3"`,
		"i\n> > (3)":           `begins at, or just before, "> (3)"`,
		"i > 1; drop table t":  `begins at, or just before, "; drop table t"`,
		`a = "x" "y" = and b`:  `begins at, or just before, "and b"`,
		"a = 'x":               `begins at, or just before, "'x"`,
		"/* a":                 `begins at, or just before, "/* a"`,
		"a == 1 and ((b)":      `begins at, or just before, "= 1 and ((b)"`,
		"a not between 1 to 2": `begins at, or just before, "to 2"`,
	} {
		_, err := expr.Parse(text)
		if !cdcerr.FilterExpression.Is(err) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), "\n)") {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
