package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write into the scripts of testdata what they give now; review the diff")

// Run plays every file in testdata. start makes what one story is about, and
// returns what takes a block's commands and says, in whole lines, what followed.
func Run(t *testing.T, start func(t *testing.T) func(commands []string) string) {
	RunIn(t, "testdata", start)
}

// RunIn is Run for another folder.
func RunIn(t *testing.T, folder string, start func(t *testing.T) func(commands []string) string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { check(t, file, start(t)) })
	}
}

func check(t *testing.T, file string, play func([]string) string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := replay(string(data), play)
	if got == string(data) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, now := firstDifference(string(data), got)
	t.Errorf("%s, first difference:\n%s\n--- now:\n%s\n(-rewrite writes it)", file, want, now)
}

// replay is the script with what follows now.
func replay(story string, play func([]string) string) string {
	var out []string
	for _, block := range blocks(story) {
		head, _, _ := strings.Cut(block+"\n", "\n----\n")
		head = strings.TrimRight(head, "\n")
		var commands []string
		for line := range strings.Lines(head + "\n") {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
				commands = append(commands, line)
			}
		}
		if len(commands) > 0 {
			head += "\n----\n" + play(commands)
		}
		out = append(out, strings.TrimRight(head, "\n")+"\n")
	}
	return strings.Join(out, "\n")
}

func blocks(story string) []string { return strings.Split(strings.TrimSpace(story), "\n\n") }

// firstDifference is the first block in which two stories differ.
func firstDifference(a, b string) (string, string) {
	as, bs := blocks(a), blocks(b)
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i], bs[i]
		}
	}
	return a, b // in blank lines only
}
