package lint_test

import (
	"bufio"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sluice-cdc/sluice/internal/lint"
)

var rewrite = flag.Bool("rewrite", false, "write what the rules find into the scripts, and the tables into the documents")

// The project itself keeps the house rules.
func TestHouse(t *testing.T) {
	m := load(t, os.DirFS(filepath.Join("..", "..")))
	if len(m.Packages) < 5 {
		t.Fatalf("only %d packages found: the rules looked at the wrong folder", len(m.Packages))
	}
	for _, f := range lint.Check(m, lint.House()) {
		t.Error(f)
	}
}

// Each script in testdata is a small module and what the rules find in it, so
// that every rule is seen to fail; what it must leave alone stands beside.
func TestRules(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	failed := map[string]bool{}
	for _, path := range scripts {
		t.Run(filepath.Base(path), func(t *testing.T) {
			script, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, f := range run(t, script) {
				failed[f.Rule] = true
				got.WriteString(f.String() + "\n")
			}
			last := &script.Files[len(script.Files)-1]
			if last.Name != "want" {
				t.Fatal("the last file of a script is want")
			}
			if *rewrite {
				last.Data = []byte(got.String())
				if err := os.WriteFile(path, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got.String() != string(last.Data) {
				t.Errorf("found:\n%swant:\n%s", got.String(), last.Data)
			}
		})
	}
	for _, r := range lint.Rules() {
		if !failed[r.Name] {
			t.Errorf("no script shows rule %q (%s) failing", r.Name, r.Says)
		}
	}
}

// Two documents print the tables as the rules hold them.
func TestTablesInDocuments(t *testing.T) {
	for _, d := range []struct{ path, name, want string }{
		{"ARCHITECTURE.md", "rooms", lint.House().Table()},
		{"docs/design/0001-dependencies.md", "doors", lint.House().DoorTable()},
	} {
		path := filepath.Join("..", "..", filepath.FromSlash(d.path))
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+d.name+": from internal/lint -->\n", "<!-- /"+d.name+" -->"
		before, rest, found := strings.Cut(string(page), begin)
		printed, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no place for the table: want %s…%s", d.path, begin, end)
		}
		if *rewrite {
			printed = d.want
			if err := os.WriteFile(path, []byte(before+begin+d.want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if printed != d.want {
			t.Errorf("the table in %s differs from rooms.go: go test ./internal/lint -rewrite", d.path)
		}
	}
}

// run applies all rules to the module of a script; its comment is the table:
//
//	room PATH KIND [IMPORT…]
//	door MODULE [ROOM…]
//	except RULE FILE WHAT WHY…
//	plan PATH
//	fill FILE LINES
func run(t *testing.T, script *txtar.Archive) []lint.Finding {
	t.Helper()
	var cfg lint.Config
	fill := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(string(script.Comment)))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "room" && len(f) >= 3:
			cfg.Rooms = append(cfg.Rooms, lint.Room{Path: f[1], Kind: lint.Kind(f[2]), Imports: f[3:]})
		case f[0] == "door" && len(f) >= 2:
			cfg.Doors = append(cfg.Doors, lint.Door{Module: f[1], Rooms: f[2:]})
		case f[0] == "except" && len(f) >= 4:
			cfg.Exceptions = append(cfg.Exceptions, lint.Exception{Rule: f[1], File: f[2], What: f[3], Why: strings.Join(f[4:], " ")})
		case f[0] == "plan" && len(f) == 2:
			cfg.Planned = append(cfg.Planned, f[1])
		case f[0] == "fill" && len(f) == 3:
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatal(err)
			}
			fill[f[1]] = n
		default:
			t.Fatalf("cannot read %q", lines.Text())
		}
	}
	var module txtar.Archive
	for _, f := range script.Files[:len(script.Files)-1] {
		f.Data = append(slices.Clone(f.Data), strings.Repeat("// more\n", fill[f.Name])...)
		module.Files = append(module.Files, f)
	}
	fsys, err := txtar.FS(&module)
	if err != nil {
		t.Fatal(err)
	}
	return lint.Check(load(t, fsys), cfg)
}

func load(t *testing.T, fsys fs.FS) *lint.Module {
	t.Helper()
	m, err := lint.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
