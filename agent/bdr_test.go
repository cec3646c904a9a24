package agent_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/agent"
)

// A changefeed of two clusters that replicate both ways sends what was written here:
// not the rows that came from the other one, and of DDLs those of the primary. The
// recording has rows and a DDL of every kind there is.
func TestBothWays(t *testing.T) {
	rec := load(t, "19_bdr")
	all, own := newCollector(t), newCollector(t)
	must(t, newWorld(t, rec).live(t.Context(), agent.Config{}, all, nil))
	must(t, newWorld(t, rec).live(t.Context(), agent.Config{FilterLoop: true}, own, nil))
	ddls := func(c *collector) (out []string) {
		for _, k := range slices.Sorted(maps.Keys(c.took)) {
			if strings.HasPrefix(k, "DDL") {
				out = append(out, k)
			}
		}
		return out
	}
	if n := len(ddls(all)); n != 5 || all.rows != 5 {
		t.Errorf("of all: %d DDLs, %d rows", n, all.rows)
	}
	if n := len(ddls(own)); n != 2 || own.rows != 3 {
		t.Errorf("of the primary's own: %v, %d rows", ddls(own), own.rows)
	}
	for k := range own.took {
		if !all.took[k] {
			t.Errorf("%s is not of this cluster", k)
		}
	}
}
