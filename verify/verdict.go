package verify

import (
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/tso"
)

// Reason is why a cell of the end state stands in no event.
type Reason uint8

// The reasons. There are no others.
const (
	Carried       Reason = iota // none needed: an event carries the cell
	Converted                   // the row was last written before a DDL gave the column a new type
	Moved                       // no event tells in which partition the row was when partitions parted
	Recovered                   // the table came back with its rows, and no event followed for this one
	VirtualColumn               // computed by whoever reads it
	reasons
)

var reasonText = [reasons]string{
	Carried:       "carried",
	Converted:     "rewriting DDL converted it",
	Moved:         "partition backfill moved it before a drop",
	Recovered:     "the table was recovered",
	VirtualColumn: "virtual generated column",
}

// String is the reason in words.
func (r Reason) String() string { return reasonText[r] }

// WholeRow stands for the column where a row as a whole is meant.
const WholeRow = "(row)"

// Difference is one cell, row or table that is not as TiDB had it.
type Difference struct {
	TS     tso.TS // the moment; 0 for the end
	Table  string // database.table
	Key    string // the row: key columns and their values
	Column string // WholeRow for a row that is missing or should not be there
	Want   string
	Got    string
}

// String is one line.
func (d Difference) String() string {
	var b strings.Builder
	b.WriteString(d.Table)
	if d.Key != "" {
		fmt.Fprintf(&b, " [%s]", d.Key)
	}
	if d.Column != "" {
		fmt.Fprintf(&b, " %s", d.Column)
	}
	fmt.Fprintf(&b, ": want %s, got %s", d.Want, d.Got)
	if d.TS != 0 {
		fmt.Fprintf(&b, " (commit-ts %d)", d.TS)
	}
	return b.String()
}

// Listing is one cell that no event carries.
type Listing struct {
	TS     tso.TS // the moment; 0 for the end
	Table  string
	Key    string
	Column string
	Want   string // what TiDB had
	Reason Reason
}

// String is one line.
func (l Listing) String() string {
	s := fmt.Sprintf("%s [%s] %s = %s: %v", l.Table, l.Key, l.Column, l.Want, l.Reason)
	if l.TS != 0 {
		s += fmt.Sprintf(" (at %d)", l.TS)
	}
	return s
}

// Tally is a verdict on one table.
type Tally struct {
	Table       string
	Rows        int // compared
	Differences int
	Listed      int
}

// Limits bound what a verdict keeps for printing; it always counts everything.
type Limits struct {
	Differences int
	Listings    int
}

// DefaultLimits keep a verdict readable: whoever meets more than a hundred
// differences needs the first ones, while listings are an account to be audited.
func DefaultLimits() Limits { return Limits{Differences: 100, Listings: 10_000} }

// Verdict is the result of comparing.
type Verdict struct {
	Differences int
	Listed      int
	ByReason    [reasons]int
	First       []Difference // the first Limits.Differences of them
	Listings    []Listing    // the first Limits.Listings of them
	Tables      []Tally
	Notes       []string // what could not be judged, and counts

	limits Limits
}

// Equal tells whether nothing differs; what is listed counts as equal.
func (v *Verdict) Equal() bool { return v.Differences == 0 }

// Word is the verdict in a word: equal, differ(n) or listed(n).
func (v *Verdict) Word() string {
	switch {
	case v.Differences > 0:
		return fmt.Sprintf("differ(%d)", v.Differences)
	case v.Listed > 0:
		return fmt.Sprintf("listed(%d)", v.Listed)
	}
	return "equal"
}

func (v *Verdict) differ(d Difference) {
	v.Differences++
	if len(v.First) < v.limits.Differences {
		v.First = append(v.First, d)
	}
}

func (v *Verdict) list(l Listing) {
	v.Listed++
	v.ByReason[l.Reason]++
	if len(v.Listings) < v.limits.Listings {
		v.Listings = append(v.Listings, l)
	}
}

func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// noteReasons says how many cells each reason had to answer for.
func (v *Verdict) noteReasons(what string, by [reasons]int) {
	for r := Converted; r < reasons; r++ {
		if by[r] > 0 {
			v.note("%s%d cells that no event carries: %v", what, by[r], r)
		}
	}
}

// tally adds up what was counted since the two marks for one table.
func (v *Verdict) tally(table string, rows, differences, listed int) {
	v.Tables = append(v.Tables, Tally{
		Table: table, Rows: rows,
		Differences: v.Differences - differences, Listed: v.Listed - listed,
	})
}
