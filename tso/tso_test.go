package tso_test

import (
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/tso"
)

func TestPartsComeBack(t *testing.T) {
	ts := tso.New(1_796_000_000_123, 77)
	if ts.Physical() != 1_796_000_000_123 || ts.Logical() != 77 {
		t.Fatalf("got %d/%d", ts.Physical(), ts.Logical())
	}
	if got := tso.At(ts.Time()); got != tso.New(1_796_000_000_123, 0) {
		t.Fatalf("At(Time()) = %v", got)
	}
}

func TestNeighboursStopAtTheEnds(t *testing.T) {
	if tso.TS(0).Prev() != 0 || tso.Max.Next() != tso.Max {
		t.Fatal("wrapped round")
	}
	if tso.TS(5).Prev() != 4 || tso.TS(5).Next() != 6 {
		t.Fatal("wrong neighbour")
	}
}

func TestSubIsWallClock(t *testing.T) {
	if d := tso.New(2500, 3).Sub(tso.New(1000, 9)); d != 1500*time.Millisecond {
		t.Fatalf("got %v", d)
	}
}

func TestParseRefusesWords(t *testing.T) {
	if _, err := tso.Parse("now"); err == nil {
		t.Fatal("accepted")
	}
	if ts, err := tso.Parse("470825338825080855"); err != nil || ts.String() != "470825338825080855" {
		t.Fatal(ts, err)
	}
}
