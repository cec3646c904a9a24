package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

func textRules() []Rule {
	return []Rule{
		{"todo", "what is not done is not promised in a comment", checkTodo},
		{"place", "no file names what exists on one machine or in one tracker only", checkPlaces},
		{"path", "no file points out of the project", checkPaths},
		{"document", "a document that is named is there", checkDocuments},
		{"link", "a link within the project leads somewhere", checkLinks},
	}
}

// Each expression is written so that its own line does not match it.
var todo = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b`)

func checkTodo(p *pass) {
	p.eachLine(func(t Text, line int, s string) {
		if word := todo.FindString(s); word != "" {
			p.report(t.Path, line, "%s: do it, or leave the words out", word)
		}
	})
}

// places are things that a reader elsewhere cannot look up.
var places = []*regexp.Regexp{
	regexp.MustCompile(`(^|[^\w.])/([w]ork|[h]ome|[U]sers)/\w`),
	regexp.MustCompile(`(?i)\b[i]ssues? +(no\. *)?#?\d+\b`),
	regexp.MustCompile(`(?i)\b[f]acts[- ]page\b`),
	regexp.MustCompile(`(?i)\b([c]laude|[a]nthropic|[c]hatgpt|[c]o-authored-by)\b`),
}

func checkPlaces(p *pass) {
	p.eachLine(func(t Text, line int, s string) {
		for _, place := range places {
			if found := place.FindString(s); found != "" {
				p.report(t.Path, line, "%q means nothing to a reader elsewhere: cite the behavior itself", strings.TrimSpace(found))
			}
		}
	})
}

var upward = regexp.MustCompile(`(\.\./)+`)

func checkPaths(p *pass) {
	p.eachLine(func(t Text, line int, s string) {
		depth := strings.Count(t.Path, "/")
		for _, up := range upward.FindAllString(s, -1) {
			if strings.Count(up, "../") > depth {
				p.report(t.Path, line, "%s leads out of the project: %s", up, strings.TrimSpace(s))
			}
		}
	})
}

var document = regexp.MustCompile(`[\w./-]*\w\.md\b`)

// checkDocuments wants every document that a text names: beside the text, from
// the project's root, or by its bare name anywhere.
func checkDocuments(p *pass) {
	var there []string
	for _, t := range p.Texts {
		if path.Ext(t.Path) == ".md" {
			there = append(there, t.Path)
		}
	}
	p.eachLine(func(t Text, line int, s string) {
		for _, doc := range document.FindAllString(s, -1) {
			doc = strings.TrimLeft(doc, "/")
			beside := path.Join(path.Dir(t.Path), doc)
			found := slices.ContainsFunc(there, func(have string) bool {
				return have == beside || have == path.Clean(doc) || path.Base(have) == doc
			})
			if !found {
				p.report(t.Path, line, "%s is not in the project", doc)
			}
		}
	})
}

// link is the target of a Markdown link that is no address.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

func checkLinks(p *pass) {
	p.eachLine(func(t Text, line int, s string) {
		if path.Ext(t.Path) != ".md" {
			return
		}
		for _, found := range link.FindAllStringSubmatch(s, -1) {
			if to := path.Join(path.Dir(t.Path), found[1]); !p.Paths[to] {
				p.report(t.Path, line, "the link to %s leads nowhere", found[1])
			}
		}
	})
}

func (p *pass) eachLine(visit func(t Text, line int, s string)) {
	for _, t := range p.Texts {
		for i, s := range t.Lines {
			visit(t, i+1, s)
		}
	}
}
