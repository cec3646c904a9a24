package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pingcap/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quietPD sends the PD client's words to our logger. It knows only one logger
// for the whole process, so the last Client that was opened gets them all.
func quietPD(to *slog.Logger) {
	core := &slogCore{to: to, said: &said{of: map[string]*saying{}}}
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	// What is fatal to the PD client ends its goroutine, not our process.
	fatal := zap.WithFatalHook(zapcore.WriteThenGoexit)
	log.ReplaceGlobals(zap.New(core, fatal), &log.ZapProperties{Core: core, Level: level})
}

// slogCore is a zap core that writes to slog, a level lower: what is worth an
// error to the PD client is ridden out by us.
type slogCore struct {
	to     *slog.Logger
	said   *said
	fields []zapcore.Field
}

// While PD is away its client says the same some hundred times a minute, of each member
// and each kind of request: one line of a kind is enough for sayAgain, and the next one
// tells how many there were.
const (
	sayAgain = 30 * time.Second
	// kindsMax bounds what is remembered; the client's own kinds are fewer.
	kindsMax = 256
)

// said is what was said lately, by its text without its fields.
type said struct {
	mu sync.Mutex
	of map[string]*saying // guarded by mu
}

type saying struct {
	at   time.Time
	less int // lines that were left out since
}

// again tells whether a line is to be said, and how many were left out before it.
func (s *said) again(e *zapcore.Entry) (less int, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.of[e.Message]
	if last == nil {
		if len(s.of) >= kindsMax {
			clear(s.of)
		}
		s.of[e.Message] = &saying{at: e.Time}
		return 0, true
	}
	if e.Time.Sub(last.at) < sayAgain {
		last.less++
		return 0, false
	}
	less = last.less
	*last = saying{at: e.Time}
	return less, true
}

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// Enabled implements zapcore.Core.
func (c *slogCore) Enabled(l zapcore.Level) bool {
	return c.to.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{to: c.to, said: c.said, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// expected is what the PD client finds odd and we have brought about: members
// whose URLs say https, while it speaks plainly above our dialer.
const expected = "[pd] no matched url found"

// Write implements zapcore.Core.
func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message == expected {
		return nil
	}
	less, say := c.said.again(&e)
	if !say {
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(enc)
	}
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for k, v := range enc.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	if less > 0 {
		attrs = append(attrs, slog.Int("left-out-before", less))
	}
	c.to.LogAttrs(context.Background(), slogLevel(e.Level), e.Message, slog.Attr{Key: "pd", Value: slog.GroupValue(attrs...)})
	return nil
}

// Sync implements zapcore.Core.
func (c *slogCore) Sync() error { return nil }
