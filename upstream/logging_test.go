package upstream

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What PD's client says again and again is one line in a while, which tells how many there
// were; what is of another kind is not lost beside it.
func TestPDsChatterIsFolded(t *testing.T) {
	var out strings.Builder
	core := zapcore.Core(&slogCore{to: slog.New(slog.NewTextHandler(&out, nil)), said: &said{of: map[string]*saying{}}})
	at := time.Unix(1e9, 0)
	say := func(text string, after time.Duration) {
		at = at.Add(after)
		e := zapcore.Entry{Level: zapcore.ErrorLevel, Time: at, Message: text}
		if err := core.With([]zapcore.Field{zap.Int("member", 1)}).Write(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		say("cannot reach", 100*time.Millisecond)
		say("cannot update", 0)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
	out.Reset()
	say("cannot reach", time.Minute)
	if text := out.String(); !strings.Contains(text, "left-out-before=99") || !strings.Contains(text, "member=1") {
		t.Error(text)
	}
	for i := range 10 * kindsMax {
		say(strings.Repeat("x", i), 0)
	}
	if n := len(core.(*slogCore).said.of); n > kindsMax {
		t.Errorf("%d kinds are remembered", n)
	}
}
