package agent

import (
	"context"

	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// RedoWriter writes the redo log of one changefeed on one capture; a redo.Writer behind
// it does.
type RedoWriter interface {
	pipeline.RedoLog
	// Run writes until ctx ends, or the log cannot be written for good.
	Run(ctx context.Context) error
	// Durable is up to where all that was appended is on the storage, and which files
	// hold it, as the owner's side of the log reads them.
	Durable() (upto tso.TS, extents []byte, err error)
	// Moved gets a token when Durable has changed.
	Moved() <-chan struct{}
}

// LogFeed feeds a redo log; *pipeline.LogFeed is one, whose words say what each call does.
type LogFeed interface {
	Run(ctx context.Context) error
	Write(s span.Span, from tso.TS)
	Stop(s span.Span)
	Look()
	Logged(durable tso.TS) tso.TS
}

// logging is the redo log's side of an engine: it has the same spans, from where the log
// does not have them yet, and lives as long.
type logging struct {
	feed   LogFeed
	writer RedoWriter
}

// startLog begins to feed a log that has nothing of this capture yet; nil where there is
// no redo log.
func (l *life) startLog(ctx, living context.Context) *logging {
	if l.cfg.Redo == nil {
		return nil
	}
	w := l.cfg.Redo(l.trouble)
	f := l.path.LogFeed(pipeline.LogFeedConfig{
		Changefeed: l.cfg.Name, StartTS: l.cfg.StartTS,
		Filter: l.scope.Rules, ForceReplicate: l.cfg.ForceReplicate, FilterLoop: l.cfg.FilterLoop, Log: w,
	}, known{l.feed})
	for _, run := range []func(context.Context) error{w.Run, f.Run} {
		l.works.Go(func() error {
			if err := run(ctx); ctx.Err() == nil {
				return err
			}
			return living.Err() // nil: only the term is over
		})
	}
	return &logging{feed: f, writer: w}
}

// logged gets a token when more is durable.
func (l *life) logged() <-chan struct{} {
	if l.writing == nil || l.writing.log == nil || l.ended != nil {
		return nil
	}
	return l.writing.log.writer.Moved()
}

// tellLog tells the half up to where the log has all that is written here.
func (l *life) tellLog() error {
	upto, extents, err := l.writing.log.writer.Durable()
	if err != nil {
		return err
	}
	logged := l.writing.log.feed.Logged(upto)
	l.mu.Lock()
	l.half.Logged(logged, extents)
	l.mu.Unlock()
	l.moved = true
	return nil
}

// logFrom lets the log have a span that begins to be written here. What lies at or below
// the gate is in the log, whoever wrote it there.
func (l *life) logFrom(s span.Span, from tso.TS) {
	if l.writing.log == nil {
		return
	}
	l.mu.Lock()
	gate := l.half.Gate()
	l.mu.Unlock()
	l.writing.log.feed.Write(s, max(from, gate))
}

// unlog lets the log's feed leave a span of which nothing is written any more. It is not
// written anew before: its rows' arrival is not told until its end is.
func (l *life) unlog(s span.Span) {
	if l.writing.log != nil {
		l.writing.log.feed.Stop(s)
	}
}

// trouble is what the log's storage is in, nil once it works again.
func (p *Part) trouble(err error) {
	text := ""
	if err != nil {
		text = p.cfg.Encode(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logTrouble = text
}
