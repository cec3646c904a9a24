package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// memoryMin is what applying a log needs at least, in bytes.
const memoryMin = 256 << 20

// verifyReaders read a log's files at the same time.
const verifyReaders = 4

func (t *terminal) redoCommand() *cobra.Command {
	g := t.group("redo", "the redo log: what to do after the upstream is lost")
	meta := t.command("meta", "up to where a log is good", t.redoMeta)
	inspect := t.command("inspect", "the files of a log", t.redoInspect)
	verify := t.command("verify", "read the whole of a log, and say up to where recovery is possible", t.redoVerify)
	apply := t.command("apply", "bring a downstream to the upstream's snapshot at the log's resolved-ts", t.redoApply)
	apply.Flags().String("sink-uri", "", "the downstream; rows are written in safe mode")
	apply.Flags().String("cluster-id", "", "the cluster-id of the servers that wrote the log; the log has it, another one is refused")
	apply.Flags().Int64("memory-limit", 10<<30, "bytes of memory")
	apply.Flags().Bool("enable-profiling", false, "no effect")
	apply.Flags().String("log-level", "info", "no effect: a command has no log")
	apply.Flags().StringArray("filter", nil, "a table filter rule, as in filter.rules, as often as there are rules: tables that they leave out are not touched")
	apply.Flags().Bool("force", false, "go on where the downstream tells that what comes of it is no snapshot, or that a log was applied before; it is not called one then")
	need(apply, "sink-uri")
	for _, c := range []*cobra.Command{meta, inspect, verify, apply} {
		c.Flags().String("storage", "", "where the log is: consistent.storage of the changefeed")
		c.Flags().String("tmp-dir", "", "no effect: nothing is put on this machine")
		c.Flags().StringP("changefeed-id", "c", "", "the changefeed, where the storage holds the logs of several")
		c.Flags().StringP("namespace", "n", "", "its namespace")
		c.Flags().String("incarnation", "", "which of the changefeed's logs, where it has several")
		need(c, "storage")
		g.AddCommand(c)
	}
	return g
}

