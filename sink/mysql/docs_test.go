package mysql

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

var rewrite = flag.Bool("rewrite", false, "write the feature table into docs/mysql.md")

const (
	docPath  = "../../docs/mysql.md"
	docStart = "<!-- features -->\n"
	docEnd   = "<!-- /features -->\n"
)

// TestFeatureTable holds the document's table against Features.
func TestFeatureTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Feature | Upstream | TiDB | MySQL | MariaDB | Other | Why |\n|---|---|---|---|---|---|---|\n")
	for _, f := range Features() {
		cells := []string{f.ID, f.What}
		for _, k := range []Kind{TiDB, MySQL, MariaDB, Other} {
			treatment, ok := f.In[k]
			if !ok {
				t.Errorf("%s says nothing of %s", f.ID, k)
			}
			cells = append(cells, treatment.String())
		}
		b.WriteString("| " + strings.Join(append(cells, f.Why), " | ") + " |\n")
	}
	doc, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), docStart)
	table, after, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", docPath)
	}
	if table == b.String() {
		return
	}
	if !*rewrite {
		t.Fatalf("the table of %s is not that of Features: go test ./sink/mysql -run TestFeatureTable -rewrite", docPath)
	}
	if err := os.WriteFile(docPath, []byte(before+docStart+b.String()+docEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFeatureNames: every feature that code notes has its row.
func TestFeatureNames(t *testing.T) {
	rows := map[string]bool{}
	for _, f := range Features() {
		if rows[f.ID] {
			t.Errorf("%s has two rows", f.ID)
		}
		rows[f.ID] = true
	}
	for a := range 81 {
		for _, k := range []Kind{TiDB, MySQL, MariaDB, Other} {
			if f, ok := withoutEffect(event.Action(a), Dialect{Kind: k}); ok && !rows[f] {
				t.Errorf("action %d is left out for %q, which has no row", a, f)
			}
		}
	}
}
