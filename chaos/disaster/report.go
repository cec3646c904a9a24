package disaster

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Line is a result in a line.
func (r *Result) Line() string {
	word := "the snapshot"
	switch {
	case r.Err != nil:
		word = r.Err.Error()
	case len(r.Wrong) > 0:
		word = "NOT THE SNAPSHOT: " + strings.Join(r.Wrong, "; ")
	}
	return fmt.Sprintf("seed %d: RPO %v (downstream %v behind), RTO %v, %d rows, %d DDLs: %s. %v", r.Seed, ms(r.RPO), behind(r.Behind), ms(r.RTO), r.Rows, r.DDLs, word, r.Plan)
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func behind(d time.Duration) string {
	if d < 0 {
		return "?"
	}
	return ms(d).String()
}

// Write prints results in Markdown.
func Write(w io.Writer, all []*Result) {
	fmt.Fprintf(w, "# An upstream that is lost\n\nWhat the last `make disaster` came to: a fake upstream under transfers and DDL, killed with -9 at a drawn moment; `sluice redo apply`\n"+
		"once every server is killed, or first among servers that live on; and every table held against what the upstream held at the resolved-ts of the log's meta.\n"+
		"RPO is the moment of the disaster less that timestamp; the downstream was so far behind then; RTO is all attempts to apply together.\n"+
		"A third is left to the servers (`on-upstream-loss = \"apply\"`, a grace of %v): nobody runs the command, and the changefeed has to end\n"+
		"with the reason `upstream lost, applied to TS`; RTO is from the disaster until it has then.\n\n", grace)
	equal := 0
	var rpo, rto, alone []time.Duration
	for _, r := range all {
		if r.OK() {
			equal++
		}
		switch {
		case r.Err != nil:
			continue
		case r.Offline:
			alone = append(alone, r.RTO)
		default:
			rto = append(rto, r.RTO)
		}
		rpo = append(rpo, r.RPO)
	}
	fmt.Fprintf(w, "%d of %d are equal.", equal, len(all))
	for _, one := range []struct {
		name string
		all  []time.Duration
	}{{"RPO", rpo}, {"RTO", rto}, {"RTO of servers alone", alone}} {
		if n := len(one.all); n > 0 {
			slices.Sort(one.all)
			fmt.Fprintf(w, " %s: median %v, at most %v.", one.name, ms(one.all[n/2]), ms(one.all[n-1]))
		}
	}
	fmt.Fprint(w, "\n\n| Seed | What | RPO | Behind | RTO | Rows | DDLs | Attempts | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		word := "equal"
		switch {
		case r.Err != nil:
			word = "ended with " + r.Err.Error()
		case len(r.Wrong) > 0:
			word = "NOT EQUAL: " + strings.Join(r.Wrong, "; ")
		}
		fmt.Fprintf(w, "| %d | %v | %v | %v | %v | %d | %d | %d | %s |\n", r.Seed, r.Plan, ms(r.RPO), behind(r.Behind), ms(r.RTO), r.Rows, r.DDLs, r.Applys,
			strings.NewReplacer("|", "\\|", "\n", " ").Replace(word))
	}
}
