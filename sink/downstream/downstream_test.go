package downstream_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/blackhole"
	"github.com/sluice-cdc/sluice/sink/downstream"
)

// A black hole takes any role, and has neither fence nor record.
func TestBlackholeHasAnyRole(t *testing.T) {
	for _, role := range []sink.Role{sink.Whole, sink.Rows, sink.Owner} {
		s, err := downstream.Open(t.Context(), "blackhole://", downstream.Config{Role: role, Capture: "one", Leave: sink.Endless})
		if err != nil {
			t.Fatal(err)
		}
		if _, fences := s.(sink.Fencer); fences {
			t.Error("it fences nothing")
		}
		if _, records := s.(sink.Recorder); records {
			t.Error("it records nothing")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSchemes(t *testing.T) {
	ctx := context.Background()
	s, err := downstream.Open(ctx, "blackhole://", downstream.Config{})
	if _, ok := s.(*blackhole.Sink); err != nil || !ok {
		t.Fatalf("%T %v", s, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for uri, code := range map[string]*cdcerr.Code{
		"":                           cdcerr.SinkURIInvalid,
		"root:secret@host":           cdcerr.SinkURIInvalid,
		"kafca://u:secret@host":      cdcerr.SinkURIInvalid,
		"blackhole://u:secret@host":  cdcerr.SinkURIInvalid,
		"mysql://u:secret@host/db":   cdcerr.SinkURIInvalid,
		"mysql://u:secret@%zz/":      cdcerr.SinkURIInvalid,
		"tidb://u:secret@127.0.0.1:": cdcerr.MySQLConnection,
	} {
		uri := strings.Replace(uri, "127.0.0.1:", "127.0.0.1:1/?timeout=1s", 1) // port 1: nobody listens
		if _, err := downstream.Open(ctx, uri, downstream.Config{}); !code.Is(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
