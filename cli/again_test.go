package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/cli"
)

// While nobody leads what only reads is asked again, as long as a session may take to run out
// and as often as the answer says; what changes something is not, nor what other errors say.
func TestReadsAreAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		command string
		code    *cdcerr.Code
		fails   int
		later   string
		status  int
		waits   []time.Duration
	}{
		{"an owner comes", "changefeed list", cdcerr.RequestForward, 2, "2", 0, []time.Duration{2 * time.Second, 2 * time.Second}},
		{"none comes", "changefeed list", cdcerr.OwnerNotFound, 100, "4", 3, []time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second}},
		{"it does not say when", "changefeed list", cdcerr.OwnerNotFound, 1, "soon", 0, []time.Duration{500 * time.Millisecond}},
		{"hours", "changefeed list", cdcerr.OwnerNotFound, 1, "3600", 0, []time.Duration{5 * time.Second}},
		{"an order", "changefeed pause -c x", cdcerr.OwnerNotFound, 1, "2", 3, nil},
		{"another error", "changefeed list", cdcerr.PDUnreachable, 1, "2", 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fails := c.fails
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if fails--; fails < 0 {
					fmt.Fprint(w, `{"total":0,"items":[]}`)
					return
				}
				w.Header().Set("Retry-After", c.later)
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintf(w, `{"error_msg":"[%s] a at 10.0.0.1:8300","error_code":"%s"}`, c.code.ID, c.code.ID)
			}))
			defer server.Close()
			var errs strings.Builder
			var waits []time.Duration
			status := cli.Main(t.Context(), append([]string{"cli"}, append(strings.Fields(c.command), "--server", server.URL)...), cli.Env{
				In: strings.NewReader(""), Out: io.Discard, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now,
				After: func(d time.Duration) <-chan time.Time {
					waits = append(waits, d)
					passed := make(chan time.Time, 1)
					passed <- time.Time{}
					return passed
				},
			})
			if status != c.status || !slices.Equal(waits, c.waits) {
				t.Errorf("status %d after %v, want %d after %v; %s", status, waits, c.status, c.waits, &errs)
			}
			if n := strings.Count(errs.String(), "asking again"); n != min(1, len(c.waits)) {
				t.Errorf("says %d times that it asks again: %s", n, &errs)
			}
		})
	}
}
