package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what a room may touch.
type Kind string

// The kinds of rooms.
const (
	Pure  Kind = "P"    // decides: no goroutine, clock, socket, disk, context or logger
	Shell Kind = "io"   // acts
	Kit   Kind = "test" // serves tests only: no room that ships may import it
)

// Room is one row of the layer table.
type Room struct {
	Path string
	Kind Kind
	Owns string // what it owns, as ARCHITECTURE.md prints it
	// Imports are the rooms that it may import. A Shell may import the words
	// beside; a word and a Pure room name every one.
	Imports []string
}

// Door lets some rooms import a module that is not ours. Its types must not be
// in what these rooms export, except to each other.
type Door struct {
	Module string
	Rooms  []string // empty: every Shell and Kit
	Why    string   // what it is for
}

func layerRules() []Rule {
	return []Rule{
		{"room", "every package is in the layer table, and every row of it is a package", checkRooms},
		{"layer", "a package imports only the rooms that its row names", checkLayers},
		{"door", "foreign modules are imported only where their types stop", checkDoors},
	}
}

func (c Config) room(path string) (Room, bool) {
	i := slices.IndexFunc(c.Rooms, func(r Room) bool { return r.Path == path })
	if i < 0 {
		return Room{}, false
	}
	return c.Rooms[i], true
}

// ours is the path of a package of this module relative to it.
func ours(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, ModulePath+"/")
}

func checkRooms(p *pass) {
	for _, pkg := range p.Packages {
		if _, ok := p.room(pkg.Path); !ok && pkg.Name != "" {
			p.report(pkg.Files[0].Path, 1, "package %s is not in the layer table", pkg.Path)
		}
	}
	there := func(path string) bool {
		return slices.ContainsFunc(p.Packages, func(pkg *Package) bool { return pkg.Path == path && pkg.Name != "" })
	}
	for _, path := range p.Planned {
		if there(path) {
			p.report(path, 0, "planned, and there: give it a row in the layer table")
		}
	}
	seen := map[string]bool{}
	for _, r := range p.Rooms {
		if !there(r.Path) {
			p.report(r.Path, 0, "the layer table has a row for a package that is not there")
		}
		if seen[r.Path] {
			p.report(r.Path, 0, "the layer table has two rows for one package")
		}
		seen[r.Path] = true
		for _, to := range r.Imports {
			if _, ok := p.room(to); !ok {
				p.report(r.Path, 0, "the layer table lets it import %s, which has no row", to)
			}
		}
	}
}

func checkLayers(p *pass) {
	p.files(false, func(pkg *Package, f *File) {
		from, ok := p.room(pkg.Path)
		if !ok {
			return
		}
		for _, i := range p.imports(f) {
			to, mine := ours(i.path)
			if !mine {
				continue
			}
			if why := p.forbids(from, to); why != "" {
				p.reportAt(f, i.pos, "%s", why)
			}
		}
	})
}

// forbids says why a room may not import another, empty where it may.
func (c Config) forbids(from Room, to string) string {
	target, ok := c.room(to)
	if !ok {
		return "" // its own finding, by another rule
	}
	switch {
	case target.Kind == Kit && from.Kind != Kit:
		return fmt.Sprintf("%s ships and must not import %s, which is for tests", from.Path, to)
	case from.Kind == Pure && target.Kind == Shell:
		return fmt.Sprintf("%s is pure and must not import %s, which is not", from.Path, to)
	case slices.Contains(from.Imports, to):
		return ""
	}
	return fmt.Sprintf("%s must not import %s: its row in the layer table does not name it", from.Path, to)
}

func checkDoors(p *pass) {
	used := map[string]bool{}
	p.files(false, func(pkg *Package, f *File) {
		room, ok := p.room(pkg.Path)
		if !ok {
			return
		}
		for _, i := range p.imports(f) {
			host, _, _ := strings.Cut(i.path, "/")
			if _, mine := ours(i.path); mine || !strings.Contains(host, ".") {
				continue
			}
			if d, ok := p.door(i.path); ok {
				used[d.Module] = true
			}
			if why := p.shut(room, i.path); why != "" {
				p.reportAt(f, i.pos, "%s", why)
			}
		}
	})
	for _, d := range p.Doors {
		if !used[d.Module] {
			p.report("go.mod", 0, "the door for %s is used by nobody", d.Module)
		}
	}
}

func (c Config) door(foreign string) (Door, bool) {
	i := slices.IndexFunc(c.Doors, func(d Door) bool {
		return foreign == d.Module || strings.HasPrefix(foreign, d.Module+"/")
	})
	if i < 0 {
		return Door{}, false
	}
	return c.Doors[i], true
}

// shut says why no door leads from a foreign package to a room.
func (c Config) shut(room Room, foreign string) string {
	d, ok := c.door(foreign)
	switch {
	case !ok:
		return fmt.Sprintf("%s is not among the doors: say what it is for", foreign)
	case slices.Contains(d.Rooms, room.Path), len(d.Rooms) == 0 && room.Kind != Pure:
		return ""
	}
	return fmt.Sprintf("%s must not import %s: it stops at %s", room.Path, foreign, d.stops())
}

// stops is where a module's types stop.
func (d Door) stops() string {
	return cmp.Or(strings.Join(d.Rooms, ", "), "rooms that are not pure")
}

// DoorTable is the list of foreign modules in Markdown: what
// docs/design/0001-dependencies.md prints.
func (c Config) DoorTable() string {
	var b strings.Builder
	b.WriteString("| Module | For | Stops at |\n|---|---|---|\n")
	for _, d := range c.Doors {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Module, d.Why, d.stops())
	}
	return b.String()
}

// Table is the layer table in Markdown: what ARCHITECTURE.md prints.
func (c Config) Table() string {
	var b strings.Builder
	b.WriteString("| Room | Kind | Owns | May import |\n|---|---|---|---|\n")
	for _, r := range c.Rooms {
		var list []string
		if isSubset(words, r.Imports) {
			list = append(list, "the words")
		}
		for _, to := range r.Imports {
			if len(list) == 0 || list[0] != "the words" || !slices.Contains(words, to) {
				list = append(list, "`"+to+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Path, r.Kind, r.Owns, cmp.Or(strings.Join(list, ", "), "nothing"))
	}
	return b.String()
}

func isSubset(part, whole []string) bool {
	for _, p := range part {
		if !slices.Contains(whole, p) {
			return false
		}
	}
	return true
}
