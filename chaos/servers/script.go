package servers

import (
	"context"
	"fmt"
	"time"
)

// Event is something that befalls a site.
type Event struct {
	Name string
	Do   func(ctx context.Context, s *Site) error
}

// Step is an event and when it comes: so long after the lag has returned from the
// event before, or, where it is early, so long after that event itself.
type Step struct {
	Event
	After time.Duration
	Early bool
}

// Outcome is what an event came to.
type Outcome struct {
	Name     string
	At       time.Duration // since the script began
	Took     time.Duration // until the heartbeat was young again
	Returned bool          // false: the next event came before that

	// The lag until then, at every look, the smallest first.
	Beat []time.Duration // as somebody sees it who knows nothing of Sluice
	Told []time.Duration // as servers tell it
}

// Play carries a script out. Each outcome is told when it is known.
func (s *Site) Play(ctx context.Context, steps []Step, told func(fmt.Stringer)) ([]Outcome, error) {
	begun := time.Now()
	if err := s.calm(ctx, begun); err != nil {
		return nil, fmt.Errorf("before the first event: %w", err)
	}
	var out []Outcome
	var at time.Time
	for i, step := range steps {
		if !wait(ctx, step.After) {
			return out, ctx.Err()
		}
		if step.Early && i > 0 {
			out = append(out, s.outcome(steps[i-1].Name, begun, at))
			told(out[len(out)-1])
		}
		at = time.Now()
		if err := step.Do(ctx, s); err != nil {
			return out, fmt.Errorf("event %d, %s: %w", i, step.Name, err)
		}
		if i+1 < len(steps) && steps[i+1].Early {
			continue
		}
		if err := s.calm(ctx, at); err != nil {
			return out, fmt.Errorf("after event %d, %s: %w", i, step.Name, err)
		}
		out = append(out, s.outcome(step.Name, begun, at))
		told(out[len(out)-1])
	}
	return out, nil
}

// outcome is that of an event as far as it is known by now.
func (s *Site) outcome(name string, begun, at time.Time) Outcome {
	o := Outcome{Name: name, At: at.Sub(begun)}
	until, ok := s.Beat.returned(at)
	if o.Returned = ok; ok {
		o.Took = until.Sub(at)
	} else {
		until = time.Now()
	}
	o.Beat, o.Told = s.Beat.between(at, until), s.Told.between(at, until)
	return o
}

// calm waits until the lag is small after a moment.
func (s *Site) calm(ctx context.Context, since time.Time) error {
	return s.until(ctx, fmt.Sprintf("a lag of %v at most", small), func() error {
		if _, ok := s.Beat.returned(since); ok {
			return nil
		}
		f, err := s.Feed(ctx)
		if err != nil {
			return fmt.Errorf("ends of servers: %q; %w", s.fell(), err)
		}
		return fmt.Errorf("the changefeed: %v", f)
	})
}

func (s *Site) fell() (all []string) {
	for _, n := range s.Nodes {
		all = append(all, n.Fell()...)
	}
	return all
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
