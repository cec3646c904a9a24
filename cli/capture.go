package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// captureText is a member as TiCDC prints it.
type captureText struct {
	ID        string `json:"id"`
	IsOwner   bool   `json:"is-owner"`
	Address   string `json:"address"`
	ClusterID string `json:"cluster-id"`
}

func (t *terminal) captureCommand() *cobra.Command {
	g := t.group("capture", "the members of the cluster")
	g.AddCommand(t.command("list", "list them", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		var all api.List[api.Capture]
		if err := ask.ask(c.Context(), http.MethodGet, "/api/v2/captures", nil, nil, &all); err != nil {
			return err
		}
		if t.forPeople() {
			lines := [][]string{{"ID", "ADDRESS", "OWNER", "CLUSTER"}}
			for _, i := range all.Items {
				lines = append(lines, []string{i.ID, i.Address, strconv.FormatBool(i.IsOwner), i.ClusterID})
			}
			t.rows(lines)
			return nil
		}
		out := []captureText{}
		for _, i := range all.Items {
			out = append(out, captureText(i))
		}
		t.print(t.Out, out)
		return nil
	}), t.drainCommand())
	return g
}

func (t *terminal) drainCommand() *cobra.Command {
	c := t.command("drain", "take a capture's tables away, until it has none", t.drain)
	c.Flags().StringP("capture-id", "p", "", "the capture's id; capture list prints them")
	c.Flags().Bool("wait", true, "ask again until the capture has no table")
	c.Flags().Duration("timeout", 0, "wait no longer than this; 0: until it is done")
	c.Flags().Bool("undo", false, "let the capture have tables again")
	need(c, "capture-id")
	return c
}

// How often is asked what is left, and how often at least is said what is waited for.
// While there is no owner nobody can be asked: an election takes seconds.
const (
	drainEvery = time.Second
	drainSay   = 10 // questions
	awayMost   = 60 // in a row
)

func (t *terminal) drain(c *cobra.Command) error {
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	id := str(c, "capture-id")
	path := "/api/v2/captures/" + url.PathEscape(id) + "/drain"
	if str(c, "undo") == "true" {
		if err := ask.ask(c.Context(), http.MethodDelete, path, nil, nil, nil); err != nil {
			return err
		}
		return t.done("Capture %s may have tables again.", id)
	}
	most, err := c.Flags().GetDuration("timeout")
	if err != nil || most < 0 {
		return cdcerr.InvalidArgument.New("--timeout %s: how long to wait, such as 10m; 0 is until it is done", str(c, "timeout"))
	}
	said, away, begun := "", 0, false
	for asked := 0; ; asked++ {
		var now api.Drained
		err := ask.ask(c.Context(), http.MethodPost, path, nil, nil, &now)
		over := most > 0 && time.Duration(asked+1)*drainEvery > most // before the next question
		switch {
		case begun && cdcerr.CaptureNotFound.Is(err):
			return t.done("Capture %s has left the cluster.", id)
		case err != nil && (status(err) != StatusAway || away == awayMost || over || !begun && cdcerr.ServerUnreachable.Is(err)):
			return err
		case err != nil:
			if away++; away == 1 {
				t.warn("%v; asking again", err)
			}
		case now.CurrentTableCount == 0:
			return t.done("Capture %s has no table.", id)
		default:
			away, begun = 0, true
			text := remain(now)
			if text != said || asked%drainSay == 0 {
				said = text
				t.say("Capture %s has %s.", id, text)
			}
			if str(c, "wait") == "false" {
				return t.done("They are taken away until it has none.")
			}
			if over {
				return cdcerr.SchedulerRequest.New("capture %s has %s after %s; they are taken away all the same: ask again, or end it with --undo", id, text, most)
			}
		}
		select {
		case <-t.After(drainEvery):
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
}

// remain is what a capture has left, and what that waits for.
func remain(left api.Drained) string {
	if left.Reason == "" {
		return fmt.Sprintf("%d tables left", left.CurrentTableCount)
	}
	return fmt.Sprintf("%d tables left: %s", left.CurrentTableCount, left.Reason)
}

func (t *terminal) moveTableCommand() *cobra.Command {
	c := t.command("move-table", "move a table to another capture", t.moveTable)
	oneFeed(c)
	f := c.Flags()
	f.StringP("table-id", "t", "", "the table's number; processor query prints those of a capture")
	f.StringP("target-node-id", "d", "", "the capture that is to have it; capture list prints them")
	f.String("mode", "0", "0: the tables that rows are written of")
	f.Bool("wait", true, "end when the table is there")
	need(c, "changefeed-id", "table-id", "target-node-id")
	return c
}

func (t *terminal) moveTable(c *cobra.Command) error {
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	query := space(c)
	if query == nil {
		query = url.Values{}
	}
	query.Set("tableID", str(c, "table-id"))
	query.Set("targetNodeID", str(c, "target-node-id"))
	query.Set("mode", str(c, "mode"))
	query.Set("wait", str(c, "wait"))
	if err := ask.ask(c.Context(), http.MethodPost, feedPath(c, "/move_table"), query, nil, nil); err != nil {
		return err
	}
	if str(c, "wait") == "false" {
		return t.done("Table %s is on its way to capture %s.", str(c, "table-id"), str(c, "target-node-id"))
	}
	return t.done("Table %s is on capture %s.", str(c, "table-id"), str(c, "target-node-id"))
}
