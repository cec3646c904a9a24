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

// Outcome is what an event came to, as somebody sees it who knows nothing of Sluice.
type Outcome struct {
	Name     string
	At       time.Duration // since the script began
	Took     time.Duration // until the lag was small again
	LagMax   time.Duration // meanwhile
	Returned bool          // false: the next event came before that
}

// Play carries a script out. Each outcome is told when it is known.
func (s *Site) Play(ctx context.Context, steps []Step, told func(Outcome)) ([]Outcome, error) {
	begun := time.Now()
	if _, err := s.calm(ctx, begun); err != nil {
		return nil, fmt.Errorf("before the first event: %w", err)
	}
	var out []Outcome
	var at time.Time
	for i, step := range steps {
		if !wait(ctx, step.After) {
			return out, ctx.Err()
		}
		if step.Early && i > 0 {
			out = append(out, s.overtaken(steps[i-1].Name, begun, at))
			told(out[len(out)-1])
		}
		at = time.Now()
		if err := step.Do(ctx, s); err != nil {
			return out, fmt.Errorf("event %d, %s: %w", i, step.Name, err)
		}
		if i+1 < len(steps) && steps[i+1].Early {
			continue
		}
		back, err := s.calm(ctx, at)
		if err != nil {
			return out, fmt.Errorf("after event %d, %s: %w", i, step.Name, err)
		}
		_, most, _ := s.Lag.returned(at)
		out = append(out, Outcome{Name: step.Name, At: at.Sub(begun), Took: back.Sub(at), LagMax: most, Returned: true})
		told(out[len(out)-1])
	}
	return out, nil
}

// overtaken is the outcome of an event when the next one is about to come.
func (s *Site) overtaken(name string, begun, at time.Time) Outcome {
	o := Outcome{Name: name, At: at.Sub(begun)}
	back, most, ok := s.Lag.returned(at)
	if o.LagMax, o.Returned = most, ok; ok {
		o.Took = back.Sub(at)
	}
	return o
}

// calm waits until the lag is small after a moment, and tells since when.
func (s *Site) calm(ctx context.Context, since time.Time) (back time.Time, err error) {
	err = s.until(ctx, fmt.Sprintf("a lag of %v at most", small), func() error {
		at, most, ok := s.Lag.returned(since)
		if back = at; ok {
			return nil
		}
		f, err := s.Feed(ctx)
		if err != nil {
			return fmt.Errorf("%v by now; ends of servers: %q; %w", most, s.fell(), err)
		}
		return fmt.Errorf("%v by now; the changefeed: %v", most, f)
	})
	return back, err
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
