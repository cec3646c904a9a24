package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
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

// mutant is the scheduler with one wrong line: a copy of one file, or a number by which
// the copy with all switches is told which of them is off.
type mutant struct {
	name   string
	number int
	file   string
	text   []byte
}

// some are mutants that the first seeds notice.
var some = []string{"obey case 1: Write", "phase case 2: was && !is", "fence late, comparison 1", "fence outgrown, comparison 1", "fence elsewhere, comparison 1"}

// seldom is in the reason of a survivor that a mix of actions catches and the next does
// not: it may be caught.
const seldom = "too seldom to be counted on"

// mutantRuns is how many seeds a mutant has to get past to count as not caught.
const mutantRuns = 60_000

// TestMutants runs the simulator over each wrong scheduler and sees that it fails.
// Survivors are listed with the reason why nothing that is promised depends on the line;
// one that is listed and caught is an error too.
func TestMutants(t *testing.T) {
	switched := newSwitchboard(t)
	all := slices.Concat(switched.mutants, wrongLines(t))
	if *mutants == "some" { // the rest is `make sim`
		all = slices.DeleteFunc(switched.mutants, func(m mutant) bool { return !slices.Contains(some, m.name) })
		if len(all) != len(some) {
			t.Fatalf("of %q only %d are there", some, len(all))
		}
	} else if *mutants != "all" {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, *mutants) })
	}
	seen := map[string]bool{}
	for _, m := range all {
		seen[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			binary := switched.binary
			if m.number == 0 {
				binary = build(t, map[string][]byte{m.file: m.text})
			}
			reason, listed := survivors[m.name]
			how, caught := play(t, binary, m.number)
			switch {
			case caught && listed && !strings.Contains(reason, seldom):
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

// build makes the simulator over the scheduler with other texts for some files.
func build(t *testing.T, texts map[string][]byte) (binary string) {
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range texts {
		original, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[original], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "sim.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("does not build: %v\n%s", err, out)
	}
	return binary
}

// play runs seeds over a mutant, and tells how the first failed.
func play(t *testing.T, binary string, number int) (how string, caught bool) {
	begun := time.Now()
	run := exec.Command(binary, "-test.run", "^TestSchedules$", "-test.timeout", "10m", "-brief", "-runs", strconv.Itoa(mutantRuns))
	run.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(number))
	out, err := run.CombinedOutput()
	if err == nil {
		return "", false
	}
	if errors.As(err, new(*exec.ExitError)) {
		line, _, _ := strings.Cut(string(out[max(0, bytes.Index(out, []byte("seed "))):]), "\n")
		return fmt.Sprintf("%s (%v)", line, time.Since(begun).Round(time.Millisecond)), true
	}
	t.Fatal(err)
	return "", false
}

// switches are the functions whose switches move a set or a span from one state to the
// next.
var switches = map[string][]string{
	"transitions.go": {"reported", "inPrepare", "inCommit", "inReplicating", "inRemoving", "promote", "settle", "remind"},
	"capture.go":     {"obey", "phase"},
	"rebuild.go":     {"heard", "attach", "infer", "cutUp"},
	"split.go":       {"reshapeSome"},
}

// switchboard is the scheduler with every case of these switches and every comparison
// of fence.go behind a number: MUTANT says which one is wrong.
type switchboard struct {
	mutants []mutant
	binary  string
}

// insert is text to be put into a file.
type insert struct {
	at   int
	text string
}

func newSwitchboard(t *testing.T) *switchboard {
	b := &switchboard{}
	texts := map[string][]byte{filepath.Join("..", "scheduler", "mutant_number.go"): []byte(
		"package scheduler\n\nimport (\"os\"; \"strconv\")\n\nvar mutantNumber, _ = strconv.Atoi(os.Getenv(\"MUTANT\"))\n")}
	for _, name := range []string{"capture.go", "fence.go", "rebuild.go", "split.go", "transitions.go"} {
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
		at := func(p token.Pos) int { return set.Position(p).Offset }
		var inserts []insert
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case name == "fence.go":
				inserts = append(inserts, b.invert(fn, at)...)
			case slices.Contains(switches[name], fn.Name.Name):
				inserts = append(inserts, b.disable(fn, at, text)...)
			}
		}
		texts[file] = withInserts(text, inserts)
	}
	b.binary = build(t, texts)
	return b
}

func withInserts(text []byte, all []insert) []byte {
	slices.SortStableFunc(all, func(a, b insert) int { return b.at - a.at })
	for _, i := range all {
		text = slices.Concat(text[:i.at], []byte(i.text), text[i.at:])
	}
	return text
}

// next names a mutant.
func (b *switchboard) next(format string, args ...any) int {
	n := len(b.mutants) + 1
	b.mutants = append(b.mutants, mutant{name: fmt.Sprintf(format, args...), number: n})
	return n
}

// disable lets each case of a function's switches be passed over.
func (b *switchboard) disable(fn *ast.FuncDecl, at func(token.Pos) int, text []byte) (out []insert) {
	count := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok || len(c.Body) == 0 {
			return true
		}
		count++
		label := "default"
		if len(c.List) > 0 {
			label = string(text[at(c.List[0].Pos()):at(c.List[len(c.List)-1].End())])
		}
		number := b.next("%s case %d: %s", fn.Name.Name, count, label)
		out = append(out,
			insert{at(c.Body[0].Pos()), fmt.Sprintf("if mutantNumber != %d {", number)},
			insert{at(c.Body[len(c.Body)-1].End()), "\n}"})
		return true
	})
	return out
}

// invert lets each comparison of a function be turned round.
func (b *switchboard) invert(fn *ast.FuncDecl, at func(token.Pos) int) (out []insert) {
	comparisons := []token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ, token.EQL, token.NEQ}
	count := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		c, ok := n.(*ast.BinaryExpr)
		if !ok || !slices.Contains(comparisons, c.Op) {
			return true
		}
		count++
		number := b.next("fence %s, comparison %d", fn.Name.Name, count)
		out = append(out, insert{at(c.Pos()), "(("}, insert{at(c.End()), fmt.Sprintf(") != (mutantNumber == %d))", number)})
		return true
	})
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
		out = append(out, mutant{name: "wrong: " + w.name, file: file, text: bytes.Replace(text, []byte(w.right), []byte(w.wrong), 1)})
	}
	return out
}
