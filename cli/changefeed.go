package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

const feedsPath = "/api/v2/changefeeds"

func (t *terminal) changefeedCommand() *cobra.Command {
	g := t.group("changefeed", "changefeeds")
	g.AddCommand(t.createCommand(), t.updateCommand(), t.listCommand(), t.queryCommand(), t.pauseCommand(), t.resumeCommand(),
		t.removeCommand(), t.statisticsCommand(), t.importCommand(), t.moveTableCommand(), t.historyCommand())
	for _, verb := range []string{"move-split-table", "split-table-by-region-count", "merge-table"} {
		c := t.command(verb, "not in this release", func(c *cobra.Command) error {
			return cdcerr.NotInRelease.New("%s: large tables are cut, merged and spread by their load (scheduler.enable-table-across-nodes); move-table moves a table with all its parts", c.CommandPath())
		})
		c.FParseErrWhitelist.UnknownFlags = true
		g.AddCommand(c)
	}
	return g
}

// oneFeed gives a command the flags that name a changefeed.
func oneFeed(c *cobra.Command) {
	c.Flags().StringP("changefeed-id", "c", "", "the changefeed's name")
	inSpace(c)
}

func inSpace(c *cobra.Command) {
	c.Flags().StringP("keyspace", "k", "", "the changefeed's keyspace (default)")
	c.Flags().StringP("namespace", "n", "", "the changefeed's namespace, another word for keyspace")
}

// space is the query that names the keyspace, nil where nothing was said.
func space(c *cobra.Command) url.Values {
	for _, flag := range []string{"keyspace", "namespace"} {
		if v := str(c, flag); v != "" {
			return url.Values{"keyspace": {v}}
		}
	}
	return nil
}

// feedPath is the path of the changefeed that the flags name.
func feedPath(c *cobra.Command, more string) string {
	return feedsPath + "/" + url.PathEscape(str(c, "changefeed-id")) + more
}

// summary is a changefeed in short, as TiCDC prints it.
type summary struct {
	State      string            `json:"state"`
	TSO        tso.TS            `json:"tso"`
	Checkpoint string            `json:"checkpoint"`
	Error      *api.RunningError `json:"error"`
}

const checkpointForm = "2006-01-02 15:04:05.000"

func when(ts tso.TS) string {
	if ts == 0 {
		return ""
	}
	return ts.Time().Format(checkpointForm)
}

func (t *terminal) listCommand() *cobra.Command {
	c := t.command("list", "list changefeeds", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		query := space(c)
		if query == nil {
			query = url.Values{}
		}
		if str(c, "all") == "true" {
			query.Set("state", "all")
		}
		var all api.List[api.FeedItem]
		if err := ask.ask(c.Context(), http.MethodGet, feedsPath, query, nil, &all); err != nil {
			return err
		}
		if t.forPeople() {
			t.listTable(all.Items)
			return nil
		}
		type item struct {
			ID        string  `json:"id"`
			Namespace string  `json:"namespace"`
			Summary   summary `json:"summary"`
		}
		out := []item{}
		for _, f := range all.Items {
			out = append(out, item{f.ID, f.Namespace, summary{f.State, f.CheckpointTSO, when(f.CheckpointTSO), f.Error}})
		}
		t.print(t.Out, out)
		return nil
	})
	c.Flags().BoolP("all", "a", false, "finished and removed ones too")
	inSpace(c)
	return c
}

func (t *terminal) queryCommand() *cobra.Command {
	c := t.command("query", "show a changefeed", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		var f api.FeedInfo
		if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, ""), space(c), nil, &f); err != nil {
			return err
		}
		if t.forPeople() {
			return t.queryTable(f)
		}
		if str(c, "simple") == "true" {
			t.print(t.Out, summary{f.State, f.CheckpointTS, when(f.CheckpointTS), f.Error})
		} else {
			t.print(t.Out, f)
		}
		return nil
	})
	oneFeed(c)
	c.Flags().BoolP("simple", "s", false, "state, checkpoint and error only")
	need(c, "changefeed-id")
	return c
}

func (t *terminal) pauseCommand() *cobra.Command {
	c := t.command("pause", "stop a changefeed", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		if err := ask.ask(c.Context(), http.MethodPost, feedPath(c, "/pause"), space(c), nil, nil); err != nil {
			return err
		}
		return t.done("Changefeed %s is stopped.", str(c, "changefeed-id"))
	})
	oneFeed(c)
	need(c, "changefeed-id")
	return c
}

func (t *terminal) removeCommand() *cobra.Command {
	c := t.command("remove", "remove a changefeed", t.remove)
	oneFeed(c)
	need(c, "changefeed-id")
	return c
}

