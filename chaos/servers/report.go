package servers

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// String is an outcome in a line.
func (o Outcome) String() string {
	took := "the next event came before"
	if o.Returned {
		took = o.Took.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%10v  %-20s heartbeat at most %8v, checkpoint at most %8v behind; at most %v again after: %s",
		ms(o.At), o.Name, ms(most(o.Beat)), ms(most(o.Told)), small, took)
}

// names are those of the events that came, in the order in which they first did.
func (r *Result) names() (out []string) {
	for _, o := range r.Outcomes {
		if !slices.Contains(out, o.Name) {
			out = append(out, o.Name)
		}
	}
	return out
}

// count is how often an event came.
func (r *Result) count(name string) (n int) {
	for _, o := range r.Outcomes {
		if o.Name == name {
			n++
		}
	}
	return n
}

// Write prints results in Markdown.
func Write(w io.Writer, all []*Result) {
	fmt.Fprint(w, "# A server that is killed\n\nWhat the last `make chaos-server` came to: `sluice server` in a process of its own, killed at drawn moments\n"+
		"between a fake upstream under load and a MariaDB, whose binary log is held against what the upstream did.\n\n")
	for _, r := range all {
		r.write(w)
	}
}

func (r *Result) write(w io.Writer) {
	word := "equal"
	if !r.OK() {
		word = "NOT EQUAL"
	}
	where := "in the server"
	if r.Apart {
		where = "in a process of its own"
	}
	fmt.Fprintf(w, "## Seed %d: %s\n\n| | |\n|---|---|\n", r.Seed, word)
	for _, row := range []struct {
		what  string
		value any
	}{
		{"servers", r.Servers},
		{"processes of servers", r.Lives},
		{"of these ended by themselves", len(r.Fell)},
		{"etcd", where},
		{"load", fmt.Sprintf("%d transactions a second, four of five of them transfers between %d accounts in %d tables; a DDL every %v in each of three streams",
			r.Origin.Rate, r.Origin.Accounts, r.Origin.Tables, r.Origin.DDLEvery)},
		{"transactions upstream", r.Load.Txns},
		{"heartbeats", r.Load.Beats},
		{"transactions in the binary log", r.Txns},
		{"sync points, each with the upstream's accounts of its moment", r.SyncPoints},
		{"time", r.Took.Round(time.Second)},
	} {
		fmt.Fprintf(w, "| %s | %v |\n", row.what, row.value)
	}
	fmt.Fprint(w, "\n| DDL | upstream | in the binary log |\n|---|---|---|\n")
	for _, t := range r.DDLs {
		fmt.Fprintf(w, "| %s | %d | %d |\n", t.Kind, t.Upstream, t.Binlog)
	}
	fmt.Fprintf(w, "\nThe lag at every look, ten a second, from an event until the heartbeat read downstream was at most %v old again, or until\n"+
		"the next event; the time until then is counted where no other event came before:\n\n"+
		"| event | times | counted | back after, median | most | heartbeat p99 | most | checkpoint p99 | most |\n|---|---|---|---|---|---|---|---|---|\n", small)
	for _, name := range r.names() {
		r.writeEvent(w, name)
	}
	fmt.Fprintln(w)
	if r.Err != nil {
		fmt.Fprintf(w, "It could not be judged: %v\n\n", r.Err)
	}
	for _, what := range slices.Concat(r.Wrong, r.Fell) {
		fmt.Fprintf(w, "- %s\n", what)
	}
}

// writeEvent is the line of one kind of event.
func (r *Result) writeEvent(w io.Writer, name string) {
	var took, beat, told []time.Duration
	for _, o := range r.Outcomes {
		if o.Name != name {
			continue
		}
		beat, told = append(beat, o.Beat...), append(told, o.Told...)
		if o.Returned {
			took = append(took, o.Took)
		}
	}
	line := fmt.Sprintf("| %s | %d | %d |", name, r.count(name), len(took))
	for _, lags := range []struct {
		all []time.Duration
		of  float64
	}{{took, 0.5}, {beat, 0.99}, {told, 0.99}} {
		slices.Sort(lags.all)
		line += fmt.Sprintf(" %v | %v |", part(lags.all, lags.of).Round(time.Millisecond), most(lags.all).Round(time.Millisecond))
	}
	fmt.Fprintln(w, line)
}
