package changefeed

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// defaultText is a default as the documents show it.
func defaultText(v any) string {
	if v == nil || reflect.ValueOf(v).IsZero() && reflect.TypeOf(v).Kind() != reflect.Bool && reflect.TypeOf(v).Kind() != reflect.Int {
		return "–"
	}
	if d, ok := v.(Duration); ok {
		return "`\"" + short(d.duration()) + "\"`"
	}
	return "`" + strings.ReplaceAll(printValue(v), "|", "\\|") + "`"
}

func effectText(k *Key) string {
	switch k.Effect {
	case Works:
		return "works"
	case Handed:
		if k.Why == "" {
			return "to the sink"
		}
		return "to the sink: " + k.Why
	case Nothing:
		return "no effect: " + k.Why
	default:
		return "not there: " + k.Why
	}
}

// TestDocumentsAreTheKeys holds docs/config.md and docs/compatibility.md against Keys.
func TestDocumentsAreTheKeys(t *testing.T) {
	var all, lacking, nothing strings.Builder
	all.WriteString("| Key | Default | Bounds | Meaning | In this release |\n|---|---|---|---|---|\n")
	lacking.WriteString("| Key | What it asks for | What there is not |\n|---|---|---|\n")
	nothing.WriteString("| Key | Why |\n|---|---|\n")
	initial := defaults()
	keys := Keys()
	for i := range keys {
		k := &keys[i]
		bounds := k.Bounds()
		if bounds == "" {
			bounds = "–"
		}
		fmt.Fprintf(&all, "| `%s` | %s | %s | %s | %s |\n", k.Path, defaultText(initial[k.Path]), bounds, k.Meaning, effectText(k))
		switch k.Effect {
		case Lacking:
			fmt.Fprintf(&lacking, "| `%s` | %s | %s |\n", k.Path, k.Meaning, k.Why)
		case Nothing:
			fmt.Fprintf(&nothing, "| `%s` | %s |\n", k.Path, k.Why)
		default:
		}
	}
	document(t, "../docs/config.md", "keys", all.String())
	document(t, "../docs/compatibility.md", "lacking-keys", lacking.String())
	document(t, "../docs/compatibility.md", "idle-keys", nothing.String())
}

// document holds a part of a document against what the code gives.
func document(t *testing.T, path, part, want string) {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start, end := "<!-- "+part+": from changefeed -->\n", "<!-- /"+part+" -->\n"
	before, rest, ok := strings.Cut(string(doc), start)
	have, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Errorf("%s has no place for %s", path, part)
	case have == want:
	case !*rewrite:
		t.Errorf("%s lists other %s: go test ./changefeed -rewrite-golden", path, part)
	default:
		if err := os.WriteFile(path, []byte(before+start+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
