package filter

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/cdcerr"
)

type rule struct {
	text          string // as it was written
	exclude       bool
	schema, table pattern
}

// parser reads one rule from left to right; at is the byte offset of the next
// character.
type parser struct {
	text  string
	index int // of the rule, from 1
	fold  bool
	at    int
}

// rule reads the whole text; ok is false where it says nothing.
func (p *parser) rule() (r rule, ok bool, err error) {
	if !utf8.ValidString(p.text) || strings.ContainsRune(p.text, 0) {
		return r, false, p.fail("the rule is not plain UTF-8 text")
	}
	r.text = strings.TrimSpace(p.text)
	p.skipSpace()
	switch p.peek() {
	case 0, '#':
		return r, false, nil
	case '@':
		return r, false, p.fail("rules cannot be read from a file here; write them out")
	case '!':
		r.exclude = true
		p.at++
	}
	if r.schema, err = p.pattern("schema"); err != nil {
		return r, false, err
	}
	if p.peek() != '.' {
		return r, false, p.fail("a dot and a table pattern must follow the schema pattern")
	}
	p.at++
	if r.table, err = p.pattern("table"); err != nil {
		return r, false, err
	}
	p.skipSpace()
	if p.peek() != 0 {
		return r, false, p.fail("nothing may follow the table pattern")
	}
	return r, true, nil
}

// pattern reads the schema's or the table's half.
func (p *parser) pattern(half string) (pattern, error) {
	switch c := p.peek(); c {
	case '/':
		return p.regexp()
	case '"', '`':
		return p.quoted(c)
	default:
		return p.wildcard(half)
	}
}

func (p *parser) regexp() (pattern, error) {
	start := p.at
	p.at++
	var src strings.Builder
	for {
		c := p.take()
		switch c {
		case 0:
			p.at = start
			return pattern{}, p.fail("the regular expression has no closing /")
		case '/':
			re, err := regexp.Compile(src.String())
			if err != nil {
				p.at = start
				return pattern{}, p.fail("the regular expression is wrong: %v", err)
			}
			if p.fold { // of an expression that compiles alone: a stray ) must not close the group
				re = regexp.MustCompile("(?i:" + src.String() + ")")
			}
			return pattern{re: re}, nil
		case '\\':
			if p.peek() == '/' {
				src.WriteRune(p.take())
				continue
			}
			src.WriteRune(c)
			if p.peek() != 0 {
				src.WriteRune(p.take())
			}
		default:
			src.WriteRune(c)
		}
	}
}

func (p *parser) quoted(quote rune) (pattern, error) {
	start := p.at
	p.at++
	out := pattern{fold: p.fold}
	for {
		c := p.take()
		if c == 0 {
			p.at = start
			return out, p.fail("the quoted name has no closing %c", quote)
		}
		if c == quote {
			if p.peek() != quote {
				break
			}
			p.at++
		}
		out.pieces = append(out.pieces, piece{char: c})
	}
	if len(out.pieces) == 0 {
		p.at = start
		return out, p.fail("the quoted name is empty")
	}
	return out, nil
}

func (p *parser) wildcard(half string) (pattern, error) {
	out := pattern{fold: p.fold}
	for {
		var next piece
		switch c := p.peek(); {
		case c == '*':
			next.kind = anyMany
			p.at++
		case c == '?':
			next.kind = anyOne
			p.at++
		case c == '[':
			set, err := p.set()
			if err != nil {
				return out, err
			}
			next = set
		case c == '\\':
			escaped, err := p.escaped()
			if err != nil {
				return out, err
			}
			next.char = escaped
		case isPlain(c):
			next.char = p.take()
		case c == 0 || c == '.' || c == ' ' || c == '\t':
			if len(out.pieces) == 0 {
				return out, p.fail("the %s pattern is missing", half)
			}
			return out, nil
		default:
			return out, p.fail("the character %q has no meaning here; quote the name, or write \\%c", c, c)
		}
		out.pieces = append(out.pieces, next)
	}
}

// set reads [...] as fnmatch(3) has it: ] is ordinary as the first member, - as
// the first or the last.
func (p *parser) set() (piece, error) {
	start := p.at
	p.at++
	out := piece{kind: oneOf}
	if p.peek() == '!' {
		out.negate = true
		p.at++
	} else if p.peek() == '^' {
		return out, p.fail("a range is turned round with !, not with ^; for the character itself write \\^")
	}
	for first := true; ; first = false {
		if p.peek() == ']' && !first {
			p.at++
			return out, nil
		}
		from, ok, err := p.member()
		if err != nil {
			return out, err
		}
		to := from
		if ok && p.peek() == '-' && !strings.HasPrefix(p.text[p.at:], "-]") {
			p.at++
			if to, ok, err = p.member(); err != nil {
				return out, err
			}
		}
		if !ok {
			p.at = start
			return out, p.fail("the range has no closing ]")
		}
		if to < from {
			return out, p.fail("the range %c-%c is upside down", from, to)
		}
		out.set = append(out.set, charRange{from, to})
	}
}

// member reads one end of a range; ok is false at the end of the text.
func (p *parser) member() (c rune, ok bool, err error) {
	switch p.peek() {
	case 0:
		return 0, false, nil
	case '\\':
		c, err = p.escaped()
		return c, true, err
	case '[':
		if strings.HasPrefix(p.text[p.at:], "[:") {
			return 0, false, p.fail("character classes are not known here; write the range")
		}
	}
	return p.take(), true, nil
}

func (p *parser) escaped() (rune, error) {
	next := parser{text: p.text, at: p.at + 1}
	switch c := next.peek(); {
	case c == 0:
		return 0, p.fail("a \\ at the end makes nothing ordinary")
	case isAlnum(c):
		return 0, p.fail("\\%c has no meaning: a letter or a digit is ordinary already", c)
	}
	p.at++
	return p.take(), nil
}

// peek is the next character, 0 at the end.
func (p *parser) peek() rune {
	if p.at >= len(p.text) {
		return 0
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return c
}

func (p *parser) take() rune {
	if p.at >= len(p.text) {
		return 0
	}
	c, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return c
}

func (p *parser) skipSpace() {
	for p.peek() == ' ' || p.peek() == '\t' || p.peek() == '\r' || p.peek() == '\n' {
		p.at++
	}
}

// fail names the rule and the character, counted from 1, at which it goes wrong.
func (p *parser) fail(format string, args ...any) error {
	return cdcerr.FilterRuleInvalid.New("rule %d %q, character %d: %s",
		p.index, p.text, utf8.RuneCountInString(p.text[:p.at])+1, fmt.Sprintf(format, args...))
}

func isPlain(c rune) bool { return isAlnum(c) || c == '_' || c == '$' || c >= utf8.RuneSelf }

func isAlnum(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
