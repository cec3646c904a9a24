package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bound is how late a changefeed may be because of something; zero is no bound.
type Bound struct {
	P99, Max time.Duration // of the checkpoint's lag, from the first moment until all is calm
	Within   time.Duration // both lags are small for good so long after each mark
	Others   time.Duration // the heartbeat of tables of captures that nothing befell
}

// String is what a person reads in a table.
func (b Bound) String() string {
	var all []string
	if b.P99 > 0 {
		all = append(all, fmt.Sprintf("p99 ≤ %v, max ≤ %v", b.P99, b.Max))
	}
	if b.Within > 0 {
		all = append(all, fmt.Sprintf("≤ %v again within %v", small, b.Within))
	}
	if b.Others > 0 {
		all = append(all, fmt.Sprintf("others' heartbeat ≤ %v", b.Others))
	}
	return strings.Join(all, "; ")
}

// Trial is something that befalls a cluster, and what may come of it.
type Trial struct {
	Key  string // by which it is picked
	Name string
	Bound
	Times int // that it comes
	do    func(ctx context.Context, s *Site, a *Attempt) error
}

// Attempt is one time of a trial.
type Attempt struct {
	Trial
	At    time.Duration // since the first trial
	Took  time.Duration
	Marks []Mark
	// The lags at every look, the smallest first.
	Told, Beat, Others []time.Duration
	Notes              []string
	Err                error // it did not come about, or the lag did not return

	begun  time.Time
	others []int // tables of the heartbeat whose captures nothing befalls
}

// Mark is a moment from which on the lag has to return, and how long that took.
type Mark struct {
	Name string
	Back time.Duration

	at time.Time
}

// begin is where it begins: what was prepared is over.
func (a *Attempt) begin(mark string) {
	a.begun, a.Marks = time.Now(), nil
	a.mark(mark)
}

func (a *Attempt) mark(name string) {
	a.Marks = append(a.Marks, Mark{Name: name, at: time.Now()})
}

func (a *Attempt) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// OK tells whether it came about, and kept to its bound.
func (a *Attempt) OK() bool { return a.Err == nil && len(a.missed()) == 0 }

// missed is what it did not keep to.
func (a *Attempt) missed() (out []string) {
	over := func(what string, is, may time.Duration) {
		if may > 0 && is > may {
			out = append(out, fmt.Sprintf("%s: %v, want at most %v", what, is.Round(time.Millisecond), may))
		}
	}
	over("checkpoint p99", part(a.Told, 0.99), a.P99)
	over("checkpoint max", most(a.Told), a.Max)
	over("others' heartbeat", most(a.Others), a.Bound.Others)
	for _, m := range a.Marks {
		over("back after "+m.Name, m.Back, a.Within)
	}
	return out
}

// String is a line for whoever watches.
func (a *Attempt) String() string {
	line := fmt.Sprintf("%8v  %-12s checkpoint p99 %6v max %6v, heartbeat p99 %6v max %6v", a.At.Round(time.Second), a.Key,
		ms(part(a.Told, 0.99)), ms(most(a.Told)), ms(part(a.Beat, 0.99)), ms(most(a.Beat)))
	for _, m := range a.Marks {
		line += fmt.Sprintf(", back %v after %s", ms(m.Back), m.Name)
	}
	for _, n := range slices.Concat(a.Notes, a.missed()) {
		line += "; " + n
	}
	if a.Err != nil {
		line += "; " + a.Err.Error()
	}
	return line
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// calmFor is for how long the lag has to be small until it counts as back.
const calmFor = 5 * time.Second

// Try carries one trial out, with what it needs around it: at first, and after it, as
// many servers live as the site was opened with, and the lag is small.
func (s *Site) Try(ctx context.Context, t Trial, since time.Time) *Attempt {
	a := &Attempt{Trial: t}
	a.At = time.Since(since)
	if a.Err = s.restore(ctx); a.Err != nil {
		a.Err = fmt.Errorf("before it began: %w", a.Err)
		return a
	}
	a.begin(t.Key)
	a.Err = t.do(ctx, s, a)
	a.Err = errors.Join(a.Err, s.calmAgain(ctx))
	end := time.Now()
	a.At, a.Took = a.begun.Sub(since), end.Sub(a.begun)
	for i := range a.Marks {
		m, until := &a.Marks[i], end
		if i+1 < len(a.Marks) {
			until = a.Marks[i+1].at
		}
		m.Back = max(s.Told.late(m.at, until).Sub(m.at), s.Beat.late(m.at, until).Sub(m.at))
	}
	a.Told, a.Beat = s.Told.between(a.begun, end), s.Beat.between(a.begun, end)
	for _, i := range a.others {
		a.Others = append(a.Others, s.beats[i].between(a.begun, end)...)
	}
	slices.Sort(a.Others)
	return a
}

// restore lets those servers live that lived at first, over wires that are whole.
func (s *Site) restore(ctx context.Context) error {
	s.wires.Cut()
	for i, n := range s.Nodes {
		switch rests := n.Rests(); {
		case i < s.cfg.Servers && rests:
			n.Rise()
		case i >= s.cfg.Servers && !rests:
			if err := n.Rest(ctx, termination); err != nil {
				return err
			}
		}
	}
	if _, err := s.gathered(ctx); err != nil {
		return err
	}
	return s.calmAgain(ctx)
}

// calmAgain waits until both lags have been small for some time.
func (s *Site) calmAgain(ctx context.Context) error {
	begun := time.Now()
	return s.until(ctx, fmt.Sprintf("lags of %v at most, for %v", small, calmFor), func() error {
		if s.Told.steady(begun, calmFor) && s.Beat.steady(begun, calmFor) {
			return nil
		}
		f, err := s.Feed(ctx)
		if err != nil {
			return fmt.Errorf("ends of servers: %q; %w", s.fell(), err)
		}
		return fmt.Errorf("the changefeed: %v", f)
	})
}
