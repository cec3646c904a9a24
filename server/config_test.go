package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/script"
)

// Each story is one file after another, as an operator may write it, and what
// the server says. A line "pd ENDPOINTS" stands for the flag.
func TestConfigStories(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		return func(commands []string) string {
			dir := t.TempDir()
			c := Default()
			c.DataDir = "/data"
			var file []string
			for _, line := range commands {
				if pd, ok := strings.CutPrefix(line, "pd "); ok {
					c.PD = strings.Split(pd, ",")
					continue
				}
				file = append(file, line)
			}
			path := filepath.Join(dir, "sluice.toml")
			if err := os.WriteFile(path, []byte(strings.Join(file, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			err := c.Load(path)
			if err == nil {
				err = c.Validate()
			}
			var out strings.Builder
			for _, w := range c.Warnings {
				out.WriteString("warning: " + w + "\n")
			}
			if err != nil {
				if cdcerr.Of(err) == nil {
					t.Errorf("%v has no code", err)
				}
				out.WriteString(err.Error() + "\n")
			} else {
				out.WriteString("taken\n")
			}
			return strings.ReplaceAll(out.String(), dir+"/", "")
		}
	})
}

func TestLoadKeepsWhatWasThere(t *testing.T) {
	c := Default()
	if err := c.Load(filepath.Join(t.TempDir(), "none.toml")); !cdcerr.ServerConfigInvalid.Is(err) {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.toml")
	if err := os.WriteFile(path, []byte("gc-ttl = 5\nbanana = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(path); err == nil || c.GCTTL != 24*3600 {
		t.Fatalf("%v, gc-ttl %d", err, c.GCTTL)
	}
}

// Every key that is said to have no effect is a key.
func TestIdleKeysAreKeys(t *testing.T) {
	for key := range idle() {
		table, name, nested := strings.Cut(key, ".")
		text := key + " = 'x'"
		if nested {
			text = "[" + table + "]\n" + name + " = 'x'"
		}
		path := filepath.Join(t.TempDir(), "s.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		if err := c.Load(path); err != nil && strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestDataDirFollowsThePort(t *testing.T) {
	c := Default()
	c.Addr = "0.0.0.0:1234"
	c.AdvertiseAddr = "node:99"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(os.TempDir(), "sluice_data", "99"); c.DataDir != want || len(c.Warnings) != 1 {
		t.Fatalf("%s, %v", c.DataDir, c.Warnings)
	}
}

func TestMemory(t *testing.T) {
	const gib = 1 << 30
	for _, x := range []struct{ quota, machine, limit, rows int64 }{
		{0, 16 * gib, gib + memoryIdle, gib / 8 * 5},
		{0, 0, gib + memoryIdle, gib / 8 * 5},
		{0, gib, gib/4*3 + memoryIdle, gib / 4 * 3 / 8 * 5},
		{512 << 20, gib, 512<<20 + memoryIdle, 320 << 20},
		{4 * gib, gib, 4*gib + memoryIdle, 4 * gib / 8 * 5},
	} {
		c := Default()
		c.MemoryQuota = x.quota
		if m := c.memory(x.machine); m.Limit != x.limit || m.Rows != x.rows || m.Log != x.rows/5 {
			t.Errorf("quota %d on %d: %+v", x.quota, x.machine, m)
		}
	}
	if machineMemory() < memoryLeast {
		t.Errorf("this machine has %d", machineMemory())
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logs", "cdc.log")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var cfg Log
	cfg.File.MaxSizeMB, cfg.File.MaxBackups = 1, 2
	r, err := openRotating(path, cfg, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 700<<10) + "\n")
	for range 5 {
		if _, err := r.Write(line); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	want := "cdc-2026-01-01T03-00-00.000.log cdc-2026-01-01T04-00-00.000.log cdc.log"
	if got := strings.Join(names(), " "); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	// What is too old goes too; a name that is not ours stays.
	cfg.File.MaxDays = 1
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "cdc-notes.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	if r, err = openRotating(path, cfg, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	if _, err = r.Write(line); err != nil {
		t.Fatal(err)
	}
	if err = r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(), " "); got != "cdc-2026-01-03T05-00-00.000.log cdc-notes.log cdc.log" {
		t.Fatal(got)
	}
}

// The document on compatibility lists the keys without effect.
func TestIdleKeysAreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Key | Why |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(idle())) {
		fmt.Fprintf(&table, "| `%s` | %s |\n", key, idle()[key])
	}
	const file, begin, end = "../docs/compatibility.md", "<!-- idle: from package server -->\n", "<!-- /idle -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	have, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the table", file)
	case have == table.String():
	case os.Getenv("SLUICE_REWRITE") == "":
		t.Fatalf("%s is behind: run this test with SLUICE_REWRITE=1", file)
	default:
		if err := os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
