package meta

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// etcdLog sends etcd's words to our logger, a level lower: what is worth an error
// to etcd's client is ridden out, or comes to us as an error too.
func etcdLog(to *slog.Logger, last *lastWords) *zap.Logger {
	return zap.New(etcdCore{to, last}, zap.WithFatalHook(givingUp{to, last}))
}

// givingUp is what comes after a line that is fatal to etcd. It panics, in whatever
// goroutine: at the start startEmbedded turns that into an error; later nobody can,
// since etcd holds its locks, and the process ends as after any crash. Whoever reads
// its last words shall know what to do.
type givingUp struct {
	to   *slog.Logger
	last *lastWords
}

// OnWrite implements zapcore.CheckWriteHook.
func (g givingUp) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	if g.last != nil {
		if why := g.last.why(); why != nil {
			err := failed(g.last.dir, fmt.Errorf("%s: %w", ce.Message, why), cdcerr.MetaDirDamaged)
			g.last.say(err)
			ce.Message = cdcerr.Explain(err)
			g.to.Error("the embedded etcd gives up, and this process with it", "error", ce.Message)
		}
	}
	zapcore.WriteThenPanic.OnWrite(ce, fields)
}

// etcdCore is a zap core that writes to slog.
type etcdCore struct {
	to   *slog.Logger
	last *lastWords
}

// lastWords are what the embedded etcd says at its end; nil for a client.
type lastWords struct {
	leaving atomic.Bool // it was told to end: what it says of that is no trouble
	dir     string      // the member's

	mu  sync.Mutex
	err error // of the line with which it gave up; guarded by mu
}

func (l *lastWords) note(fields []zapcore.Field) {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			l.say(err)
		}
	}
}

func (l *lastWords) say(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// why is the error with which it gave up, nil where it has not.
func (l *lastWords) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func lower(l zapcore.Level) slog.Level {
	switch l {
	case zapcore.DebugLevel, zapcore.InfoLevel, zapcore.WarnLevel:
		return slog.LevelDebug
	case zapcore.ErrorLevel:
		return slog.LevelInfo
	}
	return slog.LevelError
}

// Enabled implements zapcore.Core. What etcd's server says at its lowest level is
// left out: it prints requests there with the values that are written, and those of
// changefeeds hold passwords.
func (c etcdCore) Enabled(l zapcore.Level) bool {
	return l > zapcore.DebugLevel && c.to.Enabled(context.Background(), lower(l))
}

// With implements zapcore.Core.
func (c etcdCore) With(fields []zapcore.Field) zapcore.Core {
	return etcdCore{slog.New(c.to.Handler().WithAttrs(attributes(fields))), c.last}
}

// Check implements zapcore.Core.
func (c etcdCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c etcdCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := lower(e.Level)
	if c.last != nil {
		if e.Level > zapcore.ErrorLevel {
			c.last.note(fields)
		}
		if c.last.leaving.Load() {
			level = slog.LevelDebug
		}
	}
	c.to.LogAttrs(context.Background(), level, "etcd: "+e.Message, attributes(fields)...)
	return nil
}

// Sync implements zapcore.Core.
func (c etcdCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	out := make([]slog.Attr, 0, len(enc.Fields))
	for k, v := range enc.Fields {
		out = append(out, slog.Any(k, v))
	}
	return out
}
