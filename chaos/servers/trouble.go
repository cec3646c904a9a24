package servers

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Troubles are what a cluster does, or goes through, while its redo log is written. Each
// ends when it is over. Drained and Moved are for several servers.

// Drained is a capture that loses its tables, ends, and comes back.
func Drained() Event {
	return Event{"a drain", func(ctx context.Context, s *Site) error { return drainOther(ctx, s, new(Attempt)) }}
}

// Moved is the bank's tables, each given to another capture.
func Moved() Event {
	return Event{"tables moved", func(ctx context.Context, s *Site) error { return moveTables(ctx, s, new(Attempt)) }}
}

// HandedOver is the owner that ends in good order, and comes back.
func HandedOver() Event {
	return Event{"another owner", func(ctx context.Context, s *Site) error { return s.again(ctx, s.owner(ctx)) }}
}

// Paused is the changefeed, for a while.
func Paused(d time.Duration) Event {
	return Event{fmt.Sprintf("a pause of %v", d), func(ctx context.Context, s *Site) error {
		ask := func(what string) error {
			return s.until(ctx, "the changefeed can be told to "+what, func() error {
				_, err := s.call(ctx, askMax, http.MethodPost, "/api/v2/changefeeds/"+feedName+"/"+what, []byte("{}"))
				return err
			})
		}
		if err := ask("pause"); err != nil {
			return err
		}
		if !wait(ctx, d) {
			return ctx.Err()
		}
		return ask("resume")
	}}
}

// Away is the downstream, killed and back after a while.
func Away(d time.Duration) Event {
	return Event{fmt.Sprintf("the downstream away for %v", d), func(ctx context.Context, s *Site) error {
		if err := s.Down.Kill(); err != nil {
			return err
		}
		if !wait(ctx, d) {
			return ctx.Err()
		}
		return s.Down.Restart()
	}}
}
