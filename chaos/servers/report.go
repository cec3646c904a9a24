package servers

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Line is an outcome in a line.
func (o Outcome) Line() string {
	took := "the next event came before"
	if o.Returned {
		took = o.Took.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%10v  %-20s lag at most %8v, at most %v again after: %s",
		o.At.Round(time.Millisecond), o.Name, o.LagMax.Round(time.Millisecond), small, took)
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
	fmt.Fprintf(w, "\nThe heartbeat's age from outside, and how long it took until it was at most %v again; one that the next event\n"+
		"came before is not counted there:\n\n| event | times | counted | back after, median | back after, most | lag, most |\n|---|---|---|---|---|---|\n", small)
	for _, name := range r.names() {
		var took []time.Duration
		var lag time.Duration
		for _, o := range r.Outcomes {
			if o.Name != name {
				continue
			}
			if lag = max(lag, o.LagMax); o.Returned {
				took = append(took, o.Took)
			}
		}
		if len(took) == 0 {
			fmt.Fprintf(w, "| %s | %d | 0 | | | %v |\n", name, r.count(name), lag.Round(time.Millisecond))
			continue
		}
		slices.Sort(took)
		ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
		fmt.Fprintf(w, "| %s | %d | %d | %v | %v | %v |\n", name, r.count(name), len(took), ms(took[len(took)/2]), ms(took[len(took)-1]), ms(lag))
	}
	fmt.Fprintln(w)
	if r.Err != nil {
		fmt.Fprintf(w, "It could not be judged: %v\n\n", r.Err)
	}
	for _, what := range slices.Concat(r.Wrong, r.Fell) {
		fmt.Fprintf(w, "- %s\n", what)
	}
}
