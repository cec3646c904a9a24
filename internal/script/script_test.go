package script

import (
	"strings"
	"testing"
)

func TestReplay(t *testing.T) {
	play := func(commands []string) string { return strings.ToUpper(strings.Join(commands, "+")) + "\n" }
	for _, c := range []struct{ name, story, want string }{
		{"as it is", "# A story.\n\na\nb\n----\nA+B\n", "# A story.\n\na\nb\n----\nA+B\n"},
		{"what followed was another", "a\n----\nwrong\nlines\n", "a\n----\nA\n"},
		{"nothing yet", "# why\na\n", "# why\na\n----\nA\n"},
		{"blank lines at the end", "a\n----\nA\n\n\n", "a\n----\nA\n"},
	} {
		if got := replay(c.story, play); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	want, now := firstDifference("a\n----\nA\n\nb\n----\nX\n", "a\n----\nA\n\nb\n----\nB\n")
	if want != "b\n----\nX" || now != "b\n----\nB" {
		t.Errorf("%q, %q", want, now)
	}
}