// withLog opens the storage, finds the log that is meant, and takes its inventory.
func (t *terminal) withLog(c *cobra.Command, do func(ctx context.Context, b objstore.Bucket, inv *redo.Inventory) error) (err error) {
	ctx := c.Context()
	b, err := objstore.OpenReader(ctx, str(c, "storage"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	all, err := redo.Find(ctx, b)
	if err != nil {
		return err
	}
	var ids []redo.ID
	names := []string{""}
	for _, id := range all {
		wants := func(flag, is string) bool { return str(c, flag) == "" || str(c, flag) == is }
		if wants("changefeed-id", id.Changefeed) && wants("namespace", id.Namespace) && wants("incarnation", id.Incarnation) {
			ids = append(ids, id)
		}
		names = append(names, logLine(ctx, b, id))
	}
	switch {
	case len(all) == 0:
		return cdcerr.RedoMetaNotFound.New("%s holds no redo log", b)
	case len(ids) != 1:
		return cdcerr.InvalidArgument.New("%s holds %d redo logs, of which %d are meant; name one:%s", b, len(all), len(ids), strings.Join(names, "\n  "))
	}
	inv, err := redo.Open(ctx, b, ids[0])
	if err != nil {
		return err
	}
	for _, note := range inv.Notes {
		fmt.Fprintf(t.Err, "note: %s\n", note)
	}
	return do(ctx, b, inv)
}

// logLine is the flags that name a log, and what its meta says.
func logLine(ctx context.Context, b objstore.Bucket, id redo.ID) string {
	line := fmt.Sprintf("--namespace %s --changefeed-id %s --incarnation %s", id.Namespace, id.Changefeed, id.Incarnation)
	m, err := redo.LastMeta(ctx, b, id)
	if err != nil {
		return line + ": " + err.Error()
	}
	line += fmt.Sprintf(": checkpoint-ts %d, resolved-ts %d (%s UTC)", m.Checkpoint, m.Resolved, when(m.Resolved))
	if m.Resolved < m.ExactFrom {
		line += fmt.Sprintf("; it makes no snapshot below %d", m.ExactFrom)
	}
	return line
}

// logText is a log, for programs.
type logText struct {
	Changefeed   string     `json:"changefeed"`
	Incarnation  string     `json:"incarnation"`
	Cluster      uint64     `json:"upstream-id"`
	CheckpointTS tso.TS     `json:"checkpoint-ts"`
	ResolvedTS   tso.TS     `json:"resolved-ts"`
	Version      int        `json:"version"`
	Recoverable  tso.TS     `json:"recoverable-ts"`
	Files        []fileText `json:"files,omitempty"`
	Rows         uint64     `json:"rows,omitempty"`
	DDLs         uint64     `json:"ddls,omitempty"`
	Problems     []string   `json:"problems,omitempty"`
	// Inexact are tables of which the log does not make what upstream had, and why.
	Inexact []string `json:"inexact,omitempty"`
	// Unproven are reasons for which the downstream is not known to be a snapshot, and
	// AppliedBefore tells that nothing was done.
	Unproven      []string `json:"unproven,omitempty"`
	AppliedBefore bool     `json:"applied-before,omitempty"`
	// NothingApplied tells that the log has nothing of the tables that --filter takes.
	NothingApplied bool `json:"nothing-applied,omitempty"`
}

type fileText struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	From tso.TS `json:"min-commit-ts"`
	To   tso.TS `json:"max-commit-ts"`
	Size int64  `json:"bytes"`
}

func logTextOf(inv *redo.Inventory, files bool) logText {
	out := logText{Changefeed: inv.ID.Namespace + "/" + inv.ID.Changefeed, Incarnation: inv.ID.Incarnation, Cluster: inv.ID.Cluster,
		CheckpointTS: inv.Meta.Checkpoint, ResolvedTS: inv.Meta.Resolved, Version: inv.Meta.Version, Recoverable: inv.Recoverable()}
	for _, p := range inv.Problems {
		out.Problems = append(out.Problems, p.String())
	}
	if files {
		for _, f := range inv.Files {
			out.Files = append(out.Files, fileText{f.Path, f.Kind.String(), f.Min, f.Max, f.Size})
		}
	}
	return out
}

func (t *terminal) redoMeta(c *cobra.Command) error {
	return t.withLog(c, func(_ context.Context, _ objstore.Bucket, inv *redo.Inventory) error {
		if t.output == "json" {
			t.print(t.Out, logTextOf(inv, false))
			return inv.Err()
		}
		// TiCDC's words.
		fmt.Fprintf(t.Out, "checkpoint-ts:%d, resolved-ts:%d, version:%d\n", inv.Meta.Checkpoint, inv.Meta.Resolved, inv.Meta.Version)
		return inv.Err()
	})
}

func (t *terminal) redoInspect(c *cobra.Command) error {
	return t.withLog(c, func(_ context.Context, _ objstore.Bucket, inv *redo.Inventory) error {
		if t.output == "json" {
			t.print(t.Out, logTextOf(inv, true))
			return inv.Err()
		}
		t.say("redo log of %s/%s, upstream %d, incarnation %s", inv.ID.Namespace, inv.ID.Changefeed, inv.ID.Cluster, inv.ID.Incarnation)
		t.say("checkpoint-ts %d (%s UTC), resolved-ts %d (%s UTC)", inv.Meta.Checkpoint, when(inv.Meta.Checkpoint), inv.Meta.Resolved, when(inv.Meta.Resolved))
		lines := [][]string{{"KIND", "FROM", "TO", "BYTES", "FILE"}}
		for _, f := range inv.Files {
			lines = append(lines, []string{f.Kind.String(), f.Min.String(), f.Max.String(), strconv.FormatInt(f.Size, 10), f.Path})
		}
		t.rows(lines)
		t.say("%d files are needed, %d bytes; %d that nobody needs, %d that nobody counts on yet", len(inv.Files), inv.Bytes(), inv.Below, inv.Beyond)
		return inv.Err()
	})
}

func (t *terminal) redoVerify(c *cobra.Command) error {
	return t.withLog(c, func(ctx context.Context, b objstore.Bucket, inv *redo.Inventory) error {
		rep, err := redo.Verify(ctx, b, inv, verifyReaders)
		if err != nil {
			return err
		}
		var doubts []redo.Doubt
		if rep.Err() == nil {
			if doubts, err = redo.Foresee(ctx, b, inv, redo.DefaultApply(inv), downstream.Foresee); err != nil {
				return err
			}
		}
		if t.output == "json" {
			text := logTextOf(inv, false)
			text.Rows, text.DDLs, text.Inexact = rep.Rows, rep.DDLs, doubtTexts(doubts)
			t.print(t.Out, text)
			return rep.Err()
		}
		if err := rep.Err(); err != nil {
			return err
		}
		t.say("The log is whole: %d files, %d bytes, %d rows and %d DDLs, every checksum right.", len(inv.Files), inv.Bytes(), rep.Rows, rep.DDLs)
		if len(doubts) == 0 {
			t.say("A downstream that this changefeed wrote can be brought to the upstream's snapshot at %d (%s UTC).", inv.Meta.Resolved, when(inv.Meta.Resolved))
			return nil
		}
		t.say("A downstream that this changefeed wrote can be brought to %d (%s UTC), and is the upstream's snapshot there but for these tables, of DDLs that are not done downstream yet:", inv.Meta.Resolved, when(inv.Meta.Resolved))
		for i, text := range doubtTexts(doubts) {
			if doubts[i].Stops {
				text += "; redo apply has to leave the table out (--filter)"
			}
			t.say("  %s", text)
		}
		return nil
	})
}

func (t *terminal) redoApply(c *cobra.Command) error {
	limit, err := c.Flags().GetInt64("memory-limit")
	if err != nil || limit < memoryMin {
		return cdcerr.InvalidArgument.New("--memory-limit %s: at least %d bytes", str(c, "memory-limit"), int64(memoryMin))
	}
	uri, err := safely(str(c, "sink-uri"))
	if err != nil {
		return err
	}
	part, err := partOf(c)
	if err != nil {
		return err
	}
	defer roomy(limit)()
	return t.withLog(c, func(ctx context.Context, b objstore.Bucket, inv *redo.Inventory) (err error) {
		force, err := c.Flags().GetBool("force")
		if err != nil {
			return err
		}
		if err := inv.Err(); err != nil {
			return err
		}
		if said := str(c, "cluster-id"); said != "" && said != inv.ID.Servers {
			return cdcerr.InvalidArgument.New("--cluster-id %s: the log was written by servers with cluster-id %q; leave the flag out", said, inv.ID.Servers)
		}
		s, err := downstream.Open(ctx, uri, downstream.Config{
			Cluster: inv.ID.Servers, Changefeed: inv.ID.Namespace + "/" + inv.ID.Changefeed, Upstream: inv.ID.Cluster, Life: inv.ID.Life(),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		leave := sink.Endless
		if u, ok := s.(sink.Usurper); ok {
			// Servers that live on would write beside this, and go on with the log. From here
			// on they do not write; so the meta is read once more.
			if leave, err = u.TakeOver(ctx); err != nil {
				return err
			}
			if inv, err = redo.Open(ctx, b, inv.ID); err != nil {
				return err
			}
		}
		cfg := redo.DefaultApply(inv)
		cfg.Merge.AheadBytes = limit / 4
		cfg.TxnBytes = min(limit/8, 1<<30)
		cfg.Part, cfg.Force, cfg.Progress = part, force, t.progress()
		done, err := redo.Apply(ctx, b, inv, cfg, s, leave)
		if err != nil {
			return applyError(err)
		}
		t.applied(inv, done, part.Name, strings.HasPrefix(uri, "blackhole://"))
		return nil
	})
}

// applyError is an error of redo.Apply, with the flag that it is about.
func applyError(err error) error {
	if cdcerr.TxnTooLarge.Is(err) {
		return fmt.Errorf("%w; here --memory-limit is that quota: an eighth of it, 1 GiB at most, is what one transaction may take", err)
	}
	return err
}

// progress prints a line for each tenth of the log that is applied.
func (t *terminal) progress() func(redo.Progress) {
	var told int64
	begun := time.Now()
	return func(p redo.Progress) {
		if tenths := p.Bytes * 10 / max(1, p.All); tenths > told {
			told = tenths
			t.say("%3d %% of the log, up to %d (%s UTC), is applied, about %v to go", told*10, p.TS, when(p.TS), toGo(time.Since(begun), p.Bytes, p.All))
		}
	}
}

// applied says what was applied, and what that proves.
func (t *terminal) applied(inv *redo.Inventory, done redo.Applied, part string, nowhere bool) {
	switch {
	case t.output == "json":
		text := logTextOf(inv, false)
		text.Rows, text.DDLs, text.Inexact = done.Rows, done.DDLs, doubtTexts(done.Doubts)
		text.Unproven, text.AppliedBefore = done.Unproven, done.Before
		text.NothingApplied = done.Nothing
		t.print(t.Out, text)
		return
	case nowhere:
		t.say("Read %d rows of %d transactions and %d DDLs, up to %d (%s UTC): what was to be read is there and whole. Nothing was applied: blackhole:// keeps nothing.",
			done.Rows, done.Txns, done.DDLs, inv.Meta.Resolved, when(inv.Meta.Resolved))
		return
	}
	if done.Before {
		what := "All of the log"
		if part != "" {
			what = "What " + part + " takes of the log"
		}
		t.say("%s was applied to this downstream before, up to %d (%s UTC): nothing was changed. --force applies it once more, over whatever was written there since.", what, inv.Meta.Resolved, when(inv.Meta.Resolved))
		for _, text := range doubtTexts(done.Doubts) {
			t.say("It was not the upstream's then in %s.", text)
		}
		for _, text := range done.Unproven {
			t.say("It was not proven to be a snapshot then: %s.", text)
		}
		return
	}
	if done.Nothing {
		t.say("Nothing was applied, and nothing was changed: of the tables that %s takes the log has nothing in (%d, %d]. Look at the rules if that is not what was meant.", part, inv.Meta.Checkpoint, inv.Meta.Resolved)
		return
	}
	t.say("Applied %d rows of %d transactions and %d DDLs.", done.Rows, done.Txns, done.DDLs)
	t.say("Servers that still run, or are started again, write to it once more: keep them stopped, or the changefeed paused or removed, before the downstream is used.")
	proof := fmt.Sprintf("every file of the log in (%d, %d] was there and whole, and nothing above was applied", inv.Meta.Checkpoint, inv.Meta.Resolved)
	if done.Snapshot() && part == "" {
		t.say("The downstream is the upstream's snapshot at %d (%s UTC): %s.", inv.Meta.Resolved, when(inv.Meta.Resolved), proof)
		return
	}
	t.say("The downstream holds what the log has up to %d (%s UTC): %s.", inv.Meta.Resolved, when(inv.Meta.Resolved), proof)
	if part != "" {
		t.say("It is not the upstream's: tables that --filter leaves out were not touched.")
	}
	for _, text := range doubtTexts(done.Doubts) {
		t.say("It is not the upstream's in %s.", text)
	}
	for _, text := range done.Unproven {
		t.say("It is not proven to be a snapshot: %s.", text)
	}
}

func doubtTexts(doubts []redo.Doubt) (out []string) {
	for _, d := range doubts {
		out = append(out, d.String())
	}
	return out
}

// partOf is what --filter has of a log.
func partOf(c *cobra.Command) (redo.Part, error) {
	rules, err := c.Flags().GetStringArray("filter")
	if err != nil || len(rules) == 0 {
		return redo.Part{}, err
	}
	f, err := filter.New(filter.Config{Rules: rules})
	if err != nil {
		return redo.Part{}, fmt.Errorf("--filter: %w", err)
	}
	scope := filter.Scope{Rules: f, ForceReplicate: true}
	return redo.Part{
		Name: "--filter " + strings.Join(rules, " --filter "),
		Rows: func(t *event.Table) bool { return scope.Table(t) == filter.Wanted },
		DDL: func(d *event.DDL) (*event.DDL, error) {
			decision, err := scope.DDL(d)
			return decision.Send, err
		},
	}, nil
}

// toGo is how long the rest takes, at the pace of what was done in some time.
func toGo(took time.Duration, done, all int64) time.Duration {
	return time.Duration(float64(took) * float64(max(0, all-done)) / float64(max(1, done))).Round(time.Second)
}

// safely is a sink URI whose rows are written so that twice is once.
func safely(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", cdcerr.SinkURIInvalid.New("--sink-uri: it is no URI") // its text may hold a password
	}
	switch u.Scheme {
	case "mysql", "mysql+ssl", "tidb", "tidb+ssl":
	default:
		return uri, nil
	}
	query := u.Query()
	query.Set("safe-mode", "true")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
