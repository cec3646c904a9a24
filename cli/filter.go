package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/server"
)

// filterCheckCommand asks no server: what a file's filter says of one table.
func (t *terminal) filterCheckCommand() *cobra.Command {
	c := t.command("filter-check", "what a changefeed's file says of one table or statement; asks no server", t.filterCheck)
	f := c.Flags()
	f.StringP("config", "c", "", "TOML file of the changefeed (every table, where it is not given)")
	f.StringP("table", "t", "", "schema.table; a name with a dot in backquotes")
	f.StringP("ddl", "d", "", "a DDL statement on that table")
	need(c, "table")
	return c
}

func (t *terminal) filterCheck(c *cobra.Command) error {
	config := changefeed.Default()
	if path := str(c, "config"); path != "" {
		text, err := server.ReadFile(path)
		if err != nil {
			return cdcerr.InvalidArgument.Wrap(err, "--config")
		}
		if config, err = changefeed.ParseTOML(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	schema, table, ok := tableName(str(c, "table"))
	if !ok {
		return cdcerr.InvalidArgument.New("--table %q is not schema.table", str(c, "table"))
	}
	statement := str(c, "ddl")
	a, err := changefeed.CheckTable(&config, time.UTC, changefeed.Question{Schema: schema, Table: table, Statement: statement})
	if err != nil {
		return err
	}
	if t.output == "json" {
		t.print(t.Out, a)
		return nil
	}
	fmt.Fprintf(t.Out, "%s.%s: %s: %s\n", a.Schema, a.Table, a.Verdict, a.Why)
	if a.Verdict == changefeed.Replicated {
		fmt.Fprintln(t.Out, "  if it has a usable key, which changefeed create --dry-run looks at")
	}
	for _, i := range a.EventFilters {
		fmt.Fprintf(t.Out, "  filter.event-filters[%d] is about it\n", i)
	}
	if statement != "" {
		sent := "not sent"
		if a.Sent != nil && *a.Sent {
			sent = "sent"
		}
		fmt.Fprintf(t.Out, "the statement: %s: %s\n", sent, a.StatementWhy)
	}
	return nil
}

// tableName reads schema.table; either may be in backquotes.
func tableName(s string) (schema, table string, ok bool) {
	schema, rest, ok := namePart(s)
	if !ok || !strings.HasPrefix(rest, ".") {
		return "", "", false
	}
	table, rest, ok = namePart(rest[1:])
	return schema, table, ok && rest == ""
}

func namePart(s string) (name, rest string, ok bool) {
	if quoted, found := strings.CutPrefix(s, "`"); found {
		name, rest, ok = strings.Cut(quoted, "`")
		return name, rest, ok && name != ""
	}
	end := strings.IndexByte(s, '.')
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], end > 0
}
