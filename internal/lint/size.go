package lint

import "go/ast"

// What fits: a function on a screen, a file in a head.
const (
	funcLinesMax = 70
	fileLinesMax = 500
)

func sizeRules() []Rule {
	return []Rule{
		{"func-length", "a function fits a screen", checkFuncLength},
		{"file-length", "a file fits a head", checkFileLength},
	}
}

func checkFuncLength(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		if ast.IsGenerated(f.AST) {
			return
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := p.height(fn) + 1 - p.dataLines(fn)
			if lines > funcLinesMax {
				p.reportAt(f, fn.Pos(), "func %s has %d lines, %d fit a screen", fn.Name.Name, lines, funcLinesMax)
			}
		}
	})
}

func checkFileLength(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		if !ast.IsGenerated(f.AST) && f.Lines > fileLinesMax {
			p.report(f.Path, 1, "%d lines, at most %d", f.Lines, fileLinesMax)
		}
	})
}

// height is by how many lines a node ends below its beginning.
func (p *pass) height(n ast.Node) int {
	return p.Fset.Position(n.End()).Line - p.Fset.Position(n.Pos()).Line
}

// dataLines is how many lines of a function are tables: literals without code
// in them. A long table is read by the row, so that it may be longer than a
// screen.
func (p *pass) dataLines(fn *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		code := false
		ast.Inspect(lit, func(n ast.Node) bool {
			_, isCode := n.(*ast.FuncLit)
			code = code || isCode
			return !code
		})
		if !code {
			lines += p.height(lit)
		}
		return code
	})
	return lines
}
