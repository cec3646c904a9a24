package mysql

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/sink"
)

// within ends the context when the leave to write has ended, so that nothing
// waits for a lock that is of no use any more. A leave that was renewed in the
// meantime goes on: its end is asked for again when the one that was known comes.
func within(ctx context.Context, leave sink.Leave) (context.Context, context.CancelFunc) {
	deadline := leave().Deadline
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	set := make(chan struct{})
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(deadline), func() {
		<-set
		if err := leave.Check(); err != nil {
			cancel(err)
			return
		}
		if ctx.Err() == nil {
			timer.Reset(time.Until(leave().Deadline))
		}
	})
	close(set)
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
