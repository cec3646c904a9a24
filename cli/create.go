package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/tso"
)

// settingFlags are those that create and update share.
func settingFlags(c *cobra.Command) {
	f := c.Flags()
	f.String("sink-uri", "", "where to replicate to, such as mysql://user:password@host:3306/; - has it typed or piped, unseen by ps")
	f.String("config", "", "TOML file of the changefeed")
	f.String("target-ts", "", "end after this timestamp")
	f.String("schema-registry", "", "URL of a schema registry")
	f.Bool("no-confirm", false, "do not ask")
	f.BoolP("verbose", "v", false, "no effect")
	for _, old := range []string{"tz", "sort-engine", "sort-dir"} {
		f.String(old, "", "no effect")
		hide(c, old)
	}
	upstreamFlags(c)
}

// upstreamFlags are TiCDC's for clusters that follow many upstreams.
func upstreamFlags(c *cobra.Command) {
	for _, flag := range []string{"upstream-pd", "upstream-ca", "upstream-cert", "upstream-key"} {
		c.Flags().String(flag, "", "not in this release")
		hide(c, flag)
	}
}

func refuseUpstream(c *cobra.Command) error {
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "upstream-") {
			err = cdcerr.NotInRelease.New("--%s: a cluster of Sluice follows one upstream, the one that its servers were started with", f.Name)
		}
	})
	return err
}

// warnOld names the flags that were given and have no effect.
func (t *terminal) warnOld(c *cobra.Command) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"tz", "sort-engine", "sort-dir"}, f.Name) {
			t.warn("--%s has no effect", f.Name)
		}
	})
}

// sinkURI is the one that the flag gives. Other users of the machine see flags, and a
// password may be in this one: - has it typed, or piped.
func (t *terminal) sinkURI(c *cobra.Command) (string, error) {
	uri := str(c, "sink-uri")
	if uri != "-" {
		return uri, nil
	}
	fmt.Fprint(t.Err, "sink URI: ")
	line, err := t.line(c.Context())
	fmt.Fprintln(t.Err)
	if uri = strings.TrimSpace(line); uri == "" {
		return "", cdcerr.SinkURIInvalid.New("--sink-uri -: nothing was typed (%v)", err)
	}
	return uri, nil
}

func (t *terminal) createCommand() *cobra.Command {
	c := t.command("create", "create a changefeed", t.create)
	oneFeed(c)
	settingFlags(c)
	f := c.Flags()
	f.String("start-ts", "", "replicate what was committed after this timestamp (now)")
	f.Bool("disable-gc-check", false, "no effect: a start-ts that GC has passed cannot be read")
	f.Bool("dry-run", false, "show what would be replicated, and create nothing")
	need(c, "sink-uri")
	return c
}

// creation is what the flags and the file ask for.
func (t *terminal) creation(c *cobra.Command) (in api.CreateFeed, config settings, err error) {
	if err = refuseUpstream(c); err != nil {
		return in, config, err
	}
	t.warnOld(c)
	in.ID, in.Keyspace = str(c, "changefeed-id"), space(c).Get("keyspace")
	if in.SinkURI, err = t.sinkURI(c); err != nil {
		return in, config, err
	}
	if config, err = t.settings(c); err != nil {
		return in, config, err
	}
	for flag, to := range map[string]*tso.TS{"start-ts": &in.StartTS, "target-ts": &in.TargetTS} {
		if text := str(c, flag); text != "" {
			if *to, err = timestamp("--"+flag, text); err != nil {
				return in, config, err
			}
		}
	}
	in.ReplicaConfig, err = config.request()
	return in, config, err
}

func (t *terminal) create(c *cobra.Command) error {
	in, config, err := t.creation(c)
	if err != nil {
		return err
	}
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	now, err := ask.now(c)
	if err != nil {
		return err
	}
	if in.StartTS == 0 {
		in.StartTS = now
	}
	switch {
	case in.StartTS > now:
		return cdcerr.InvalidArgument.New("--start-ts %d (%s) is in the future: the upstream is at %d", in.StartTS, when(in.StartTS), now)
	case in.TargetTS != 0 && in.TargetTS <= in.StartTS:
		return cdcerr.TargetTSInvalid.New("--target-ts %d (%s), start-ts %d (%s)", in.TargetTS, when(in.TargetTS), in.StartTS, when(in.StartTS))
	}
	var tables api.Tables
	if err := ask.ask(c.Context(), http.MethodPost, "/api/v2/verify_table", nil, in, &tables); err != nil {
		return err
	}
	if err := t.warnIdle(config, in.SinkURI, tables.Notes, &tables); err != nil {
		return err
	}
	for _, statement := range tables.BegunDDLs {
		t.warn("a DDL was under way at the start-ts and counts as carried out, downstream has to have it: %s", statement)
	}
	if str(c, "dry-run") == "true" {
		t.showTables(tables)
		return nil
	}
	if err := t.confirmLag(c, now, in.StartTS); err != nil {
		return err
	}
	if err := t.confirmTables(c, tables, config.clear); err != nil {
		return err
	}
	if in.ReplicaConfig, err = config.request(); err != nil {
		return err
	}
	var f api.FeedInfo
	if err := ask.ask(c.Context(), http.MethodPost, feedsPath, nil, in, &f); err != nil {
		return err
	}
	if err := t.shown("Create changefeed successfully!", f); err != nil {
		return err
	}
	t.say("It replicates what is committed after %s UTC. How it gets on: sluice cli changefeed query -s -c %s%s", when(f.StartTS), f.ID, elsewhere(f.Keyspace))
	return nil
}

