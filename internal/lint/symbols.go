package lint

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

func symbolRules() []Rule {
	return []Rule{
		{"symbol", "what a document says of the code is in the code", checkSymbols},
	}
}

// A document names code in backquotes: a file, or a package with a name in it
// and perhaps a name in that.
var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	goFile   = regexp.MustCompile(`^[\w./-]+\.go$`)
	goSymbol = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
)

func checkSymbols(p *pass) {
	files := map[string]bool{}
	for name := range p.Paths {
		files[name], files[path.Base(name)] = true, true
	}
	declared := p.declared()
	p.eachLine(func(t Text, line int, s string) {
		if path.Ext(t.Path) != ".md" || inFolder(t.Path, "testdata") {
			return
		}
		for _, found := range quoted.FindAllStringSubmatch(s, -1) {
			word := found[1]
			if goFile.MatchString(word) && !files[word] {
				p.report(t.Path, line, "there is no file %s", word)
			}
			m := goSymbol.FindStringSubmatch(word)
			if len(m) == 0 || declared[m[1]] == nil {
				continue
			}
			if name := strings.TrimSuffix(m[2]+"."+m[3], "."); !declared[m[1]][name] {
				p.report(t.Path, line, "package %s has no %s", m[1], name)
			}
		}
	})
}

// declared maps the name of every package to what it declares: names, and
// names within types.
func (p *pass) declared() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	p.files(false, func(pkg *Package, f *File) {
		in := out[pkg.Name]
		if in == nil {
			in = map[string]bool{}
			out[pkg.Name] = in
		}
		for _, d := range f.AST.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				in[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					declare(in, s)
				}
			}
		}
	})
	return out
}

// receiver is the name of a method's type with a dot, empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}

func declare(in map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			in[id.Name] = true
		}
	case *ast.TypeSpec:
		in[s.Name.Name] = true
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, id := range m.Names {
				in[s.Name.Name+"."+id.Name] = true
			}
		}
	}
}
