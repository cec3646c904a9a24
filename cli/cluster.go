package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

const defaultServer = "http://127.0.0.1:8300"

func (t *terminal) cliCommand() *cobra.Command {
	g := t.group("cli", "ask a server, any of the cluster")
	f := g.PersistentFlags()
	f.String("server", defaultServer, "address of a server, host:port or http(s)://host:port")
	f.String("pd", "", "no longer used to find a server; give --server")
	f.String("ca", "", "authority's certificate; TICDC_CA_PATH")
	f.String("cert", "", "own certificate; TICDC_CERT_PATH")
	f.String("key", "", "its key; TICDC_KEY_PATH")
	f.String("user", "", "TiDB user; TICDC_USER")
	f.String("password", "", "its password; TICDC_PASSWORD")
	f.String("log-level", "warn", "no effect: a command has no log")
	if p := f.Lookup("log-level"); p != nil {
		p.Hidden = true
	}
	g.AddCommand(t.changefeedCommand(), t.captureCommand(), t.processorCommand(), t.tsoCommand(), t.unsafeCommand(), t.credentialsCommand(), t.filterCheckCommand())
	return g
}

func (t *terminal) processorCommand() *cobra.Command {
	g := t.group("processor", "what captures do")
	g.AddCommand(t.command("list", "changefeeds by capture", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		var all api.List[api.Processor]
		if err := ask.ask(c.Context(), http.MethodGet, "/api/v2/processors", nil, nil, &all); err != nil {
			return err
		}
		type text struct {
			Namespace  string `json:"namespace"`
			Changefeed string `json:"changefeed-id"`
			Capture    string `json:"capture-id"`
		}
		out := []text{}
		for _, p := range all.Items {
			out = append(out, text{p.Namespace, p.ChangefeedID, p.CaptureID})
		}
		t.print(t.Out, out)
		return nil
	}))
	query := t.command("query", "the tables that a capture replicates", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		var out api.ProcessorDetail
		path := fmt.Sprintf("/api/v2/processors/%s/%s", url.PathEscape(str(c, "changefeed-id")), url.PathEscape(str(c, "capture-id")))
		if err := ask.ask(c.Context(), http.MethodGet, path, space(c), nil, &out); err != nil {
			return err
		}
		t.print(t.Out, out)
		return nil
	})
	query.Flags().StringP("capture-id", "p", "", "the capture's id")
	oneFeed(query)
	need(query, "capture-id", "changefeed-id")
	g.AddCommand(query)
	return g
}

