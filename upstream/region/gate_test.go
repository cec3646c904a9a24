package region

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func tickets(n ...uint64) (out []Ticket) {
	for _, i := range n {
		out = append(out, Ticket{Request: 1, Region: i})
	}
	return out
}

// all takes what the gate lets in.
func all(g *Gate[uint64], now time.Duration, admit func(uint64) bool) string {
	var in []string
	for {
		what, ok := g.Next(now, admit)
		if !ok {
			return strings.Join(in, " ")
		}
		in = append(in, fmt.Sprint(what))
	}
}

func every(uint64) bool { return true }

func TestGate(t *testing.T) {
	g := NewGate[uint64](Window{Calm: 2, Urgent: 4})
	for i := range uint64(6) {
		g.Push(Ticket{1, i}, i, false)
	}
	want := func(now time.Duration, admit func(uint64) bool, want string) {
		t.Helper()
		if got := all(g, now, admit); got != want {
			t.Errorf("let in %q, want %q", got, want)
		}
	}
	want(0, every, "0 1")
	// Urgent ones go first, and in although calm ones fill their window.
	for i := range uint64(4) {
		g.Push(Ticket{2, i}, 20+i, true)
	}
	want(time.Second, every, "20 21")
	g.Done(Ticket{1, 0})
	g.Done(Ticket{2, 0})
	want(time.Second, every, "22 23")
	// A calm one waits until the window has room for it again.
	for i := range uint64(3) {
		g.Done(Ticket{2, i})
	}
	want(2*time.Second, every, "")
	g.Done(Ticket{2, 3})
	g.Done(Ticket{1, 3}) // waits still: never sent
	want(2*time.Second, every, "2")
	// Who may not go in lets others pass.
	g.Done(Ticket{1, 2})
	want(3*time.Second, func(i uint64) bool { return i != 4 }, "5")
	if sent, known := g.Done(Ticket{1, 5}); !sent || !known {
		t.Error("5 was sent")
	}
	if sent, known := g.Done(Ticket{1, 5}); sent || known {
		t.Error("5 is gone")
	}
	want(3*time.Second, every, "4")
	if g.Waiting() != 0 || g.Running() != 2 {
		t.Errorf("%d waiting, %d running", g.Waiting(), g.Running())
	}
	// Of 1 nothing was heard since the beginning.
	if got := g.Overdue(3500*time.Millisecond, 3*time.Second); len(got) != 1 || got[0] != (Ticket{1, 1}) {
		t.Errorf("overdue: %v", got)
	}
	g.Heard(Ticket{1, 1}, 3*time.Second)
	if got := g.Overdue(3500*time.Millisecond, 3*time.Second); len(got) != 0 {
		t.Errorf("overdue: %v", got)
	}
	g.Push(Ticket{3, 1}, 31, true)
	g.Push(Ticket{3, 2}, 32, false)
	g.DoneAll()
	if g.Running() != 0 || g.Waiting() != 0 {
		t.Errorf("%d running, %d waiting", g.Running(), g.Waiting())
	}
	want(4*time.Second, every, "")
}

// TestGateAgainstCounts pushes and ends at random: nothing is lost, sent twice or
// sent beyond the window, and the lines do not keep what is gone.
func TestGateAgainstCounts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		g := NewGate[uint64](Window{Calm: 3, Urgent: 5})
		state := map[uint64]string{}
		var next uint64
		for range 400 {
			switch rng.IntN(4) {
			case 0, 1:
				g.Push(tickets(next)[0], next, rng.IntN(3) == 0)
				state[next] = "waiting"
				next++
			case 2:
				i := rng.Uint64N(next + 1)
				sent, known := g.Done(Ticket{1, i})
				if was := state[i]; known != (was == "waiting" || was == "running") || sent != (was == "running") {
					t.Fatalf("seed %d: %d was %q, done says %v %v", seed, i, was, sent, known)
				}
				delete(state, i)
			case 3:
				if i, ok := g.Next(0, every); ok {
					if state[i] != "waiting" {
						t.Fatalf("seed %d: %d is sent but was %q", seed, i, state[i])
					}
					state[i] = "running"
				}
			}
			running, waiting := 0, 0
			for _, s := range state {
				if s == "running" {
					running++
				} else {
					waiting++
				}
			}
			if running != g.Running() || waiting != g.Waiting() || running > 5 {
				t.Fatalf("seed %d: %d running, %d waiting; the gate says %d, %d", seed, running, waiting, g.Running(), g.Waiting())
			}
		}
		for len(state) > 0 { // whatever waits comes to its turn
			i, ok := g.Next(0, every)
			if !ok {
				for i, s := range state {
					if s == "running" {
						g.Done(Ticket{1, i})
						delete(state, i)
					}
				}
				if i, ok = g.Next(0, every); !ok {
					if len(state) > 0 {
						t.Fatalf("seed %d: %v never come to their turn", seed, state)
					}
					break
				}
			}
			state[i] = "running"
		}
		if len(trim(g.calm)) > 0 || len(trim(g.urgent)) > 0 {
			t.Fatalf("seed %d: the lines keep what is gone", seed)
		}
	}
}
