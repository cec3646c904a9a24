package servers

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/internal/binlog"
)

// A lag that is small between two times at which it is not has not come back.
func TestSinceWhenTheLagIsBack(t *testing.T) {
	begun := time.Now().Add(-20 * time.Second)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	l := &Lag{samples: []sample{
		{at(-1), at(-4)}, {at(0.1), at(0)}, {at(3), at(0)}, {at(3.1), at(3)}, {at(6), at(3)}, {at(7), at(6.5)}, {at(9), at(8)},
	}}
	for until, want := range map[float64]float64{0.5: 0, 3: 3, 5: 3, 6: 6, 9: 6} {
		if got := l.late(begun, at(until)); !got.Equal(at(want)) {
			t.Errorf("until %v: %v, want %v", until, got.Sub(begun), want)
		}
	}
	if got := l.late(at(6), at(9)); !got.Equal(at(6)) {
		t.Errorf("since 6: %v", got.Sub(begun))
	}
	for since, want := range map[float64]bool{0: true, 7.9: true, 8: false} {
		if got := l.steady(at(since), 13500*time.Millisecond-time.Duration(since)*time.Second); got != want {
			t.Errorf("since %v: %v", since, got)
		}
	}
	if l.steady(at(0), 14500*time.Millisecond) || l.steady(at(7), time.Minute) {
		t.Error("steady over a late look, or before the time is over")
	}
}

// What is kept to and what is missed, for each kind of bound.
func TestBounds(t *testing.T) {
	ds := func(of ...time.Duration) []time.Duration { return of }
	s := time.Second
	a := &Attempt{
		Trial: Trial{Key: "x", Name: "an x", Times: 1, Bound: Bound{P99: 2 * s, Max: 5 * s, Within: 3 * s, Others: 2 * s}},
		Told:  ds(s, 2*s, 2*s), Others: ds(2 * s), Marks: []Mark{{Name: "one", Back: 3 * s}, {Name: "two"}},
	}
	if got := a.missed(); len(got) != 0 || !a.OK() {
		t.Errorf("%q", got)
	}
	a.Told, a.Others, a.Marks[1].Back = ds(s, 6*s), ds(3*s), 4*s
	want := "checkpoint p99: 6s, want at most 2s|checkpoint max: 6s, want at most 5s|others' heartbeat: 3s, want at most 2s|back after two: 4s, want at most 3s"
	if got := strings.Join(a.missed(), "|"); got != want || a.OK() {
		t.Errorf("%s", got)
	}
	if (&Attempt{Err: errors.New("no")}).OK() {
		t.Error("what did not come about is taken for kept")
	}
	r := &Result{Plan: Plan{Trials: []Trial{a.Trial, {Key: "y", Name: "a y"}, {Key: "z", Name: "a z"}}}, Verdict: &Verdict{DDLs: []Tally{{"create", 500, 500}}},
		Attempts: []*Attempt{a, {Trial: Trial{Key: "z", Name: "a z"}}}}
	var b bytes.Buffer
	r.writeTable(&b)
	for _, row := range []string{
		"| an x | 1 | p99 ≤ 2s, max ≤ 5s; ≤ 2s again within 3s; others' heartbeat ≤ 2s | 6s | 6s | 0s | 0s | 3s of one; 4s of two; others' heartbeat at most 3s | **missed** |",
		"| a y | 0 |  | 0s | 0s | 0s | 0s |  | **missed** |", "| a z | 1 |  | 0s | 0s | 0s | 0s |  |  |",
		"| 500 upstream, 500 in the binary log | kept |",
	} {
		if !strings.Contains(b.String(), row+"\n") {
			t.Errorf("no row %s in\n%s", row, b.String())
		}
	}
	r.DDLs[0].Upstream--
	r.Wrong = append(r.Wrong, "DDL run again: create")
	b.Reset()
	r.writeTable(&b)
	if !strings.Contains(b.String(), "| 499 upstream, 500 in the binary log | **missed** |") || len(r.Late()) != 4 {
		t.Error(b.String())
	}
}

// Trials are picked by their keys.
func TestTrialsHaveKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, trial := range Trials() {
		if seen[trial.Key] || trial.Key == "" || trial.Name == "" || trial.Times < 1 || trial.do == nil {
			t.Errorf("%+v", trial)
		}
		seen[trial.Key] = true
	}
}

// A row that is written again is as it must be, unless a checkpoint above it had been
// told.
func TestTheVerdictOnStaleWrites(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1_000_000+s, 0) }
	told := []sample{{at(1), at(0)}, {at(21), at(20)}, {at(31), at(10)}, {at(40), at(39)}}
	beat := func(written, moment int64) binlog.Txn {
		return binlog.Txn{GTID: "0-1-1", At: at(written), Changes: []binlog.Change{{
			Schema: "beats", Table: "b0", Columns: []string{"id", "at"}, Key: []int{0}, After: []any{int64(written), at(moment).UnixMilli()},
		}}}
	}
	for want, log := range map[string][]binlog.Txn{
		"":                      {beat(2, 1), beat(20, 1), beat(21, 1), beat(22, 15), beat(32, 15)},
		"stale: ":               {beat(22, 14)},
		"stale: transaction":    {beat(21, 10), beat(35, 14)},
		"there are no heartbea": nil,
	} {
		l := newLog(&Verdict{})
		for _, x := range log {
			if err := l.take(x); err != nil {
				t.Fatal(err)
			}
		}
		l.stale(told)
		if got := strings.Join(l.Wrong, "; "); want == "" && got != "" || !strings.HasPrefix(got, want) || len(l.Wrong) > 1 {
			t.Errorf("%q, want %q", got, want)
		}
	}
	l := newLog(&Verdict{})
	l.fellBack(told)
	if l.Back != 1 || l.BackMost != 10*time.Second {
		t.Errorf("%d times, by %v at most", l.Back, l.BackMost)
	}
}
