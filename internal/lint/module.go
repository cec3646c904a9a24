package lint

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ModulePath is the path under which packages of this module are imported.
const ModulePath = "github.com/sluice-cdc/sluice"

// Module is the source of a module, read but not built.
type Module struct {
	Fset     *token.FileSet
	Packages []*Package      // by path
	Texts    []Text          // every file that a person reads, Go files too
	Paths    map[string]bool // every file and folder, whatever is in it
}

// Package is the Go files of one folder.
type Package struct {
	Path  string // relative to the module; "." for its root
	Name  string // of the non-test files; empty where there are only tests
	Files []*File
}

// File is one Go file.
type File struct {
	Path  string // relative to the module, with slashes
	Test  bool
	Lines int
	AST   *ast.File
}

// Text is one file as it is read by a person.
type Text struct {
	Path  string
	Lines []string
}

// Load reads all of a module. Folders that the go tool leaves out are left out,
// except that texts under them are read.
func Load(fsys fs.FS) (*Module, error) {
	m := &Module{Fset: token.NewFileSet(), Paths: map[string]bool{}}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		m.Paths[name] = true
		if d.IsDir() {
			if name != "." && skipFolder(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !isText(name) {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		m.Texts = append(m.Texts, Text{Path: name, Lines: strings.Split(string(src), "\n")})
		if path.Ext(name) != ".go" || inFolder(name, "testdata") {
			return nil
		}
		return m.addGo(packages, name, src)
	})
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		m.Packages = append(m.Packages, p)
	}
	slices.SortFunc(m.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return m, nil
}

func (m *Module) addGo(packages map[string]*Package, name string, src []byte) error {
	f, err := parser.ParseFile(m.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !built(f) {
		return nil
	}
	dir := path.Dir(name)
	p := packages[dir]
	if p == nil {
		p = &Package{Path: dir}
		packages[dir] = p
	}
	file := &File{
		Path:  name,
		Test:  strings.HasSuffix(name, "_test.go"),
		Lines: strings.Count(string(src), "\n"),
		AST:   f,
	}
	if !file.Test {
		p.Name = f.Name.Name
	}
	p.Files = append(p.Files, file)
	return nil
}

// built tells whether a file belongs to the ordinary build on this machine.
func built(f *ast.File) bool {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err != nil {
				return false
			}
			return expr.Eval(func(tag string) bool {
				return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || strings.HasPrefix(tag, "go1.")
			})
		}
	}
	return true
}

func skipFolder(name string) bool {
	return name == "bin" || (strings.HasPrefix(name, ".") && name != ".ci")
}

// isText leaves out recordings and whatever else no person wrote.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yml", ".yaml", ".sh", ".mod":
		return !inFolder(name, "testdata") || path.Ext(name) == ".md"
	case "":
		return !inFolder(name, "testdata")
	}
	return path.Base(name) == ".golangci.yml"
}

// inFolder tells whether one of the folders above name is called folder.
func inFolder(name, folder string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), folder)
}

// imports lists a file's imports with the line of each.
func (m *Module) imports(f *File) []imported {
	var out []imported
	for _, spec := range f.AST.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused such a file already
		}
		name := lastName(to)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out = append(out, imported{path: to, name: name, pos: spec.Pos()})
	}
	return out
}

type imported struct {
	path string
	name string // under which the file knows it
	pos  token.Pos
}

// lastName is the name of a package by its path: a major version is no name.
func lastName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// names maps the names under which a file knows packages to their paths.
func (m *Module) names(f *File) map[string]string {
	out := map[string]string{}
	for _, i := range m.imports(f) {
		out[i.name] = i.path
	}
	return out
}

// selected is the package path and name of an expression such as time.Now,
// empty where expr is something else.
func selected(names map[string]string, expr ast.Expr) (pkg, name string) {
	sel, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return names[id.Name], sel.Sel.Name
}
