package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Head is the first line of a table of results.
func Head() string {
	return fmt.Sprintf("%6s %-38s %5s %6s %8s %8s %5s %6s %6s %5s %7s  %s",
		"seed", "subject", "lives", "killed", "rows", "repeated", "DDLs", "faults", "MiB", "etcd", "seconds", "verdict")
}

// Line is a run's line in the table.
func (r *Result) Line() string {
	struck := 0
	for _, n := range r.Struck {
		struck += n
	}
	where := "apart"
	if r.Embedded {
		where = "in it"
	}
	word := "equal"
	switch {
	case r.Err != nil:
		word = "FAILED"
	case len(r.Wrong) > 0:
		word = "DIFFERS"
	case r.EndListed > 0:
		word = fmt.Sprintf("equal, %d cells listed", r.EndListed)
	}
	if r.Database {
		word += ", in MariaDB"
	}
	if r.PDGone > 0 {
		word += fmt.Sprintf(", PD gone for %v", r.PDGone)
	}
	return fmt.Sprintf("%6d %-38s %5d %6d %8d %8d %5d %6d %6d %5s %7.1f  %s",
		r.Seed, r.Subject, r.Lives, r.Killed, r.Rows, r.Repeated, r.DDLs, struck, r.MemoryMax>>20, where, r.Took.Seconds(), word)
}

// Explain is what there is to say of a run that failed.
func (r *Result) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", r.Plan)
	if r.Err != nil {
		fmt.Fprintf(&b, "  %v\n", r.Err)
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(&b, "  %s\n", w)
	}
	const words = 3000
	if said := r.Said; said != "" {
		fmt.Fprintf(&b, "  the capture's last words:\n%s\n", said[max(0, len(said)-words):])
	}
	return b.String()
}

// Summary adds runs up.
type Summary struct {
	runs, equal, lives, killed, again, rows, repeated, ddls, gone int
	gonePD                                                        time.Duration
	struck, subjects                                              map[string]int
	took                                                          time.Duration
	memoryMax                                                     int64
	first, last                                                   uint64
}

// Add takes one run in.
func (s *Summary) Add(r *Result) {
	if s.runs == 0 {
		s.struck, s.subjects, s.first, s.last = map[string]int{}, map[string]int{}, r.Seed, r.Seed
	}
	s.runs++
	s.first, s.last = min(s.first, r.Seed), max(s.last, r.Seed)
	if r.OK() {
		s.equal++
	}
	if r.PDGone > 0 {
		s.gone++
		s.gonePD = r.PDGone
	}
	s.lives += r.Lives
	s.killed += r.Killed
	s.again += max(0, r.Lives-1-r.Killed)
	s.rows += r.Rows
	s.repeated += r.Repeated
	s.ddls += r.DDLs
	s.took += r.Took
	s.memoryMax = max(s.memoryMax, r.MemoryMax)
	s.subjects[r.Subject]++
	for name, n := range r.Struck {
		s.struck[name] += n
	}
}

// Write prints the summary in Markdown.
func (s *Summary) Write(w io.Writer) {
	fmt.Fprint(w, "# A capture amid faults\n\nWhat the last `make chaos-capture` came to. A run replays a recording or lets a workload write while faults of a drawn\n"+
		"kind strike and the capture is killed; everything has to arrive as it was. One seed alone:\n"+
		"`make chaos-capture RUNS=1 SEED=…`.\n\n")
	fmt.Fprintf(w, "%d runs of %d subjects, seeds %d to %d: **%d equal**, %d not.\n\n", s.runs, len(s.subjects), s.first, s.last, s.equal, s.runs-s.equal)
	fmt.Fprintf(w, "| | |\n|---|---|\n")
	fmt.Fprintf(w, "| processes killed with -9 | %d |\n", s.killed)
	fmt.Fprintf(w, "| lives of the changefeed, from a persisted checkpoint on | %d |\n", s.lives)
	fmt.Fprintf(w, "| of these begun anew without a kill | %d |\n", s.again)
	fmt.Fprintf(w, "| rows delivered | %d |\n", s.rows)
	fmt.Fprintf(w, "| of these again, by a later life | %d |\n", s.repeated)
	fmt.Fprintf(w, "| DDLs delivered | %d |\n", s.ddls)
	fmt.Fprintf(w, "| runs without any PD for %v | %d |\n", s.gonePD, s.gone)
	fmt.Fprintf(w, "| most memory of a process | %d MiB |\n", s.memoryMax>>20)
	fmt.Fprintf(w, "| time of all runs together | %v |\n", s.took.Round(time.Second))
	fmt.Fprintf(w, "\nFaults that struck:\n\n| fault | times |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.struck)) {
		fmt.Fprintf(w, "| %s | %d |\n", name, s.struck[name])
	}
}
