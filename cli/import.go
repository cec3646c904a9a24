package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// What became of a changefeed of TiCDC's.
const (
	importDone  = "imported"      // it is here, stopped
	importWould = "importable"    // a dry run found nothing against it
	importHere  = "here-already"  // one of its name is here; it is left as it is
	importOver  = "over"          // it is finished in TiCDC, or removed
	importNot   = "not-imported"  // Error says why
	importAsked = "not-confirmed" // nobody has been asked yet
)

const (
	dryRunHead   = "Nothing was created."
	resumeRemark = "Each stands here and holds what it has still to read (gc-ttl of the server, a day by default).\n" +
		"Next, one by one: remove it in TiCDC (cdc cli changefeed remove -c NAME), then sluice cli changefeed resume -c NAME.\n" +
		"docs/migrate.md has every step, and the way back."
)

// foreignFeed is what is told of one changefeed of TiCDC's.
type foreignFeed struct {
	Namespace  string   `json:"namespace"`
	ID         string   `json:"id"`
	State      string   `json:"ticdc_state"`
	Trouble    string   `json:"ticdc_error,omitempty"`
	Checkpoint tso.TS   `json:"checkpoint_ts"`
	At         api.Time `json:"checkpoint_time"`
	TargetTS   tso.TS   `json:"target_ts,omitempty"`
	SinkURI    string   `json:"sink_uri"` // masked
	Tables     int      `json:"tables"`   // that are replicated
	// Notes are what does not come along, or does nothing here.
	Notes   []string       `json:"notes"`
	Outcome string         `json:"outcome"`
	Error   *api.ErrorBody `json:"error,omitempty"`

	request api.CreateFeed
	err     error
}

// foreignCluster is what is told of all of them.
type foreignCluster struct {
	ClusterID string         `json:"ticdc_cluster_id"`
	Captures  []string       `json:"ticdc_captures"` // that are alive
	DryRun    bool           `json:"dry_run"`
	Feeds     []*foreignFeed `json:"changefeeds"`
}

func (t *terminal) importCommand() *cobra.Command {
	c := t.command("import", "take over TiCDC's changefeeds, each stopped at its checkpoint", t.importFeeds)
	f := c.Flags()
	f.Bool("from-ticdc", false, "read what TiCDC keeps in the etcd of the PD that --pd gives")
	f.String("ticdc-cluster-id", "default", "TiCDC's --cluster-id")
	f.StringSliceP("changefeed-id", "c", nil, "only these; comma between, or given again")
	inSpace(c)
	f.Bool("dry-run", false, "show what would come over, and create nothing")
	f.Bool("no-confirm", false, "do not ask")
	return c
}

func (t *terminal) importFeeds(c *cobra.Command) error {
	if str(c, "from-ticdc") != "true" {
		return cdcerr.InvalidArgument.New("%s: --from-ticdc is missing: there is nothing else to import from", c.CommandPath())
	}
	found, feeds, err := t.foreign(c)
	if err != nil {
		return err
	}
	who, err := t.credentials(c)
	if err != nil {
		return err
	}
	ask, err := t.connect(c, who)
	if err != nil {
		return err
	}
	out := foreignCluster{ClusterID: str(c, "ticdc-cluster-id"), Captures: found.Captures, DryRun: str(c, "dry-run") == "true"}
	if out.Captures == nil {
		out.Captures = []string{}
	}
	wanted := 0
	for _, kept := range feeds {
		f := t.judge(c, ask, kept, len(found.Captures) > 0)
		out.Feeds = append(out.Feeds, f)
		if f.Outcome == importAsked {
			wanted++
		}
	}
	if out.DryRun || wanted == 0 {
		for _, f := range out.Feeds {
			if f.Outcome == importAsked {
				f.Outcome = importWould
			}
		}
		t.showImport(out)
		return out.failure()
	}
	if str(c, "no-confirm") != "true" {
		t.describe(t.Err, out) // to whoever is asked, whatever the form of the answer
		if err := t.confirm(c, fmt.Sprintf("%d will be created here, stopped.", wanted)); err != nil {
			return err
		}
		if err := t.lookAgain(c, &out, feeds); err != nil {
			return err
		}
	}
	for _, f := range out.Feeds {
		if f.Outcome != importAsked {
			continue
		}
		f.Outcome = importDone
		if err := ask.ask(c.Context(), http.MethodPost, feedsPath, nil, f.request, nil); err != nil {
			f.refuse(err)
		}
	}
	t.showImport(out)
	return out.failure()
}

// lookAgain refuses what was changed in TiCDC while somebody thought about it.
func (t *terminal) lookAgain(c *cobra.Command, out *foreignCluster, was []meta.TiCDCFeed) error {
	_, now, err := t.foreign(c)
	if err != nil {
		return err
	}
	for i, f := range out.Feeds {
		same := slices.ContainsFunc(now, func(n meta.TiCDCFeed) bool {
			return n.ID == was[i].ID && bytes.Equal(n.Info, was[i].Info) && bytes.Equal(n.Status, was[i].Status)
		})
		if f.Outcome == importAsked && !same {
			f.refuse(cdcerr.UpdateRefused.New("it was changed in TiCDC after it was shown here: import it again"))
		}
	}
	return nil
}

