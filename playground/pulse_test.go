package playground

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/verify"
)

func TestThePulseTellsWhatIsDone(t *testing.T) {
	var p pulse
	p.do("replaying")
	txns := []event.Txn{{Rows: make([]*event.Row, 3)}, {Rows: make([]*event.Row, 4)}}
	now := time.Now()
	p.writing(txns)()
	written := p.writing(txns[:1])
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "x: replaying for 0 s, 7 rows written"},
		{65*time.Second + time.Millisecond, "x: replaying for 65 s, 7 rows written; the downstream has been taking 3 rows for 65 s"},
	} {
		if got := p.line("x", now.Add(c.after)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	written()
	if got := p.line("x", now.Add(2*time.Minute)); strings.Contains(got, "taking") || !strings.Contains(got, "10 rows") {
		t.Error(got)
	}
	p.do("comparing")
	if got := p.line("x", time.Now()); got != "x: comparing for 0 s" {
		t.Error(got)
	}
}

// heard is a writer that says when a text has come.
type heard struct {
	text string
	seen strings.Builder
	come chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	before := strings.Contains(h.seen.String(), h.text)
	h.seen.Write(b)
	if !before && strings.Contains(h.seen.String(), h.text) {
		close(h.come)
	}
	return len(b), nil
}

// slow is a target that takes its time to compare.
type slow struct {
	nothing
	until <-chan struct{}
}

func (s slow) end(ctx context.Context, j *verify.Judge, o outcome) (*verify.Verdict, error) {
	<-s.until
	return s.nothing.end(ctx, j, o)
}

// A run that takes long is seen to be alive, with --verify too.
func TestALongRunIsSeenToBeAlive(t *testing.T) {
	words := &heard{text: "20_system: comparing for ", come: make(chan struct{})}
	p := &player{
		options: &Options{Verify: true}, target: slow{nothing{"blackhole://"}, words.come},
		out: io.Discard, words: &turns{w: words}, every: time.Millisecond, log: slog.New(slog.DiscardHandler),
	}
	r, err := recordingOf(golden + "/20_system.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.one(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// A recording that is being read is let go when the run is told to end.
func TestReadingEndsWithTheRun(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	r, err := recordingOf(golden + "/20_system.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.outcome(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// full is a device without room.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A verdict that nobody can read is no success.
func TestAVerdictThatCannotBeWrittenIsStatusTwo(t *testing.T) {
	var stderr bytes.Buffer
	status := Main(t.Context(), []string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", "blackhole://", "--verify"}, full{}, &stderr)
	if status != couldNotRun || !strings.Contains(stderr.String(), "could not be written to standard output") || !strings.Contains(stderr.String(), errFull.Error()) {
		t.Errorf("status %d, %s", status, stderr.String())
	}
}
