package lint

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

func nameRules() []Rule {
	return []Rule{
		{"name", "no package, folder or file has a name that attracts everything", checkFileNames},
		{"type", "no type is a Manager, Controller, Handler or Helper", checkTypeNames},
		{"doc", "every package says what it owns and, where it starts some, what its goroutines are", checkDocs},
	}
}

// vague are names that say where leftovers go, not what is inside.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "model", "models", "base", "pkg"}

// vagueTypes are endings that say nothing of what a type is.
var vagueTypes = []string{"Manager", "Controller", "Handler", "Helper"}

func checkFileNames(p *pass) {
	for _, pkg := range p.Packages {
		for _, part := range strings.Split(pkg.Path, "/") {
			if slices.Contains(vague, part) {
				p.report(pkg.Files[0].Path, 1, "folder %s: %q says nothing of what is inside", pkg.Path, part)
			}
		}
	}
	p.files(true, func(_ *Package, f *File) {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Path), ".go"), "_test")
		for _, part := range strings.Split(name, "_") {
			if slices.Contains(vague, part) {
				p.report(f.Path, 1, "file name: %q says nothing of what is inside", part)
			}
		}
		if pkg := strings.TrimSuffix(f.AST.Name.Name, "_test"); slices.Contains(vague, pkg) {
			p.report(f.Path, 1, "package name: %q says nothing of what is inside", pkg)
		}
	})
}

func checkTypeNames(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			for _, end := range vagueTypes {
				if strings.HasSuffix(strings.ToLower(spec.Name.Name), strings.ToLower(end)) {
					p.reportAt(f, spec.Pos(), "type %s: what does it do, beside being a %s", spec.Name.Name, end)
				}
			}
			return true
		})
	})
}

func checkDocs(p *pass) {
	for _, pkg := range p.Packages {
		if pkg.Name == "" {
			continue // tests only
		}
		doc, first := "", ""
		for _, f := range pkg.Files {
			if f.Test {
				continue
			}
			if first == "" {
				first = f.Path
			}
			doc += " " + f.AST.Doc.Text()
		}
		doc = strings.ToLower(doc)
		switch {
		case strings.TrimSpace(doc) == "":
			p.report(first, 1, "package %s has no doc comment", pkg.Path)
		case pkg.Name != "main" && !strings.Contains(doc, "owns"):
			p.report(first, 1, "package %s: its doc comment does not say what it owns", pkg.Path)
		case p.startsGoroutines(pkg) && !strings.Contains(doc, "goroutine"):
			p.report(first, 1, "package %s: its doc comment does not say which goroutines it starts", pkg.Path)
		}
	}
}
