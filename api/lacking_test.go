package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// What the API lacks is in the document on compatibility, with what there is
// instead.
func TestLackingIsDocumented(t *testing.T) {
	rec := httptest.NewRecorder()
	newWorld(t).api.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/v2/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]struct {
			Deprecated  bool
			Description string
		} `json:"paths"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| Path | Instead |\n|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			if op := doc.Paths[path][method]; op.Deprecated {
				fmt.Fprintf(&table, "| %s %s | %s |\n", strings.ToUpper(method), path, op.Description)
			}
		}
	}
	const file, begin, end = "../docs/compatibility.md", "<!-- lacking: from package api -->\n", "<!-- /lacking -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	have, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no place for the table", file)
	}
	if have == table.String() {
		return
	}
	if os.Getenv("SLUICE_REWRITE") == "" {
		t.Fatalf("%s is behind: run this test with SLUICE_REWRITE=1", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
