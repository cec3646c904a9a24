package playground

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/internal/mariadb"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// perform runs a workload for a moment and wants nothing to differ.
func perform(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	seed := rand.Uint64()
	args = append([]string{"--verify", "--duration", "700ms", "--seed", fmt.Sprint(seed)}, args...)
	status, stdout, stderr := command(t, args...)
	if status != allEqual {
		t.Errorf("playground %s: status %d\n%s", strings.Join(args, " "), status, stderr)
	}
	wantEqual(t, stdout, 1)
	return stdout, stderr
}

// Every workload arrives, in calm and in a storm, as its writers meant it and as
// the cluster holds it at the end.
func TestWorkloads(t *testing.T) {
	for _, kind := range workload.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			perform(t, "--workload", kind, "--sink-uri", "blackhole://")
		})
		t.Run(kind+" in a storm", func(t *testing.T) {
			t.Parallel()
			perform(t, "--workload", kind, "--sink-uri", "blackhole://", "--storm")
		})
	}
}

// What a database can hold of the workloads is in it at the end.
func TestWorkloadsIntoMariaDB(t *testing.T) {
	server := mariadb.Start(t)
	for _, kind := range workload.Kinds() {
		t.Run(kind, func(t *testing.T) { perform(t, "--workload", kind, "--sink-uri", server.URI(), "--storm") })
	}
}

// A server of one's own may follow the cluster: it is told where its PD is.
func TestWorkloadTellsWhereItsPDIs(t *testing.T) {
	_, stderr := perform(t, "--workload", "bank", "--sink-uri", "blackhole://")
	if !regexp.MustCompile(`(?m)^PD at http://127\.0\.0\.1:\d+(,http://[0-9.:]+){2}; all tables come after start-ts \d+$`).MatchString(stderr) {
		t.Error(stderr)
	}
}

// Its limits are met by the DDL only.
func TestWorkloadsIntoTheEmbeddedDatabase(t *testing.T) {
	for _, kind := range []string{"bank", "rows"} {
		t.Run(kind, func(t *testing.T) { perform(t, "--workload", kind) })
	}
}

func TestWorkloadOptionsThatAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--workload", "tpcc"}, {"--rate", "5"}, {"--storm"}, {"--seed", "1"}, {"--duration", "1s"},
		{"--workload", "bank", "--recording", "x"}, {"--workload", "bank", "--pd", "x"}, {"--workload", "bank", "--speed", "1"},
		{"--workload", "bank", "--rate", "-1"}, {"--workload", "bank", "--duration", "-1s"},
	} {
		if status, _, stderr := command(t, args...); status != couldNotRun || stderr == "" {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}
