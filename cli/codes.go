package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// codeText is a code for a program.
type codeText struct {
	ID      string `json:"code"`
	Class   string `json:"class"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

func textOf(c *cdcerr.Code) codeText {
	return codeText{ID: c.ID, Class: c.Class.String(), Meaning: c.Meaning, Remedy: c.Remedy}
}

func (t *terminal) errorsCommand() *cobra.Command {
	c := t.command("errors [CODE]", "what an error code means, and what to do about it", nil)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			t.listCodes()
			return nil
		case 1:
			return t.showCode(args[0])
		}
		return cdcerr.InvalidArgument.New("sluice errors takes one code, not %d", len(args))
	}
	return c
}

func (t *terminal) listCodes() {
	var all []codeText
	for _, c := range cdcerr.All() {
		all = append(all, textOf(c))
	}
	if t.output == "json" {
		t.print(t.Out, all)
		return
	}
	w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.ID, c.Class, c.Meaning)
	}
	if err := w.Flush(); err != nil {
		t.warn("%v", err)
	}
}

// showCode finds a code by its whole id or by what is left without CDC:Err.
func (t *terminal) showCode(word string) error {
	short := func(id string) string {
		return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(id, "CDC:"), "Err"))
	}
	want := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(word), "cdc:"), "err")
	var known []string
	for _, c := range cdcerr.All() {
		if short(c.ID) == want {
			x := textOf(c)
			if t.output == "json" {
				t.print(t.Out, x)
			} else {
				fmt.Fprintf(t.Out, "%s (%s)\n  meaning: %s\n  remedy:  %s\n", x.ID, x.Class, x.Meaning, x.Remedy)
			}
			return nil
		}
		known = append(known, c.ID)
	}
	return cdcerr.InvalidArgument.New("no error code %q%s", word, meant("CDC:Err"+want, known))
}