func (t *terminal) remove(c *cobra.Command) error {
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	id := str(c, "changefeed-id")
	var f api.FeedInfo
	err = ask.ask(c.Context(), http.MethodGet, feedPath(c, ""), space(c), nil, &f)
	if cdcerr.ChangefeedNotFound.Is(err) {
		return t.done("Changefeed not found.\nID: %s", id)
	}
	if err != nil {
		return err
	}
	if err = ask.ask(c.Context(), http.MethodDelete, feedPath(c, ""), space(c), nil, nil); err != nil {
		return err
	}
	// Done is when it is gone, not when somebody has promised to remove it.
	for range removeTries {
		err = ask.ask(c.Context(), http.MethodGet, feedPath(c, "/status"), space(c), nil, nil)
		if cdcerr.ChangefeedNotFound.Is(err) {
			return t.done("Changefeed remove successfully.\nID: %s\nCheckpointTs: %d\nSinkURI: %s", id, f.CheckpointTS, f.SinkURI)
		}
		if err != nil {
			return err
		}
		select {
		case <-t.After(removeEvery):
		case <-c.Context().Done():
			return c.Context().Err()
		}
	}
	return cdcerr.ServerNotReady.New("changefeed %s is still there after %v: its sink may be busy", id, removeTries*removeEvery)
}

// A changefeed that is removed has a sink to close, which waits for what it is
// writing.
const (
	removeTries = 30
	removeEvery = time.Second
)

func (t *terminal) resumeCommand() *cobra.Command {
	c := t.command("resume", "go on with a changefeed that stands", t.resume)
	oneFeed(c)
	f := c.Flags()
	f.Bool("no-confirm", false, "do not ask")
	f.String("overwrite-checkpoint-ts", "", "go on from there instead: now, or a timestamp")
	f.BoolP("verbose", "v", false, "no effect")
	upstreamFlags(c)
	need(c, "changefeed-id")
	return c
}

func (t *terminal) resume(c *cobra.Command) error {
	if err := refuseUpstream(c); err != nil {
		return err
	}
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	var f api.FeedInfo
	if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, ""), space(c), nil, &f); err != nil {
		return err
	}
	now, err := ask.now(c)
	if cdcerr.PDUnreachable.Is(err) && str(c, "overwrite-checkpoint-ts") == "" {
		err = nil // whether it can be resumed without an upstream the owner knows
	}
	if err != nil {
		return err
	}
	from, in := f.CheckpointTS, api.ResumeFeed{}
	switch text := str(c, "overwrite-checkpoint-ts"); text {
	case "":
	case "now":
		in.OverwriteCheckpointTS, from = now, now
	default:
		ts, err := tso.Parse(text)
		if err != nil || ts == 0 {
			return cdcerr.CheckpointInvalid.New("--overwrite-checkpoint-ts %q is neither now nor a timestamp of TiDB", text)
		}
		if ts > now {
			return cdcerr.CheckpointInvalid.New("--overwrite-checkpoint-ts %d (%s) is in the future: the upstream is at %d", ts, when(ts), now)
		}
		in.OverwriteCheckpointTS, from = ts, ts
	}
	if in.OverwriteCheckpointTS != 0 {
		if err := t.confirm(c, fmt.Sprintf("Changefeed %s will go on from %s instead of %s: what lies between is lost, or comes twice.",
			f.ID, when(from), when(f.CheckpointTS))); err != nil {
			return err
		}
	}
	if err := t.confirmLag(c, now, from); err != nil {
		return err
	}
	if err := ask.ask(c.Context(), http.MethodPost, feedPath(c, "/resume"), space(c), in, nil); err != nil {
		return err
	}
	return t.done("Changefeed %s goes on.", f.ID)
}

// confirmLag asks whether so much is really to be caught up with.
func (t *terminal) confirmLag(c *cobra.Command, now, from tso.TS) error {
	lag := now.Sub(from)
	if lag <= 24*time.Hour {
		return nil
	}
	return t.confirm(c, fmt.Sprintf("Replication is %s behind, more than a day: catching up will load the upstream.", lag.Round(time.Second)))
}

// statistic is what one look at a changefeed tells.
type statistic struct {
	OPS   uint64 `json:"ops"`   // rows a second since the last look
	Count uint64 `json:"count"` // rows since the capture runs it
	// Gap is how far the checkpoint is behind the upstream.
	Gap        string `json:"replication_gap"`
	State      string `json:"state"`
	Checkpoint tso.TS `json:"checkpoint_ts"`
}

func (t *terminal) statisticsCommand() *cobra.Command {
	c := t.command("statistics", "how a changefeed gets on, again and again", t.statistics)
	oneFeed(c)
	c.Flags().UintP("interval", "I", 10, "seconds between looks")
	need(c, "changefeed-id")
	return c
}

func (t *terminal) statistics(c *cobra.Command) error {
	every, err := c.Flags().GetUint("interval")
	if err != nil || every == 0 {
		return cdcerr.InvalidArgument.New("--interval %s: want seconds, 1 at least", str(c, "interval"))
	}
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	var last *api.FeedStatus
	for {
		var f api.FeedStatus
		if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, "/status"), space(c), nil, &f); err != nil {
			return err
		}
		now, err := ask.now(c)
		if err != nil {
			return err
		}
		s := statistic{Count: f.Count, State: f.State, Checkpoint: f.CheckpointTS, Gap: now.Sub(f.CheckpointTS).Round(time.Millisecond).String()}
		if last != nil && f.Count >= last.Count {
			s.OPS = (f.Count - last.Count) / uint64(every)
		}
		t.print(t.Out, s)
		last = &f
		select {
		case <-t.After(time.Duration(every) * time.Second):
		case <-c.Context().Done():
			return nil // Ctrl-C is how it ends
		}
	}
}
