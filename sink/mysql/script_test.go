package mysql

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// scriptDialects are the downstreams for which testdata/ddl.txt says what a
// DDL becomes.
var scriptDialects = []Dialect{
	{Kind: TiDB, Major: 8, Minor: 5}, {Kind: MySQL, Major: 8, Minor: 4}, {Kind: MySQL, Major: 5, Minor: 7},
	{Kind: MariaDB, Major: 10, Minor: 11}, {Kind: Other, Major: 8},
}

// TestScripts reads testdata/ddl.txt:
//
//	# what it is about
//	action 5                 the kind of job
//	before create table …    what the table was, if it was there
//	query alter table …      the job's text
//	after create table …     what it is then, if it is
//	TiDB 8.5.0: …            for each dialect its statements and notes, or the
//	                         error; written by -rewrite. "same" is the dialect above's
func TestScripts(t *testing.T) {
	const path = "testdata/ddl.txt"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		out.WriteString(runScript(t, block) + "\n")
	}
	got := strings.TrimSpace(out.String()) + "\n"
	if got == string(text) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	wanted, have := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i := range max(len(wanted), len(have)) {
		if i >= len(wanted) || i >= len(have) || wanted[i] != have[i] {
			t.Fatalf("%s:%d differs; look at the diff after -rewrite\nwant %s\ngot  %s", path, i+1, wanted[min(i, len(wanted)-1)], have[min(i, len(have)-1)])
		}
	}
}

// TestScriptsRun runs every block of testdata/ddl.txt on MariaDB: what is not
// refused for a feature is carried out.
func TestScriptsRun(t *testing.T) {
	text, err := os.ReadFile("testdata/ddl.txt")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.schema = "s" // the database of the scripts
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		mustExec(t, w.db, "create or replace database s")
		_, d := readScript(t, block, w.schema)
		if d.Action != event.ActionCreateSequence {
			mustExec(t, w.db, "create sequence s.sq")
		}
		if len(d.Tables) > 0 && d.Tables[0].Before != nil {
			before := d.Tables[0].Before
			n, err := tableNode(before)
			if err != nil {
				t.Fatal(err)
			}
			create, err := restore(n)
			if err != nil {
				t.Fatal(err)
			}
			w.ddl(&event.DDL{Action: event.ActionCreateTable, Query: create, Tables: []event.TableChange{{After: before}}})
		}
		switch err := w.tryDDL(d); {
		case err != nil && StoppedBy(err) == "":
			t.Errorf("%s\n%v", block, err)
		case err == nil && d.Tables[0].After != nil:
			if ok, err := w.sink.inEffect(t.Context(), d); !ok || err != nil {
				t.Errorf("%s: not in effect, %v", block, err)
			}
			run := ddlRun{Sink: w.sink, leave: sink.Endless, ddl: d, script: new(script)}
			if c, err := run.changes(); err != nil {
				t.Errorf("%s: %v", block, err)
			} else if c != nil && !strings.Contains(d.Query, " where ") { // the script's table does not say of which rows its index is
				if found, err := run.differences(t.Context(), c); err != nil || len(found) > 0 {
					t.Errorf("%s: not what it makes: %q, %v", block, found, err)
				}
			}
		}
	}
	mustExec(t, w.db, "drop database s")
}

// readScript is a block's input, as it stands and as a DDL.
func readScript(t *testing.T, block, schema string) (string, *event.DDL) {
	t.Helper()
	d := &event.DDL{JobID: 7, SwitchTS: 100, FinishedTS: 100, Schema: schema}
	var change event.TableChange
	var out strings.Builder
	for _, line := range strings.Split(block, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "#":
		case "action":
			n, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatal(line)
			}
			d.Action = event.Action(n)
		case "query":
			d.Query = rest
		case "mode":
			d.SQLMode = ansiQuotes
		case "before":
			change.Before = tableOf(t, schema, rest)
		case "after":
			change.After = tableOf(t, schema, rest)
		default:
			continue
		}
		out.WriteString(line + "\n")
	}
	if change.Before != nil && change.After != nil && d.Action != 11 && d.Action != 71 {
		change.After.ID = change.Before.ID
	}
	if d.Action == event.ActionCreateSequence {
		change.After.Kind, change.After.Columns = event.Sequence, nil
	}
	if change.Before != nil || change.After != nil {
		d.Tables = []event.TableChange{change}
	}
	return out.String(), d
}

// runScript prints one block anew.
func runScript(t *testing.T, block string) string {
	t.Helper()
	input, d := readScript(t, block, "s")
	var out strings.Builder
	out.WriteString(input)
	last := ""
	for _, dialect := range scriptDialects {
		now := scriptText(d, dialect)
		if now == last {
			out.WriteString(dialect.String() + ": same\n")
			continue
		}
		last = now
		out.WriteString(dialect.String() + ":" + now)
	}
	return out.String()
}

func scriptText(d *event.DDL, dialect Dialect) string {
	s, err := planDDL(d, dialect, true)
	if err != nil {
		return " " + strings.ReplaceAll(err.Error(), dialect.String(), "it") + "\n"
	}
	out := "\n"
	for _, text := range append(s.first, s.statements...) {
		out += "  " + strings.ReplaceAll(text, "\n", `\n`) + "\n"
	}
	seen := map[note]bool{}
	for _, n := range s.notes {
		if !seen[n] {
			out += "  -- " + n.feature + ": " + n.about + "\n"
		}
		seen[n] = true
	}
	return out
}
