package meta

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog sends etcd's words to our logger, a level lower: what is worth an error
// to etcd's client is ridden out, or comes to us as an error too.
func etcdLog(to *slog.Logger) *zap.Logger {
	return zap.New(etcdCore{to}, zap.WithFatalHook(zapcore.WriteThenPanic))
}

// etcdCore is a zap core that writes to slog.
type etcdCore struct{ to *slog.Logger }

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
	return etcdCore{slog.New(c.to.Handler().WithAttrs(attributes(fields)))}
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
	c.to.LogAttrs(context.Background(), lower(e.Level), "etcd: "+e.Message, attributes(fields)...)
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
