package cdcerr_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// docs/errors.md is the table of codes.
func TestDocumentIsTheTable(t *testing.T) {
	const file = "../docs/errors.md"
	var b strings.Builder
	b.WriteString(`# Error codes

An error is a code, what happened, what the code means, and what to do. ` + "`sluice errors CODE`" + ` prints the last two. The class is what a changefeed
does about it: *retry* is tried again with backoff, until ` + "`changefeed-error-stuck-duration`" + ` is over; *terminal* fails it at once, until
an operator acts; *capture-fatal* has the whole capture begin anew. Codes that TiCDC has mean the same there.

| Code | Class | Meaning | Remedy |
|---|---|---|---|
`)
	for _, c := range cdcerr.All() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.ID, c.Class, c.Meaning, c.Remedy)
	}
	text, err := os.ReadFile(file)
	if err == nil && string(text) == b.String() {
		return
	}
	if os.Getenv("SLUICE_REWRITE") == "" {
		t.Fatalf("%s is not the table of codes (%v): run this test with SLUICE_REWRITE=1", file, err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