// need makes flags of a command required.
func need(c *cobra.Command, flags ...string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, name := range flags {
			if str(c, name) == "" {
				return cdcerr.InvalidArgument.New("%s: --%s is missing", c.CommandPath(), name)
			}
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func (t *terminal) tsoCommand() *cobra.Command {
	g := t.group("tso", "timestamps")
	g.AddCommand(t.command("query", "the upstream's present", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		now, err := ask.now(c)
		if err != nil {
			return err
		}
		if t.output == "json" {
			t.print(t.Out, map[string]any{"tso": now, "time": now.Time()})
		} else {
			fmt.Fprintln(t.Out, uint64(now))
		}
		return nil
	}))
	return g
}

// now is the upstream's present.
func (c *client) now(cmd *cobra.Command) (tso.TS, error) {
	var out api.Timestamp
	err := c.ask(cmd.Context(), http.MethodPost, "/api/v2/tso", nil, nil, &out)
	return tso.New(out.Physical, out.Logical), err
}

func (t *terminal) unsafeCommand() *cobra.Command {
	g := t.group("unsafe", "what can lose data, or shows everything")
	g.AddCommand(t.command("show-metadata", "every key of the metadata", func(c *cobra.Command) error {
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		var out []api.Pair
		if err := ask.ask(c.Context(), http.MethodGet, "/api/v2/unsafe/metadata", nil, nil, &out); err != nil {
			return err
		}
		if t.output == "json" {
			t.print(t.Out, out)
			return nil
		}
		for _, p := range out {
			fmt.Fprintf(t.Out, "Key: %s, Value: %s\n", p.Key, p.Value)
		}
		return nil
	}), t.resolveLockCommand(), t.deleteSafepointCommand(), t.resetCommand(), t.verifySafepointCommand())
	return g
}

func (t *terminal) resolveLockCommand() *cobra.Command {
	c := t.command("resolve-lock", "end the locks that transactions left in a region", func(c *cobra.Command) error {
		if err := refuseUpstream(c); err != nil {
			return err
		}
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		region, err := strconv.ParseUint(str(c, "region"), 10, 64)
		if err != nil || region == 0 {
			return cdcerr.InvalidArgument.New("--region %q is no region's number", str(c, "region"))
		}
		in := api.ResolveLock{RegionID: region}
		if text := str(c, "ts"); text != "" {
			if in.TS, err = timestamp("--ts", text); err != nil {
				return err
			}
		}
		if err := ask.ask(c.Context(), http.MethodPost, "/api/v2/unsafe/resolve_lock", nil, in, nil); err != nil {
			return err
		}
		return t.done("the locks of region %d are ended", region)
	})
	c.Flags().String("region", "", "the region's number")
	c.Flags().String("ts", "", "only of transactions that began before (a minute ago, where it is not given)")
	upstreamFlags(c)
	need(c, "region")
	return c
}

// done tells what was done: to a person in words, to a program as {}.
func (t *terminal) done(format string, args ...any) error {
	if t.output == "json" {
		t.print(t.Out, api.Empty{})
		return nil
	}
	t.say(format, args...)
	return nil
}

// timestamp reads one that an operator wrote.
func timestamp(flag, text string) (tso.TS, error) {
	ts, err := tso.Parse(text)
	if err != nil {
		return 0, cdcerr.InvalidArgument.New("%s %q is no timestamp of TiDB: want a number such as 449139450347847680 (sluice cli tso query prints the present)", flag, text)
	}
	return ts, nil
}

func (t *terminal) deleteSafepointCommand() *cobra.Command {
	c := t.command("delete-service-gc-safepoint", "give up the hold on the upstream's garbage collection", func(c *cobra.Command) error {
		if err := refuseUpstream(c); err != nil {
			return err
		}
		ask, err := t.client(c)
		if err != nil {
			return err
		}
		if err := t.confirm(c, "Without the hold TiDB may collect what changefeeds still have to read, and they fail for good."); err != nil {
			return err
		}
		if err := ask.ask(c.Context(), http.MethodDelete, "/api/v2/unsafe/service_gc_safepoint", nil, nil, nil); err != nil {
			return err
		}
		return t.done("the hold is given up; the next changefeed that runs takes it again")
	})
	upstreamFlags(c)
	c.Flags().Bool("no-confirm", false, "do not ask")
	return c
}

func (t *terminal) verifySafepointCommand() *cobra.Command {
	c := t.command("verify-gc-safepoint", "not in this release", func(c *cobra.Command) error {
		return cdcerr.NotInRelease.New("%s: pd-ctl service-gc-safepoint shows the hold", c.CommandPath())
	})
	c.FParseErrWhitelist.UnknownFlags = true
	return c
}

// confirm asks a person, unless told not to.
func (t *terminal) confirm(c *cobra.Command, warning string) error {
	if yes := str(c, "no-confirm"); yes == "true" {
		return nil
	}
	fmt.Fprintf(t.Err, "%s Go on? [Y/N] ", warning)
	line, err := t.line(c.Context())
	if c.Context().Err() != nil {
		fmt.Fprintln(t.Err)
		return cdcerr.Aborted.New("interrupted")
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	if answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil && answer == "" {
		fmt.Fprintln(t.Err)
		return cdcerr.Aborted.New("nobody answered; --no-confirm goes on without asking")
	}
	return cdcerr.Aborted.New("nothing was changed")
}

// line is the next one that the operator types. Ctrl-C ends the waiting for it. Nobody
// can end a read from a terminal, so that the group is not waited for then: what reads
// on ends with the process.
func (t *terminal) line(ctx context.Context) (string, error) {
	type typed struct {
		line string
		err  error
	}
	next := make(chan typed, 1)
	g := new(errgroup.Group)
	g.Go(func() error {
		line, err := t.in.ReadString('\n')
		next <- typed{line, err}
		return nil
	})
	select {
	case n := <-next:
		return n.line, n.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (t *terminal) credentialsCommand() *cobra.Command {
	return t.command("configure-credentials", "keep user and password for later commands", func(c *cobra.Command) error {
		path := t.credentialsFile()
		if path == "" {
			return cdcerr.InvalidArgument.New("this user has no home folder; set TICDC_USER and TICDC_PASSWORD instead")
		}
		who, err := t.credentials(c)
		if err != nil {
			return err
		}
	questions:
		for i, q := range []struct {
			ask string
			to  *string
		}{{"TiDB user", &who.User}, {"password", &who.Password}, {"CA file", &who.CA}, {"certificate file", &who.Cert}, {"key file", &who.Key}} {
			fmt.Fprintf(t.Err, "%s (Enter keeps what is there): ", q.ask)
			line, err := t.line(c.Context())
			if c.Context().Err() != nil {
				fmt.Fprintln(t.Err)
				return cdcerr.Aborted.New("interrupted, nothing was written")
			}
			if v := strings.TrimSpace(line); v != "" {
				*q.to = v
			}
			switch {
			case err != nil && i == 0 && line == "":
				fmt.Fprintln(t.Err)
				return cdcerr.Aborted.New("nobody answered, nothing was written")
			case err != nil:
				break questions // whoever closes the input keeps the rest
			}
		}
		text, err := who.text()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return cdcerr.InvalidArgument.Wrap(err, "credentials")
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return cdcerr.InvalidArgument.Wrap(err, "credentials")
		}
		return t.done("kept in %s", path)
	})
}
