package expr_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/filter/expr"
)

// TestDocumentListsTheFunctions holds docs/config.md against what may be called.
func TestDocumentListsTheFunctions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "<!-- functions: from filter/expr -->\n")
	list, _, ok2 := strings.Cut(rest, "<!-- /functions -->")
	want := "`" + strings.ToUpper(strings.Join(expr.Functions(), " ")) + "`."
	if got := strings.Join(strings.Fields(list), " "); !ok || !ok2 || got != want {
		t.Errorf("docs/config.md lists the functions\n%s\nand there are\n%s", got, want)
	}
}
