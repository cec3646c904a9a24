package filter_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/filter"
)

var rewriteDocs = flag.Bool("rewrite-docs", false, "write the kinds of event into docs/config.md")

// TestDocumentListsTheKinds holds the table of docs/config.md against EventNames.
func TestDocumentListsTheKinds(t *testing.T) {
	const path, start, end = "../docs/config.md", "<!-- events: from filter -->\n", "<!-- /events -->\n"
	var b strings.Builder
	b.WriteString("| In `ignore-event` | |\n|---|---|\n")
	for _, n := range filter.EventNames() {
		b.WriteString("| `" + n.Name + "` | " + n.Means + " |\n")
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), start)
	table, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for the table", path)
	case table == b.String():
	case !*rewriteDocs:
		t.Fatalf("%s lists other kinds: go test ./filter -run Document -rewrite-docs", path)
	default:
		if err := os.WriteFile(path, []byte(before+start+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
