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
			lines := p.Fset.Position(fn.End()).Line - p.Fset.Position(fn.Pos()).Line + 1
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