// foreign reads TiCDC's keys and picks the changefeeds that are asked for.
func (t *terminal) foreign(c *cobra.Command) (*meta.TiCDC, []meta.TiCDCFeed, error) {
	who, err := t.credentials(c)
	if err != nil {
		return nil, nil, err
	}
	cfg := meta.Default()
	cfg.Endpoints = parts(str(c, "pd"))
	cfg.TLS = meta.TLS{CA: who.CA, Cert: who.Cert, Key: who.Key}
	if len(cfg.Endpoints) == 0 {
		return nil, nil, cdcerr.InvalidArgument.New("%s: --pd is missing: TiCDC keeps its changefeeds in PD's etcd", c.CommandPath())
	}
	if err := answers(c.Context(), cfg.Endpoints); err != nil {
		return nil, nil, err
	}
	found, err := meta.ReadTiCDC(c.Context(), cfg, str(c, "ticdc-cluster-id"))
	if err != nil {
		return nil, nil, err
	}
	only, err := c.Flags().GetStringSlice("changefeed-id")
	if err != nil {
		return nil, nil, cdcerr.InvalidArgument.Wrap(err, "--changefeed-id")
	}
	namespace := space(c).Get("keyspace")
	missing := slices.Clone(only)
	var feeds []meta.TiCDCFeed
	var names []string
	for _, f := range found.Feeds {
		names = append(names, f.ID.Name)
		if (namespace == "" || f.ID.Namespace == namespace) && (len(only) == 0 || slices.Contains(only, f.ID.Name)) {
			feeds = append(feeds, f)
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == f.ID.Name })
		}
	}
	switch {
	case len(missing) > 0:
		return nil, nil, cdcerr.ChangefeedNotFound.New("TiCDC has no changefeed %q%s", missing[0], meant(missing[0], names))
	case len(feeds) == 0 && namespace != "":
		return nil, nil, cdcerr.ChangefeedNotFound.New("TiCDC has no changefeed in namespace %q", namespace)
	}
	return found, feeds, nil
}

// dialWait is how long a connection to PD may take before the next one is tried.
const dialWait = 3 * time.Second

// answers tells whether anybody listens there. The client of etcd would try for long,
// and then say of a connection that is refused that the time is over.
func answers(ctx context.Context, endpoints []string) error {
	var hosts []string
	for _, endpoint := range endpoints {
		host := endpoint
		if scheme, rest, ok := strings.Cut(endpoint, "://"); ok && (scheme == "http" || scheme == "https") {
			host = strings.TrimSuffix(rest, "/")
		}
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return cdcerr.InvalidArgument.New("--pd %q is not host:port, http://host:port or https://host:port", endpoint)
		}
		hosts = append(hosts, host)
	}
	var all error
	for _, host := range hosts {
		conn, err := (&net.Dialer{Timeout: dialWait}).DialContext(ctx, "tcp", host)
		if err == nil {
			return conn.Close()
		}
		all = errors.Join(all, err)
	}
	return cdcerr.MetaUnreachable.Wrap(all, "--pd")
}

// judge finds out whether one of TiCDC's changefeeds can come over. alive tells
// whether TiCDC has servers.
func (t *terminal) judge(c *cobra.Command, ask *client, kept meta.TiCDCFeed, alive bool) *foreignFeed {
	out := &foreignFeed{Namespace: kept.ID.Namespace, ID: kept.ID.Name, Notes: []string{}, Outcome: importAsked}
	f, err := changefeed.FromTiCDC(changefeed.ID{Namespace: kept.ID.Namespace, Name: kept.ID.Name}, kept.Info, kept.Status)
	if err != nil {
		return out.refuse(err)
	}
	info := f.Info
	out.State, out.Trouble, out.Checkpoint, out.At = string(f.State), f.Trouble, f.Checkpoint, api.Time(f.Checkpoint.Time())
	out.TargetTS, out.SinkURI = info.TargetTS, info.SinkURI.String()
	if f.State == changefeed.Finished || f.State == changefeed.Removed {
		out.Outcome = importOver
		return out
	}
	for _, key := range f.Unknown {
		out.Notes = append(out.Notes, key+" is not known here and is not taken over")
	}
	if f.State.Running() || f.State == changefeed.Pending {
		if alive {
			return out.refuse(cdcerr.UpdateRefused.New("it is %s in TiCDC, and both would write: cdc cli changefeed pause -c %s, then import again", f.State, out.ID))
		}
		out.Notes = append(out.Notes, fmt.Sprintf("it is %s in TiCDC, which has no server now: remove it there before one is started again, or both will write", f.State))
	}
	notes, err := info.Config.Check(info.SinkURI)
	if err != nil {
		return out.refuse(err)
	}
	out.Notes = append(out.Notes, notes...)
	return t.tryImport(c, ask, out, info)
}

