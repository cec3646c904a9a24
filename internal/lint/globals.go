package lint

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkGlobals looks for package-level variables that code changes, or that
// are made to be changed. What is set where it is declared and only read after
// (tables, errors, expressions) is a constant that Go has no word for.
func checkGlobals(p *pass) {
	for _, pkg := range p.Packages {
		scope := p.resolve(pkg)
		for _, f := range pkg.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.VAR {
					p.checkDeclared(f, gen)
				}
			}
			scope.checkChanged(p, f)
		}
	}
}

// checkDeclared refuses variables that have no value yet and those whose type
// is a lock, a pool or a counter: they wait for someone to change them.
func (p *pass) checkDeclared(f *File, gen *ast.GenDecl) {
	names := p.names(f)
	for _, s := range gen.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name == "_" || embedded(gen, spec) {
			continue
		}
		if len(spec.Values) == 0 {
			p.reportAt(f, spec.Pos(), "var %s has no value: who sets it?", spec.Names[0].Name)
			continue
		}
		for _, v := range spec.Values {
			if from := stateful(names, v); from != "" {
				p.reportAt(f, spec.Pos(), "var %s is state of package %s that every caller shares", spec.Names[0].Name, from)
			}
		}
	}
}

func embedded(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// stateful is the package whose kind of state an initial value makes.
func stateful(names map[string]string, v ast.Expr) string {
	found := ""
	ast.Inspect(v, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if e, ok := n.(ast.Expr); ok {
			from, _ := selected(names, e)
			if from == "sync" || from == "sync/atomic" || strings.HasPrefix(from, "math/rand") {
				found = from
			}
		}
		return found == ""
	})
	return found
}

// resolved knows which object every name of a package stands for.
type resolved struct {
	pkg  *types.Package
	uses map[*ast.Ident]types.Object
}

// resolve gives names their objects. Imports are left unknown: for telling a
// package's own variables from local ones the package alone is enough.
func (p *pass) resolve(pkg *Package) resolved {
	var files []*ast.File
	for _, f := range pkg.Files {
		if !f.Test {
			files = append(files, f.AST)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	cfg := types.Config{Importer: noImports{}, Error: func(error) {}}
	// The error says that imports are unknown, which is meant.
	checked, _ := cfg.Check(pkg.Path, p.Fset, files, info)
	return resolved{pkg: checked, uses: info.Uses}
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not read") }

// checkChanged reports what assigns to, counts up, deletes from or clears a
// package-level variable, or a part of one.
func (r resolved) checkChanged(p *pass, f *File) {
	report := func(e ast.Expr) {
		if id := root(e); id != nil && r.global(id) {
			p.reportAt(f, e.Pos(), "var %s is changed: state belongs to a type that somebody owns", id.Name)
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					report(e)
				}
			}
		case *ast.IncDecStmt:
			report(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				report(n.Key)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
				report(n.Args[0])
			}
		}
		return true
	})
}

func (r resolved) global(id *ast.Ident) bool {
	v, ok := r.uses[id].(*types.Var)
	return ok && r.pkg != nil && v.Parent() == r.pkg.Scope()
}

// root is the variable of which e is a part: v of v.f[i].
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
