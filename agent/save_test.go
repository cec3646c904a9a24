package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/tso"
)

// told is a sink that says what it is told.
type told struct {
	sink.Sink
	say func(string)
}

func (t told) DDL(context.Context, sink.Leave, *event.DDL) error {
	t.say("DDL")
	return nil
}

// A DDL runs when the checkpoint before it is persisted, however often that takes;
// one that can never be persisted keeps the DDL from running.
func TestCheckpointIsPersistedBeforeADDL(t *testing.T) {
	black, err := blackhole.Open("blackhole://")
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	answers := []error{cdcerr.MetaUnreachable.New("etcd is away"), cdcerr.MetaConflict.New("somebody else wrote"), nil}
	f := &Changefeed{moved: make(chan struct{}, 1), cfg: Config{SaveEvery: time.Nanosecond, Save: func(_ context.Context, checkpoint, _ tso.TS) error {
		heard = append(heard, checkpoint.String())
		err := answers[0]
		answers = answers[1:]
		return err
	}}.orDefault()}
	n := noting{told{black, func(s string) { heard = append(heard, s) }}, f}
	if err := n.Checkpoint(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to persist
		if err := n.DDL(t.Context(), sink.Endless, &event.DDL{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"9", "9", "9", "DDL", "DDL"}; !slices.Equal(heard, want) {
		t.Errorf("%q, want %q", heard, want)
	}
	heard, answers = nil, []error{errors.New("not the owner")}
	if err := n.Checkpoint(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if err := n.DDL(t.Context(), sink.Endless, &event.DDL{}); err == nil || slices.Contains(heard, "DDL") {
		t.Errorf("%v, %q", err, heard)
	}
}
