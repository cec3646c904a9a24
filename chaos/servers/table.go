package servers

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Late tells which attempts did not keep to their bounds.
func (r *Result) Late() (out []string) {
	for _, a := range r.Attempts {
		for _, m := range a.missed() {
			out = append(out, a.Key+": "+m)
		}
	}
	return out
}

// ddlsWanted is how many DDLs have to run while a cluster is on trial.
const ddlsWanted = 500

// WriteTable prints what trials came to in Markdown.
func WriteTable(w io.Writer, all []*Result) {
	fmt.Fprintf(w, "# A cluster on trial\n\nWhat the last `make chaos` came to: captures, etcd, a fake upstream whose regions move, and a MariaDB, each in a\n"+
		"process of its own on one machine; what befalls them while transfers and DDL go on, and how late the changefeed was. The\n"+
		"checkpoint is what the API tells, the heartbeat what is read downstream from a row of each of its tables; both are looked at\n"+
		"ten times a second, from the event until both have been at most %v old for %v. What arrived is judged by MariaDB's binary\n"+
		"log. A session outlives its capture by %v (`capture-session-ttl`; the default is 10 s): so long nobody leads after an owner's\n"+
		"death. One event alone: `make chaos ARGS='-only kill,drain'`.\n\n", small, calmFor, sessionTTL*time.Second)
	for _, r := range all {
		r.writeTable(w)
	}
}

func (r *Result) writeTable(w io.Writer) {
	word := "everything is equal"
	if len(r.Wrong) > 0 || r.Err != nil {
		word = "NOT EQUAL"
	}
	fmt.Fprintf(w, "## Seed %d: %s\n\n", r.Seed, word)
	fmt.Fprint(w, "| Event under load | times | wanted | checkpoint p99 | most | heartbeat p99 | most | back after | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range r.Trials {
		r.writeTrial(w, t)
	}
	r.writeDDL(w)
	fmt.Fprint(w, "\n| | |\n|---|---|\n")
	for _, row := range []struct {
		what  string
		value any
	}{
		{"captures", fmt.Sprintf("%d, and %d more at times", r.Servers, r.Spare)},
		{"processes of captures", r.Lives},
		{"of these ended by themselves", len(r.Fell)},
		{"load", fmt.Sprintf("%d transactions a second, four of five of them transfers between %d accounts in %d tables; a DDL every %v in each of three streams; heartbeats in %d tables",
			r.Origin.Rate, r.Origin.Accounts, r.Origin.Tables, r.Origin.DDLEvery, r.Origin.Beats)},
		{"transactions upstream", r.Load.Txns},
		{"splits, merges and new leaders of regions", r.Load.Moves},
		{"transactions in the binary log", r.Txns},
		{"sync points, each with the upstream's accounts of its moment", r.SyncPoints},
		{"heartbeats in the binary log, none older than a checkpoint that had been told", r.Beats},
		{"times that the checkpoint told was lower than the last, and by how much at most", fmt.Sprintf("%d, %v", r.Back, ms(r.BackMost))},
		{"load of the machine before and after, on so many cores", r.Machine},
		{"time", r.Took.Round(time.Second)},
	} {
		fmt.Fprintf(w, "| %s | %v |\n", row.what, row.value)
	}
	fmt.Fprintln(w)
	r.writeNotes(w)
}

// writeTrial is the row of one trial, all its attempts together.
func (r *Result) writeTrial(w io.Writer, t Trial) {
	var told, beat, others []time.Duration
	back := map[string]time.Duration{}
	var marks []string
	ok, times := true, 0
	for _, a := range r.Attempts {
		if a.Key != t.Key {
			continue
		}
		times++
		told, beat, others = append(told, a.Told...), append(beat, a.Beat...), append(others, a.Others...)
		ok = ok && a.OK()
		for _, m := range a.Marks {
			if !slices.Contains(marks, m.Name) {
				marks = append(marks, m.Name)
			}
			back[m.Name] = max(back[m.Name], m.Back)
		}
	}
	slices.Sort(told)
	slices.Sort(beat)
	slices.Sort(others)
	var after []string
	for _, name := range marks {
		after = append(after, fmt.Sprintf("%v of %s", ms(back[name]), name))
	}
	if len(others) > 0 {
		after = append(after, fmt.Sprintf("others' heartbeat at most %v", ms(most(others))))
	}
	word := "kept"
	switch {
	case times == 0 || !ok:
		word = "**missed**"
	case t.Bound == Bound{}:
		word = ""
	}
	fmt.Fprintf(w, "| %s | %d | %s | %v | %v | %v | %v | %s | %s |\n", t.Name, times, t.Bound,
		ms(part(told, 0.99)), ms(most(told)), ms(part(beat, 0.99)), ms(most(beat)), strings.Join(after, "; "), word)
}

// writeDDL is the row of the DDLs.
func (r *Result) writeDDL(w io.Writer) {
	upstream, log := 0, 0
	for _, t := range r.DDLs {
		upstream, log = upstream+t.Upstream, log+t.Binlog
	}
	word := "kept"
	if r.Err != nil || upstream < ddlsWanted || slices.ContainsFunc(r.Wrong, func(what string) bool { return strings.Contains(what, "DDL") }) {
		word = "**missed**"
	}
	fmt.Fprintf(w, "| %d DDLs while all of this runs | | none lost, none run twice | | | | | %d upstream, %d in the binary log | %s |\n", ddlsWanted, upstream, log, word)
}

// writeNotes is what else there is to say.
func (r *Result) writeNotes(w io.Writer) {
	if r.Err != nil {
		fmt.Fprintf(w, "It could not be judged: %v\n\n", r.Err)
	}
	for _, what := range slices.Concat(r.Wrong, r.Fell) {
		fmt.Fprintf(w, "- %s\n", what)
	}
	for _, a := range r.Attempts {
		notes := slices.Concat(a.Notes, a.missed())
		if a.Err != nil {
			notes = append(notes, strings.ReplaceAll(a.Err.Error(), "\n", "; "))
		}
		if len(notes) > 0 {
			fmt.Fprintf(w, "- %s at %v: %s\n", a.Name, a.At.Round(time.Second), strings.Join(notes, "; "))
		}
	}
}
