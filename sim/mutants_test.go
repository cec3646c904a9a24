package sim_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	mutants = flag.String("mutants", "some", "which wrong lines are seen to be caught: all, some, or those whose name has this word")
	brief   = flag.Bool("brief", false, "say only whether a schedule fails")
)

// mutant is the scheduler with one wrong line.
type mutant struct {
	name string
	file string
	text []byte
}

// mutantRuns is how many seeds a mutant has to get past to count as not caught.
const mutantRuns = 40_000

// TestMutants builds the simulator over each wrong scheduler and sees that it fails.
// Survivors are listed with the reason why nothing that is promised depends on the line;
// one that is listed and caught is an error too.
func TestMutants(t *testing.T) {
	all := slices.Concat(disabledCases(t), invertedFences(t), wrongLines(t))
	if *mutants == "some" {
		all = []mutant{all[1], all[len(all)/2], all[len(all)-1]}
	} else if *mutants != "all" {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, *mutants) })
	}
	seen := map[string]bool{}
	for _, m := range all {
		seen[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			reason, listed := survivors[m.name]
			how, caught := m.play(t)
			switch {
			case caught && listed:
				t.Fatalf("is listed as not to be caught, and is: %s", how)
			case caught:
				t.Log("caught: ", how)
			case listed:
				t.Log("not caught, as is known: ", reason)
			default:
				t.Fatalf("%d seeds do not notice it", mutantRuns)
			}
		})
	}
	if *mutants == "all" {
		for name := range survivors {
			if !seen[name] {
				t.Errorf("survivor %q is no mutant", name)
			}
		}
	}
}

// play runs seeds over the mutant, and tells how the first failed.
func (m mutant) play(t *testing.T) (how string, caught bool) {
	dir := t.TempDir()
	changed, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "sim.test")
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{changed: m.text, filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("does not build: %v\n%s", err, out)
	}
	begun := time.Now()
	run := exec.Command(binary, "-test.run", "^TestSchedules$", "-test.timeout", "120s", "-brief", "-runs", strconv.Itoa(mutantRuns))
	out, err := run.CombinedOutput()
	if err == nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(out[max(0, bytes.Index(out, []byte("seed "))):]), "\n")
	return fmt.Sprintf("%s (%v)", line, time.Since(begun).Round(time.Millisecond)), true
}

// switches are the functions whose switches move a set or a span from one state to the
// next.
var switches = map[string][]string{
	"transitions.go": {"reported", "inPrepare", "inCommit", "inReplicating", "inRemoving", "promote", "settle", "remind"},
	"capture.go":     {"obey", "phase"},
	"rebuild.go":     {"heard", "attach", "infer", "cutUp"},
	"split.go":       {"reshapeSome"},
}

func source(t *testing.T, name string) (string, *token.FileSet, *ast.File, []byte) {
	file := filepath.Join("..", "scheduler", name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file, set, parsed, text
}

// disabledCases are the cases of the switches, each with its body never done.
func disabledCases(t *testing.T) (out []mutant) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range switches {
			if !yield(n) {
				return
			}
		}
	}) {
		file, set, parsed, text := source(t, name)
		at := func(p token.Pos) int { return set.Position(p).Offset }
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !slices.Contains(switches[name], fn.Name.Name) {
				continue
			}
			var path []string
			ast.Inspect(fn, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok || len(c.Body) == 0 {
					return true
				}
				label := "default"
				if len(c.List) > 0 {
					label = string(text[at(c.List[0].Pos()):at(c.List[len(c.List)-1].End())])
				}
				path = append(path, label)
				from, to := at(c.Body[0].Pos()), at(c.Body[len(c.Body)-1].End())
				changed := slices.Concat(text[:from], []byte("if false {"), text[from:to], []byte("\n}"), text[to:])
				out = append(out, mutant{fmt.Sprintf("%s case %d: %s", fn.Name.Name, len(path), label), file, changed})
				return true
			})
		}
	}
	return out
}

// invertedFences are the comparisons of fence.go, each turned round.
func invertedFences(t *testing.T) (out []mutant) {
	opposite := map[token.Token]string{token.LSS: ">=", token.GTR: "<=", token.LEQ: ">", token.GEQ: "<", token.EQL: "!=", token.NEQ: "=="}
	file, set, parsed, text := source(t, "fence.go")
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		count := 0
		ast.Inspect(fn, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok || opposite[b.Op] == "" {
				return true
			}
			count++
			from := set.Position(b.OpPos).Offset
			changed := slices.Concat(text[:from], []byte(opposite[b.Op]), text[from+len(b.Op.String()):])
			out = append(out, mutant{fmt.Sprintf("fence %s comparison %d", fn.Name.Name, count), file, changed})
			return true
		})
	}
	return out
}

// wrongLines are those that somebody could write and believe in.
func wrongLines(t *testing.T) (out []mutant) {
	for _, w := range wrong {
		file := filepath.Join("..", "scheduler", w.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte(w.right)); n != 1 {
			t.Fatalf("%s: %q stands %d times in %s", w.name, w.right, n, w.file)
		}
		out = append(out, mutant{"wrong: " + w.name, file, bytes.Replace(text, []byte(w.right), []byte(w.wrong), 1)})
	}
	return out
}