// elsewhere is the flag without which a changefeed is not found, if there is one.
func elsewhere(keyspace string) string {
	if keyspace == "" || keyspace == changefeed.DefaultNamespace {
		return ""
	}
	return " -k " + keyspace
}

// shown prints a changefeed as TiCDC does after it was made or changed.
func (t *terminal) shown(headline string, f api.FeedInfo) error {
	if t.output == "json" {
		t.print(t.Out, f)
		return nil
	}
	f.Notes = nil // they are said as warnings
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return cdcerr.Bug("%v", err)
	}
	fmt.Fprintf(t.Out, "%s\nID: %s\nInfo: %s", headline, f.ID, line.String())
	return nil
}

// confirmTables asks about tables that cannot be replicated. Whoever does not want
// to be asked has said yes, as to TiCDC.
func (t *terminal) confirmTables(c *cobra.Command, tables api.Tables, config map[string]any) error {
	if len(tables.Ineligible) == 0 || config["ignore_ineligible_table"] == true || config["force_replicate"] == true {
		return nil
	}
	t.warn("tables without a usable key, which cannot be replicated: %d", len(tables.Ineligible))
	for _, b := range tables.Ineligible {
		t.warn("  %s.%s: %s", b.Schema, b.Table, b.Reason)
	}
	if err := t.confirm(c, "They will be left out."); err != nil {
		return err
	}
	config["ignore_ineligible_table"] = true
	return nil
}

// showTables is what a dry run tells.
func (t *terminal) showTables(tables api.Tables) {
	if t.output == "json" {
		t.print(t.Out, tables)
		return
	}
	fmt.Fprintf(t.Out, "Tables that would be replicated: %d\n", len(tables.Eligible))
	for _, b := range tables.Eligible {
		fmt.Fprintf(t.Out, "  %s.%s\n", b.Schema, b.Table)
	}
	if len(tables.Ineligible) > 0 {
		fmt.Fprintf(t.Out, "Tables that match and could not be replicated: %d\n", len(tables.Ineligible))
		for _, b := range tables.Ineligible {
			fmt.Fprintf(t.Out, "  %s.%s: %s\n", b.Schema, b.Table, b.Reason)
		}
	}
	fmt.Fprintln(t.Out, "Nothing was created.")
}

func (t *terminal) updateCommand() *cobra.Command {
	c := t.command("update", "change a changefeed that stands", t.update)
	oneFeed(c)
	settingFlags(c)
	need(c, "changefeed-id")
	return c
}

func (t *terminal) update(c *cobra.Command) error {
	if err := refuseUpstream(c); err != nil {
		return err
	}
	t.warnOld(c)
	var in api.UpdateFeed
	if uri, err := t.sinkURI(c); err != nil {
		return err
	} else if uri != "" {
		in.SinkURI = &uri
	}
	var err error
	if in.TargetTS, err = newTarget(c); err != nil {
		return err
	}
	config, err := t.settings(c)
	if err != nil {
		return err
	}
	if in.ReplicaConfig, err = config.request(); err != nil {
		return err
	}
	if in.SinkURI == nil && in.TargetTS == nil && config.empty() {
		return nothingToChange(c)
	}
	ask, err := t.client(c)
	if err != nil {
		return err
	}
	var was api.FeedInfo
	if err := ask.ask(c.Context(), http.MethodGet, feedPath(c, ""), space(c), nil, &was); err != nil {
		return err
	}
	if in.SinkURI != nil && *in.SinkURI == was.SinkURI {
		in.SinkURI = nil // as it was shown: its secrets stay too
	}
	lines, err := changes(was, in, config)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return t.done("Changefeed %s is like that already.", was.ID)
	}
	if state := changefeed.State(was.State); state != changefeed.Stopped && state != changefeed.Failed && state != changefeed.Finished {
		return cdcerr.UpdateRefused.New("changefeed %s is %s, it cannot be updated", was.ID, state)
	}
	asks := str(c, "no-confirm") != "true"
	if asks {
		t.showChanges(was.ID, lines)
	}
	if err := t.confirm(c, "They will be applied."); err != nil {
		return err
	}
	var f api.FeedInfo
	if err := ask.ask(c.Context(), http.MethodPut, feedPath(c, ""), space(c), in, &f); err != nil {
		return err
	}
	if !asks {
		t.showChanges(was.ID, lines)
	}
	// What is masked in it is of no account to the keys.
	if err := t.warnIdle(config, strings.ReplaceAll(f.SinkURI, "xxxxx", "hidden"), f.Notes, nil); err != nil {
		return err
	}
	return t.shown("Update changefeed config successfully!", f)
}

// newTarget is the target-ts that an update is given, nil for none; 0 takes it away.
func newTarget(c *cobra.Command) (*tso.TS, error) {
	text := str(c, "target-ts")
	if text == "" {
		return nil, nil
	}
	ts, err := timestamp("--target-ts", text)
	if ts == 0 {
		ts = api.NoTarget
	}
	return &ts, err
}

func nothingToChange(c *cobra.Command) error {
	if file := str(c, "config"); file != "" {
		return cdcerr.InvalidArgument.New("%s: nothing to change: %s says nothing, and keys that a file does not have stay as they are", c.CommandPath(), file)
	}
	return cdcerr.InvalidArgument.New("%s: nothing to change: give --sink-uri, --target-ts or --config", c.CommandPath())
}

// showChanges lists what an update changes: to whoever is asked before it is done,
// else when it is.
func (t *terminal) showChanges(id string, lines []string) {
	if t.output == "json" {
		return
	}
	fmt.Fprintf(t.Err, "Changes of changefeed %s:\n", id)
	for _, line := range lines {
		fmt.Fprintf(t.Err, "  %s\n", line)
	}
}
