package redo

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// Config is what a changefeed's [consistent] says, in Go's types.
type Config struct {
	// MaxLogBytes is how large a file grows, in plain.
	MaxLogBytes int64
	// FlushInterval is how long a row may wait for its file when no resolved-ts comes.
	FlushInterval time.Duration
	// FlushEvery is how often resolved-ts may end files.
	FlushEvery time.Duration
	// MetaEvery is how often a meta may be written.
	MetaEvery time.Duration
	// CollectEvery is how often files that nobody needs are looked for.
	CollectEvery time.Duration
	// FlushWorkers compress and put files, each one at a time.
	FlushWorkers int
	// QuotaBytes is how much may wait to be flushed.
	QuotaBytes int64
	Codec      record.Codec
	Program    string // what stands in the files as their writer

	// Ahead tells, when a log begins, up to where the downstream may hold rows: nil for
	// no further than where the log begins.
	Ahead func(ctx context.Context) (tso.TS, error)

	// Trouble is told what is wrong with the storage while it is tried again, and
	// nil when it works again. It must not block.
	Trouble func(error)
	Log     *slog.Logger
}

// Default is TiCDC's, but that rows are compressed.
func Default() Config {
	return Config{
		MaxLogBytes:   64 << 20,
		FlushInterval: 2 * time.Second,
		FlushEvery:    100 * time.Millisecond,
		MetaEvery:     100 * time.Millisecond,
		CollectEvery:  5 * time.Second,
		FlushWorkers:  8,
		QuotaBytes:    512 << 20,
		Codec:         record.Zstd,
		Program:       "sluice",
		Trouble:       func(error) {},
		Log:           slog.New(slog.DiscardHandler),
	}
}

// The bounds of [consistent].
const (
	intervalMin = 50 * time.Millisecond
	workersMax  = 128
	// LogBytesMin is the least that a file may be allowed to grow to.
	LogBytesMin = 1 << 20
)

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.MaxLogBytes < LogBytesMin:
		return cdcerr.RedoConfigInvalid.New("consistent.max-log-size: %d bytes, at least 1 MiB", c.MaxLogBytes)
	case c.FlushInterval < intervalMin:
		return cdcerr.RedoConfigInvalid.New("consistent.flush-interval: %v, at least %v", c.FlushInterval, intervalMin)
	case c.FlushEvery <= 0 || c.MetaEvery <= 0:
		return cdcerr.RedoConfigInvalid.New("FlushEvery %v, MetaEvery %v: must be positive", c.FlushEvery, c.MetaEvery)
	case c.FlushWorkers < 1 || c.FlushWorkers > workersMax:
		return cdcerr.RedoConfigInvalid.New("consistent.flush-worker-num: %d, 1 to %d", c.FlushWorkers, workersMax)
	case c.QuotaBytes < c.MaxLogBytes:
		return cdcerr.RedoConfigInvalid.New("consistent.memory-usage: %d bytes are less than one file (consistent.max-log-size, %d)", c.QuotaBytes, c.MaxLogBytes)
	}
	return nil
}

// The waits between attempts, doubled from the first to the last.
const (
	waitFirst = 50 * time.Millisecond
	waitLast  = 5 * time.Second
)

// attemptMax is how long an attempt may last before somebody is told: a mount of a server
// that is gone answers nothing at all, for ever.
const attemptMax = 5 * time.Second

// attempt does something once, and tells whether Trouble was told that it lasts.
func (c *Config) attempt(what string, do func() error) (slow bool, err error) {
	told := make(chan struct{})
	timer := time.AfterFunc(attemptMax, func() {
		defer close(told)
		c.Trouble(cdcerr.StorageAPI.New("%s: no answer of the storage after %v; it is waited for", what, attemptMax))
	})
	err = do()
	if timer.Stop() {
		return false, err
	}
	<-told
	return true, err
}

// retry does something until it succeeds, ctx ends, or it fails in a way that
// trying again does not mend: what is there already, what an operator must see to.
func (c *Config) retry(ctx context.Context, what string, do func() error) error {
	wait, failed := waitFirst, false
	for {
		slow, err := c.attempt(what, do)
		failed = failed || slow
		if err == nil {
			if failed {
				c.Trouble(nil)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if cdcerr.ObjectExists.Is(err) || cdcerr.NotOwner.Is(err) || cdcerr.Fate(err) != cdcerr.Retry {
			return err
		}
		if !failed {
			c.Log.Warn("redo log: the storage does not do what it should; trying again", "what", what, "error", err)
		}
		failed = true
		c.Trouble(err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
		wait = min(2*wait, waitLast)
	}
}
