package lint

import (
	"go/ast"
	"slices"
	"strings"
)

func purityRules() []Rule {
	return []Rule{
		{"pure", "a pure package has no goroutine, clock, socket, disk, context, lock, logger or luck", checkPurity},
	}
}

// impure are the standard packages, with all below them, that a pure package
// cannot use for anything that it is allowed to do.
var impure = []string{"context", "crypto/rand", "io/ioutil", "log", "net", "os", "sync", "syscall", "testing"}

// harmless are packages below those that only work on what they are given.
var harmless = []string{"net/url"}

// clock is what of package time asks for the present or waits.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// seeded is what of math/rand draws only from a source that the caller seeded.
var seeded = []string{"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf", "PCG", "Rand", "Source", "Source64", "Zipf"}

func checkPurity(p *pass) {
	p.files(false, func(pkg *Package, f *File) {
		if room, ok := p.room(pkg.Path); !ok || room.Kind != Pure {
			return
		}
		for _, i := range p.imports(f) {
			for _, bad := range impure {
				if slices.Contains(harmless, i.path) {
					continue
				}
				if i.path == bad || strings.HasPrefix(i.path, bad+"/") {
					p.reportAt(f, i.pos, "%s is pure and must not import %s", pkg.Path, i.path)
				}
			}
		}
		names := p.names(f)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				p.reportAt(f, n.Pos(), "%s is pure and must not start a goroutine", pkg.Path)
			case *ast.SelectStmt, *ast.ChanType:
				p.reportAt(f, n.Pos(), "%s is pure and must not speak through channels", pkg.Path)
			case *ast.SelectorExpr:
				from, name := selected(names, n)
				if from == "time" && slices.Contains(clock, name) {
					p.reportAt(f, n.Pos(), "%s is pure and must not ask the clock: time.%s", pkg.Path, name)
				}
				if strings.HasPrefix(from, "math/rand") && !slices.Contains(seeded, name) {
					p.reportAt(f, n.Pos(), "%s is pure and must draw from a seeded source, not from rand.%s", pkg.Path, name)
				}
			}
			return true
		})
	})
}
