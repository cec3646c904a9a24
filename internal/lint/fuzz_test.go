package lint_test

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What make fuzz goes through is every function that takes a *testing.F.
func TestFuzzTargets(t *testing.T) {
	root := filepath.Join("..", "..")
	var want []string
	for _, pkg := range load(t, os.DirFS(root)).Packages {
		for _, file := range pkg.Files {
			for _, decl := range file.AST.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && takesF(fn) {
					want = append(want, "./"+path.Dir(file.Path)+" "+fn.Name.Name)
				}
			}
		}
	}
	slices.Sort(want)
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "fuzz-targets")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	if len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("make fuzz goes through\n%s\nthe source has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil || !strings.Contains(string(makefile), ".ci/fuzz-targets | ") {
		t.Errorf("make fuzz does not ask .ci/fuzz-targets: %v", err)
	}
}

func takesF(fn *ast.FuncDecl) bool {
	if len(fn.Type.Params.List) != 1 {
		return false
	}
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}
