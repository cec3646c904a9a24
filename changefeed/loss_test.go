package changefeed

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// A Vigil counts what is between two looks at which all were sure, and nothing else.
func TestVigil(t *testing.T) {
	const grace = 30 * time.Second
	reached, lost, unsure := Sight{Reached: true}, Sight{Lost: true}, Sight{}
	type look struct {
		after time.Duration
		sees  Sight
		lost  bool
		left  time.Duration
	}
	for what, looks := range map[string][]look{
		"all is there": {{0, reached, false, grace}, {time.Hour, reached, false, grace}},
		// PD away and a store alive, one of many stores alive: the sight is the same.
		"something always answers": {{0, reached, false, grace}, {5 * time.Second, reached, false, grace}, {time.Hour, reached, false, grace}},
		"lost":                     {{0, lost, false, grace}, {10 * time.Second, lost, false, 20 * time.Second}, {10 * time.Second, lost, false, 10 * time.Second}, {10*time.Second - 1, lost, false, 1}, {1, lost, true, 0}, {1, lost, true, 0}},
		"flapping": {{0, lost, false, grace}, {10 * time.Second, lost, false, 20 * time.Second}, {10 * time.Second, lost, false, 10 * time.Second}, {9 * time.Second, lost, false, time.Second},
			{time.Second, reached, false, grace}, {0, lost, false, grace}, {10 * time.Second, lost, false, 20 * time.Second}},
		"there again at the last moment": {{0, lost, false, grace}, {10 * time.Second, lost, false, 20 * time.Second}, {10 * time.Second, lost, false, 10 * time.Second}, {10 * time.Second, reached, false, grace}},
		// A capture that joins has not looked yet: what was seen before stands, and nobody
		// decides without it.
		"one joins": {{0, lost, false, grace}, {10 * time.Second, lost, false, 20 * time.Second}, {2 * time.Second, unsure, false, 20 * time.Second}, {2 * time.Second, lost, false, 20 * time.Second},
			{10 * time.Second, lost, false, 10 * time.Second}, {10 * time.Second, unsure, false, 10 * time.Second}, {time.Second, lost, false, 10 * time.Second}, {10 * time.Second, lost, true, 0}, {time.Second, unsure, false, 0}, {time.Second, lost, true, 0}},
		// The process stood still for an hour: nobody looked.
		"nobody looked":       {{0, lost, false, grace}, {time.Hour, lost, false, 20 * time.Second}, {time.Hour, lost, false, 10 * time.Second}},
		"nobody ever can say": {{0, unsure, false, grace}, {time.Hour, unsure, false, grace}},
	} {
		var v Vigil
		var at time.Duration
		for i, l := range looks {
			at += l.after
			l.sees.At = at
			v.Look(l.sees)
			if v.Lost(grace) != l.lost || v.Left(grace) != l.left || v.Lost(grace) && !v.Away() {
				t.Errorf("%s: look %d: lost %v, %v left, away %v", what, i, v.Lost(grace), v.Left(grace), v.Away())
			}
		}
		// Another owner begins anew.
		if another := (&Vigil{}); another.Away() || another.Lost(grace) {
			t.Error("an owner that has not looked knows something")
		}
	}
}

// A cluster whose metadata is lost with the upstream cannot end a changefeed for that.
func TestMetadataUpstream(t *testing.T) {
	c, err := ParseTOML([]byte("[consistent]\nlevel='eventual'\nstorage='file:///log'\non-upstream-loss='apply'"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(Limits{}); err != nil || c.Consistent.Grace() != 5*time.Minute {
		t.Errorf("%v, a grace of %v", err, c.Consistent.Grace())
	}
	within := Limits{MetadataUpstream: true}
	for _, err := range []error{c.Validate(within), within.Allow(&c)} {
		if !cdcerr.ConfigInvalid.Is(err) || !strings.Contains(err.Error(), `consistent.on-upstream-loss = "apply": the metadata of this cluster is in the upstream's own PD`) {
			t.Error(err)
		}
	}
	c.Consistent.OnUpstreamLoss = "none"
	if err := c.Validate(within); err != nil || c.Consistent.Applies() {
		t.Errorf("%v, applies %v", err, c.Consistent.Applies())
	}
	c.Consistent.UpstreamLossGrace = Duration(2 * time.Second)
	if err := c.Validate(Limits{UpstreamLossGraceMin: 2 * time.Second}); err != nil || c.Consistent.Grace() != 2*time.Second {
		t.Errorf("%v, a grace of %v", err, c.Consistent.Grace())
	}
	if err := c.Validate(Limits{UpstreamLossGraceMin: 3 * time.Second}); err == nil || !strings.Contains(err.Error(), "want nothing, or from 3s") {
		t.Error(err)
	}
}

// A changefeed that has ended says of which tables the downstream is no snapshot.
func TestWhatIsNotExactIsSaid(t *testing.T) {
	l := Loss{AppliedTS: 1 << 18, Inexact: []string{"d.t, by DDL job 5 at 7: why"}}
	if got := l.reason(); got != "upstream lost, applied to 262144 (1970-01-01 00:00:00.001 UTC); not exact: d.t, by DDL job 5 at 7: why" {
		t.Error(got)
	}
	for range inexactMax + 1 {
		l.Inexact = append(l.Inexact, "x")
	}
	if got := l.reason(); strings.Count(got, "x; ") != inexactMax-2+1 || !strings.HasSuffix(got, "and 2 more, which are in the owner's log") {
		t.Error(got)
	}
}