// tryImport asks the server what it would make of it. Tables without a key are left
// out, as TiCDC leaves them out of a changefeed that runs.
func (t *terminal) tryImport(c *cobra.Command, ask *client, out *foreignFeed, info changefeed.Info) *foreignFeed {
	in := api.CreateFeed{ID: out.ID, Keyspace: out.Namespace, StartTS: out.Checkpoint, TargetTS: info.TargetTS, SinkURI: info.SinkURI.Reveal(),
		Paused: true, UpstreamID: info.UpstreamID}
	said := info.Config.IgnoreIneligibleTable
	info.Config.IgnoreIneligibleTable = true
	var err error
	if in.ReplicaConfig, err = info.Config.Reveal(); err != nil {
		return out.refuse(err)
	}
	var tables api.Tables
	err = ask.ask(c.Context(), http.MethodPost, "/api/v2/verify_table", nil, in, &tables)
	if cdcerr.ChangefeedExists.Is(err) {
		out.Outcome = importHere
		return out
	}
	if err != nil {
		return out.refuse(err)
	}
	if len(tables.BegunDDLs) > 0 {
		return out.refuse(cdcerr.UpdateRefused.New("at its checkpoint a DDL was under way that TiCDC has not carried out, and that would count as carried out here: %s; "+
			"let it go on in TiCDC, wait until the DDL is done, pause it, then import again", strings.Join(tables.BegunDDLs, "; ")))
	}
	for _, note := range tables.Notes {
		if !slices.Contains(out.Notes, note) {
			out.Notes = append(out.Notes, note)
		}
	}
	out.Tables = len(tables.Eligible)
	for _, b := range tables.Ineligible {
		out.Notes = append(out.Notes, fmt.Sprintf("%s.%s is left out: %s", b.Schema, b.Table, b.Reason))
	}
	if len(tables.Ineligible) == 0 && !said {
		info.Config.IgnoreIneligibleTable = false
		if in.ReplicaConfig, err = info.Config.Reveal(); err != nil {
			return out.refuse(err)
		}
	}
	out.request = in
	return out
}

// refuse notes why it does not come over.
func (f *foreignFeed) refuse(err error) *foreignFeed {
	f.Outcome, f.err = importNot, err
	body := errorBody(err)
	f.Error = &body
	return f
}

// failure is nil if nothing stood against any of them.
func (x *foreignCluster) failure() error {
	n := 0
	for _, f := range x.Feeds {
		if f.Outcome == importNot {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return errors.New(count(n, "changefeed") + " of " + fmt.Sprint(len(x.Feeds)) + " cannot come over, for the reasons above")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// showImport prints all of it.
func (t *terminal) showImport(x foreignCluster) {
	if t.output == "json" {
		t.print(t.Out, x)
		return
	}
	done := t.describe(t.Out, x)
	switch {
	case done:
		t.say("%s", resumeRemark)
	case x.DryRun:
		t.say("%s", dryRunHead)
	}
}

// describe prints all of it in words, and tells whether something was created.
func (t *terminal) describe(to io.Writer, x foreignCluster) (done bool) {
	fmt.Fprintf(to, "TiCDC's cluster %s: %s, %s alive\n", x.ClusterID, count(len(x.Feeds), "changefeed"), count(len(x.Captures), "server"))
	for _, f := range x.Feeds {
		fmt.Fprintf(to, "%s/%s: %s\n", f.Namespace, f.ID, f.verdict())
		done = done || f.Outcome == importDone
		if f.State != "" {
			fmt.Fprintf(to, "  %s in TiCDC, checkpoint-ts %d (%s UTC)\n", f.State, f.Checkpoint, when(f.Checkpoint))
		}
		if f.Trouble != "" {
			fmt.Fprintf(to, "  its error there: %s\n", f.Trouble)
		}
		if f.SinkURI != "" {
			fmt.Fprintf(to, "  to %s\n", f.SinkURI)
		}
		if f.request.SinkURI != "" {
			fmt.Fprintf(to, "  %s\n", count(f.Tables, "table"))
		}
		for _, n := range f.Notes {
			fmt.Fprintf(to, "  note: %s\n", n)
		}
		if f.err != nil {
			fmt.Fprintf(to, "  %s\n", strings.ReplaceAll(cdcerr.Explain(f.err), "\n", "\n  "))
		}
	}
	return done
}

// verdict is the outcome in words.
func (f *foreignFeed) verdict() string {
	switch f.Outcome {
	case importDone:
		return "imported, stopped at TiCDC's checkpoint"
	case importWould, importAsked:
		return "would be imported, stopped at TiCDC's checkpoint"
	case importHere:
		return "left as it is: there is a changefeed of this name here already"
	case importOver:
		return "left out: it is over in TiCDC"
	}
	return "NOT imported"
}
