package cli

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/tso"
)

func (t *terminal) historyCommand() *cobra.Command {
	c := t.command("history", "show which timestamps of a changefeed have moved, and why", t.history)
	oneFeed(c)
	c.Flags().String("capture-id", "", "what has moved of this capture's share: spans, their regions, its schema")
	need(c, "changefeed-id")
	return c
}

func (t *terminal) history(c *cobra.Command) error {
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	if id := str(c, "capture-id"); id != "" {
		var h api.CaptureHistory
		if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, "/history/"+url.PathEscape(id)), space(c), nil, &h); err != nil {
			return err
		}
		if t.forPeople() {
			t.movesTable(h.Moves)
		} else {
			t.print(t.Out, h)
		}
		return nil
	}
	var h api.FeedHistory
	if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, "/history"), space(c), nil, &h); err != nil {
		return err
	}
	if t.forPeople() {
		t.movesTable(h.Moves)
		t.spansTable(h.Spans)
	} else {
		t.print(t.Out, h)
	}
	return nil
}

func (t *terminal) movesTable(all []api.Move) {
	lines := [][]string{{"WHAT", "TABLE", "REGION", "FROM", "TO", "TO (UTC)", "WHY"}}
	for _, m := range all {
		lines = append(lines, []string{m.Stage, number(m.TableID), number(int64(m.Region)), m.From.String(), m.To.String(), timeOf(m.To), m.Cause}) //nolint:gosec // regions are counted from 1
	}
	t.rows(lines)
}

func (t *terminal) spansTable(all []api.SpanMoved) {
	lines := [][]string{{"TABLE", "FROM", "TO", "PRIMARY", "SECONDARY", "CHECKPOINT", "WHY"}}
	for _, s := range all {
		lines = append(lines, []string{number(s.TableID), s.From, s.To, dash(s.Primary), dash(s.Secondary), s.CheckpointTS.String(), s.Cause})
	}
	t.rows(lines)
}

// number is an id, - where there is none.
func number(id int64) string {
	if id == 0 {
		return "-"
	}
	return strconv.FormatInt(id, 10)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// timeOf is when, - for what has no time.
func timeOf(ts tso.TS) string { return dash(when(ts)) }
