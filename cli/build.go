package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Build is what this binary was made from.
type Build struct {
	Version string `json:"version"` // semver without v
	GitHash string `json:"git_hash"`
	Go      string `json:"go_version"`
	OS      string `json:"platform"`
}

// ReadBuild asks the binary.
func ReadBuild() Build {
	b := Build{Version: "0.0.0-devel", GitHash: "none", Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; strings.HasPrefix(v, "v") {
		b.Version = v[1:]
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.GitHash = s.Value
		}
	}
	return b
}

func (t *terminal) versionCommand() *cobra.Command {
	return t.command("version", "what this binary is", func(*cobra.Command) error {
		if t.output == "json" {
			t.print(t.Out, t.Build)
			return nil
		}
		fmt.Fprintf(t.Out, "Release Version: %s\nGit Commit Hash: %s\nGo Version: %s %s\n", t.Build.Version, t.Build.GitHash, t.Build.Go, t.Build.OS)
		return nil
	})
}

func pid() int { return os.Getpid() }
