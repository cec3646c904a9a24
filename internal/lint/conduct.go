package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func conductRules() []Rule {
	return []Rule{
		{"init", "nothing happens because a package was imported", checkInit},
		{"go", "every goroutine has an owner that waits for it: no bare go statement outside tests", checkGo},
		{"panic", "nothing ends the process but main", checkPanic},
		{"global", "no package-level variable is ever changed", checkGlobals},
		{"context", "a context is an argument, never a field", checkContextFields},
		{"sleep", "no test waits for a state by sleeping", checkSleep},
		{"port", "no test listens on a fixed port", checkPorts},
		{"leak", "packages that start goroutines prove in their tests that all of them end", checkLeaks},
		{"race", "packages that start goroutines, or share state between those of others, are in the Makefile's race pass", checkRaceList},
	}
}

func checkInit(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				p.reportAt(f, fn.Pos(), "func init: hand over what it sets up as an argument")
			}
		}
	})
}

func checkGo(p *pass) {
	p.files(false, func(_ *Package, f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				p.reportAt(f, g.Pos(), "bare go statement: use an errgroup, whose Wait is the goroutine's end")
			}
			return true
		})
	})
}

func checkPanic(p *pass) {
	p.files(false, func(pkg *Package, f *File) {
		if room, ok := p.room(pkg.Path); ok && room.Kind == Kit {
			return
		}
		names := p.names(f)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
				p.reportAt(f, n.Pos(), "panic: return cdcerr.Bug, which fails one changefeed and not the process")
			}
			from, name := selected(names, call.Fun)
			ends := from == "log" && (strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic")) ||
				from == "os" && name == "Exit"
			if ends && pkg.Name != "main" {
				p.reportAt(f, n.Pos(), "%s.%s: only main ends the process", from, name)
			}
			return true
		})
	})
}

func checkContextFields(p *pass) {
	p.files(false, func(_ *Package, f *File) {
		names := p.names(f)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				if from, name := selected(names, field.Type); from == "context" && name == "Context" {
					p.reportAt(f, field.Pos(), "a context in a struct outlives the call that it belongs to")
				}
			}
			return true
		})
	})
}

func checkSleep(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		if !f.Test {
			return
		}
		names := p.names(f)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if from, _ := selected(names, call.Fun); from == "testing/synctest" {
					return false // its time is not the machine's
				}
			}
			if e, ok := n.(ast.Expr); ok {
				if from, name := selected(names, e); from == "time" && name == "Sleep" {
					p.reportAt(f, n.Pos(), "time.Sleep: wait for the state itself, or use testing/synctest")
				}
			}
			return true
		})
	})
}

// fixedPort is an address whose port is a number above zero.
var fixedPort = regexp.MustCompile(`:[1-9][0-9]*$`)

func checkPorts(p *pass) {
	p.files(true, func(_ *Package, f *File) {
		if !f.Test {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(sel.Sel.Name, "Listen") {
				return true
			}
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				if s, err := strconv.Unquote(lit.Value); err == nil && fixedPort.MatchString(s) {
					p.reportAt(f, n.Pos(), "listens on %s: ask for port 0", s)
				}
			}
			return true
		})
	})
}

// own are the files that a package is: those that are no tests, or all of one that has
// nothing else to show.
func own(pkg *Package) []*File {
	code := slices.DeleteFunc(slices.Clone(pkg.Files), func(f *File) bool { return f.Test })
	if slices.ContainsFunc(code, func(f *File) bool { return len(f.AST.Decls) > 0 }) {
		return code
	}
	return pkg.Files
}

// startsGoroutines tells whether a package's own code starts any: by a go
// statement, by an errgroup, or by a method called Go of anything else.
func (p *pass) startsGoroutines(pkg *Package) bool {
	starts := false
	for _, f := range own(pkg) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts = true
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "TryGo") {
					starts = true
				}
			}
			return !starts
		})
	}
	return starts
}

func checkLeaks(p *pass) {
	for _, pkg := range p.Packages {
		if !p.startsGoroutines(pkg) || pkg.Name == "main" {
			continue
		}
		checked := slices.ContainsFunc(pkg.Files, func(f *File) bool {
			return f.Test && slices.ContainsFunc(p.imports(f), func(i imported) bool { return i.path == "go.uber.org/goleak" })
		})
		if !checked {
			p.report(pkg.Files[0].Path, 1, "package %s starts goroutines and no test of it uses goleak", pkg.Path)
		}
	}
}

// sharesState tells whether a package guards anything against goroutines, its
// own or its callers'.
func (p *pass) sharesState(pkg *Package) bool {
	return slices.ContainsFunc(own(pkg), func(f *File) bool {
		return slices.ContainsFunc(p.imports(f), func(i imported) bool { return i.path == "sync" || i.path == "sync/atomic" })
	})
}

// checkRaceList holds the Makefile's RACE line against the code, both ways.
func checkRaceList(p *pass) {
	line, listed := 0, []string(nil)
	for _, t := range p.Texts {
		if t.Path != "Makefile" {
			continue
		}
		for i, l := range t.Lines {
			if rest, ok := strings.CutPrefix(l, "RACE :="); ok {
				line, listed = i+1, strings.Fields(rest)
			}
		}
	}
	for _, pkg := range p.Packages {
		tested := slices.ContainsFunc(pkg.Files, func(f *File) bool { return f.Test })
		switch {
		case !tested || slices.Contains(listed, pkg.Path):
		case p.startsGoroutines(pkg):
			p.report("Makefile", line, "package %s starts goroutines and is not in RACE", pkg.Path)
		case p.sharesState(pkg):
			p.report("Makefile", line, "package %s uses sync and is not in RACE", pkg.Path)
		}
	}
	for _, name := range listed {
		i := slices.IndexFunc(p.Packages, func(pkg *Package) bool { return pkg.Path == name })
		if i < 0 || !p.startsGoroutines(p.Packages[i]) && !p.sharesState(p.Packages[i]) {
			p.report("Makefile", line, "RACE names %s, which starts no goroutine and uses no sync", name)
		}
	}
}
