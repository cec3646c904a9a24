package blackhole_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
)

func TestCounts(t *testing.T) {
	var s sink.Sink
	b, err := blackhole.Open("blackhole://")
	if err != nil {
		t.Fatal(err)
	}
	s = b
	row := &event.Row{Raw: &event.RawKV{Key: make([]byte, 19), Value: make([]byte, 100), Old: make([]byte, 7)}}
	ctx := context.Background()
	for range 2 {
		if err := s.Write(ctx, sink.Endless, []event.Txn{{Rows: []*event.Row{row, row}}, {Rows: []*event.Row{row}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.DDL(ctx, sink.Endless, &event.DDL{}), s.Checkpoint(ctx, 7), s.Close()); err != nil {
		t.Fatal(err)
	}
	if want := (blackhole.Counts{Rows: 6, Txns: 4, Bytes: 6 * 126, DDLs: 1, Checkpoint: 7}); b.Counts() != want {
		t.Fatalf("%+v", b.Counts())
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := s.Write(stopped, sink.Endless, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := s.DDL(stopped, sink.Endless, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatItWouldIgnore(t *testing.T) {
	for _, uri := range []string{"blackhole://host", "blackhole:///db", "blackhole://?rate=1", "blackhole://u:p@", "mysql://", "blackhole", "%"} {
		if _, err := blackhole.Open(uri); !cdcerr.SinkURIInvalid.Is(err) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if _, err := blackhole.Open("blackhole:///"); err != nil {
		t.Error(err)
	}
}
