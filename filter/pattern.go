package filter

import (
	"regexp"
	"slices"
	"unicode"
)

// pattern matches one name: a regular expression, or pieces from start to end.
type pattern struct {
	re     *regexp.Regexp
	pieces []piece
	fold   bool
}

type pieceKind uint8

const (
	literal pieceKind = iota
	anyOne
	anyMany
	oneOf
)

// piece is one step of a wildcard pattern.
type piece struct {
	kind   pieceKind
	char   rune // literal
	set    []charRange
	negate bool
}

type charRange struct{ from, to rune }

// matchesAll tells whether the pattern is nothing but stars.
func (p *pattern) matchesAll() bool {
	return p.re == nil && len(p.pieces) > 0 &&
		!slices.ContainsFunc(p.pieces, func(c piece) bool { return c.kind != anyMany })
}

// match walks name and pieces side by side. At a mismatch the last star takes
// one more character: earlier stars never need another try, since whatever they
// could give up the last one can take.
func (p *pattern) match(name string) bool {
	if p.re != nil {
		return p.re.MatchString(name)
	}
	runes := []rune(name)
	at, next := 0, 0
	star, starAt := -1, 0
	for at < len(runes) {
		switch {
		case next < len(p.pieces) && p.pieces[next].kind == anyMany:
			star, starAt = next, at
			next++
		case next < len(p.pieces) && p.one(&p.pieces[next], runes[at]):
			at++
			next++
		case star >= 0:
			starAt++
			at, next = starAt, star+1
		default:
			return false
		}
	}
	for next < len(p.pieces) && p.pieces[next].kind == anyMany {
		next++
	}
	return next == len(p.pieces)
}

// one matches a single character.
func (p *pattern) one(c *piece, r rune) bool {
	switch c.kind {
	case anyOne:
		return true
	case literal:
		return p.variant(r, func(v rune) bool { return v == c.char })
	case oneOf:
		return c.negate != p.variant(r, func(v rune) bool {
			return slices.ContainsFunc(c.set, func(s charRange) bool { return s.from <= v && v <= s.to })
		})
	case anyMany:
	}
	return false
}

// variant tells whether ok holds for r, or where case is ignored for any other
// case of r.
func (p *pattern) variant(r rune, ok func(rune) bool) bool {
	if ok(r) {
		return true
	}
	if !p.fold {
		return false
	}
	for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
		if ok(v) {
			return true
		}
	}
	return false
}
