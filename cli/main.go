package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/strict"
)

// The statuses with which a command ends.
const (
	StatusDone    = 0
	StatusFailed  = 1
	StatusTyped   = 2 // what was typed cannot be used
	StatusAway    = 3 // no server, owner or PD answers now
	StatusAborted = 4 // the operator did not confirm
)

// Env is the world that a command sees.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Home     string // the operator's folder; empty: there is none
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	// Serve is server.Run, with the control plane that this build has.
	Serve func(ctx context.Context, cfg server.Config) error
	Build Build
}

// System is the process's own world.
func System() Env {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no credentials are read from there
	}
	return Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Home: home, Now: time.Now, After: time.After,
		Serve: serve, Build: ReadBuild()}
}

// Main runs one command to its end.
func Main(ctx context.Context, args []string, env Env) int {
	t := &terminal{Env: env, in: bufio.NewReader(env.In)}
	root := t.root()
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return StatusDone
	}
	err = typed(err)
	t.complain(err)
	return status(err)
}

// terminal is one command on its way.
type terminal struct {
	Env
	output string // text, json or table
	in     *bufio.Reader
}

func (t *terminal) root() *cobra.Command {
	root := t.group("sluice", "change data capture for TiDB")
	root.PersistentFlags().StringVarP(&t.output, "output", "o", "text", "what to print: text, as TiCDC; json; table, for people, of what TiCDC prints as JSON")
	root.AddCommand(t.serverCommand(), t.cliCommand(), t.versionCommand(), t.errorsCommand(), t.redoCommand())
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if t.output != "text" && t.output != "json" && t.output != "table" {
			return cdcerr.InvalidArgument.New("--output %q is none of text, json and table", t.output)
		}
		return nil
	}
	return root
}

// group is a command that only has others below it.
func (t *terminal) group(use, short string) *cobra.Command {
	c := t.command(use, short, nil)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return noCommand(c, args[0])
	}
	return c
}

func noCommand(c *cobra.Command, word string) error {
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	hint := meant(word, names)
	if hint == "" {
		hint = ": it has " + strings.Join(names, ", ")
	}
	return cdcerr.InvalidArgument.New("%s has no command %q%s", c.CommandPath(), word, hint)
}

// unknownCommand looks for a word that is no command where one is wanted, before
// cobra takes the flags behind it for those of the group.
func unknownCommand(root *cobra.Command, args []string) error {
	at := root
	for _, word := range args {
		if strings.HasPrefix(word, "-") || !at.HasSubCommands() {
			return nil
		}
		next := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
		if next < 0 {
			return noCommand(at, word)
		}
		at = at.Commands()[next]
	}
	return nil
}

// command is one that takes flags and no words.
func (t *terminal) command(use, short string, run func(c *cobra.Command) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cdcerr.InvalidArgument.New("%s takes no %q: what it needs is given by flags", c.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return run(c) }}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		var missing *pflag.NotExistError
		if errors.As(err, &missing) {
			if name := missing.GetSpecifiedName(); name == "i" || name == "interact" {
				return cdcerr.NotInRelease.New("%s has no --interact: give each command on a line of its own", c.CommandPath())
			}
			return cdcerr.InvalidArgument.New("%s has no flag --%s%s", c.CommandPath(), missing.GetSpecifiedName(), meant("--"+missing.GetSpecifiedName(), names))
		}
		return cdcerr.InvalidArgument.New("%s: %s", c.CommandPath(), plainFlagError(err))
	})
	return c
}

// goError is how the standard library speaks of numbers.
var goError = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)

func plainFlagError(err error) string { return goError.ReplaceAllString(err.Error(), "") }

// meant is the end of a sentence about a word that is not known.
func meant(word string, known []string) string {
	if n := strict.Nearest(word, known); n != "" {
		return fmt.Sprintf(", did you mean %s?", n)
	}
	return ""
}

var requiredFlags = regexp.MustCompile(`required flag\(s\) (.*) not set`)

// typed gives a code to what cobra finds wrong by itself.
func typed(err error) error {
	if m := requiredFlags.FindStringSubmatch(err.Error()); m != nil && cdcerr.Of(err) == nil {
		return cdcerr.InvalidArgument.New("missing: --%s", strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), ", ", ", --"))
	}
	return err
}

// status is the one of an error.
func status(err error) int {
	code := cdcerr.Of(err)
	switch {
	case code == cdcerr.Aborted:
		return StatusAborted
	case slices.Contains([]*cdcerr.Code{cdcerr.ServerNotReady, cdcerr.ServerUnreachable, cdcerr.OwnerNotFound, cdcerr.NotOwner,
		cdcerr.RequestForward, cdcerr.PDUnreachable, cdcerr.MetaUnreachable}, code):
		return StatusAway
	case slices.Contains([]*cdcerr.Code{cdcerr.InvalidArgument, cdcerr.ServerConfigInvalid, cdcerr.NotInRelease, cdcerr.SinkURIInvalid, cdcerr.StorageURIInvalid,
		cdcerr.ConfigInvalid, cdcerr.ChangefeedIDInvalid, cdcerr.NamespaceInvalid, cdcerr.FilterRuleInvalid, cdcerr.FilterExpression, cdcerr.FilterColumn, cdcerr.IgnoreEventInvalid,
		cdcerr.TargetTSInvalid, cdcerr.CheckpointInvalid}, code):
		return StatusTyped
	}
	return StatusFailed
}

// complain prints an error where a person, or a program, looks for one.
func (t *terminal) complain(err error) {
	if t.output != "json" {
		fmt.Fprintf(t.Err, "Error: %s\n", cdcerr.Explain(err))
		return
	}
	t.print(t.Err, errorBody(err))
}

// errorBody is an error for a program.
func errorBody(err error) api.ErrorBody {
	body := api.ErrorBody{Message: err.Error()}
	if c := cdcerr.Of(err); c != nil {
		body.Code, body.Meaning, body.Remedy = c.ID, c.Meaning, c.Remedy
	}
	return body
}

// print writes one JSON value for a person and a program.
func (t *terminal) print(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		fmt.Fprintf(t.Err, "Error: %v\n", err) // of a type that is no JSON: a test prints each
	}
}

// say is what only a person wants to read.
func (t *terminal) say(format string, args ...any) {
	if t.output != "json" {
		fmt.Fprintf(t.Out, format+"\n", args...)
	}
}

// warn is what a person should read, and no program has to.
func (t *terminal) warn(format string, args ...any) {
	fmt.Fprintf(t.Err, "Warning: "+format+"\n", args...)
}
