package bench

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	var j judge
	if got := j.held("speed", true); got != "held" || j.verdict() != nil {
		t.Fatal(got, j.verdict())
	}
	if got := j.held("memory", false); got != "NOT HELD" {
		t.Fatal(got)
	}
	j.held("lag", false)
	if err := j.verdict(); err == nil || !strings.HasSuffix(err.Error(), ": memory; lag") {
		t.Fatal(err)
	}
}
