package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// noBackslashEscapes is MySQL's bit of that SQL mode.
const noBackslashEscapes = 1 << 20

// Scope is what a changefeed replicates: the tables that its rules take, less
// those whose rows cannot be named downstream (unless ForceReplicate).
type Scope struct {
	Rules          *Filter
	ForceReplicate bool
	// PrimaryOnly leaves out DDLs that are not of the primary of clusters that
	// replicate both ways: those come from there to everybody, and would come back.
	PrimaryOnly bool
}

// bdrPrimary is the role of a cluster whose DDLs the others get, in TiDB's words.
const bdrPrimary = "primary"

// Verdict tells whether and why not.
type Verdict uint8

// The verdicts about a table.
const (
	Wanted    Verdict = iota
	OutOfRule         // the rules leave it out
	Keyless           // the rules take it, but no key names its rows
)

// Table is the verdict on one table. Views and sequences have no rows to name.
func (s Scope) Table(t *event.Table) Verdict {
	switch {
	case !s.Rules.Table(t.Schema, t.Name):
		return OutOfRule
	case t.Kind == event.BaseTable && !t.Eligible() && !s.ForceReplicate:
		return Keyless
	}
	return Wanted
}

// Decision is what a changefeed does about one DDL.
type Decision struct {
	// Send is the wanted part of the DDL, nil where nothing of it is wanted.
	Send *event.DDL
	// Ignored says which parts of the DDL the operator has it left out by an event
	// filter, its start-ts or the role of its cluster, although the rules take them: rows go on as if it had
	// been sent.
	Ignored []string
	// Keyless are tables that the rules take and that are skipped from here on.
	Keyless []*event.Table
	// Added and Removed are the physical ids whose rows begin and cease to be
	// wanted, in order.
	Added, Removed []int64
}

// DDL decides by the names before the DDL ran; a new table's name is its first.
//
//	taken -> taken        sent, replication goes on
//	taken -> left out     sent, then the table's rows are no longer wanted
//	taken -> system       not sent, the table's rows are no longer wanted
//	left out -> taken     an error: rows that nobody replicated would appear
//	left out -> left out  not sent
//
// Tables without a key are left out the same way, so that a TRUNCATE of one is
// no more seen than its rows. One that loses its only key, or gains its first,
// is an error: going on would replicate half of it.
//
// What an event filter ignores is not sent, and nothing else changes: the table's
// rows are wanted as if it had been. The filter is asked by the name before the
// DDL ran. A DDL that is ignored by its start-ts may bring a table into the rules
// too: that is for an operator who has copied it.
func (s Scope) DDL(d *event.DDL) (Decision, error) {
	return s.decide(d, (*event.Table).PhysicalIDs)
}

// decide is DDL, where tables have other ids than those of their rows perhaps.
func (s Scope) decide(d *event.DDL, idsOf func(*event.Table) []int64) (Decision, error) {
	var out Decision
	if d.Action == event.ActionFlashbackCluster {
		// It names no table and undoes rows of all of them without an event: to
		// pass it over would leave every downstream wrong without a word (P8).
		return Decision{}, cdcerr.FlashbackCluster.New("at %d (job %d): %s", d.SwitchTS, d.JobID, d.Query)
	}
	nets := netChanges(d.Tables)
	ignored := s.Rules.IgnoresTxn(d.StartTS)
	var before, after []int64
	kept := make([]bool, len(nets))
	for i, n := range nets {
		keep, err := s.change(d, n, ignored, &out)
		if err != nil {
			return Decision{}, err
		}
		if keep && n.After != nil {
			if _, err := s.Rules.Rows(n.After); err != nil {
				return Decision{}, fmt.Errorf("DDL job %d at %d: %w", d.JobID, d.SwitchTS, err)
			}
		}
		if keep && n.After != nil && IsSystem(n.After.Schema) {
			// The downstream has a system schema of that name too, and it is not ours.
			before, keep = append(before, idsOf(n.Before)...), false
		}
		if kept[i] = keep; !keep {
			continue
		}
		if n.Before != nil && s.Table(n.Before) == Wanted {
			before = append(before, idsOf(n.Before)...)
		}
		if n.After != nil && s.Table(n.After) == Wanted {
			after = append(after, idsOf(n.After)...)
		}
	}
	if !ignored && d.Action == event.ActionExchangePartition && slices.Contains(kept, true) && slices.Contains(kept, false) {
		return Decision{}, s.halfExchange(d)
	}
	out.Added, out.Removed = less(after, before), less(before, after)
	if s.ignore(d, nets, kept, &out) {
		return out, nil
	}
	send, err := s.wantedPart(d, nets, kept)
	out.Send = send
	return out, err
}

// ignore takes what an operator has ignored out of what is sent, and tells
// whether that is all of it.
func (s Scope) ignore(d *event.DDL, nets []net, kept []bool, out *Decision) bool {
	say := func(filter int, name string) {
		out.Ignored = append(out.Ignored, fmt.Sprintf("%s of %s: filter.event-filters[%d]", d.Action, name, filter))
	}
	db := databaseOf(d)
	switch {
	case db == nil && !slices.Contains(kept, true) || db != nil && !s.Rules.Schema(db.Name):
		return false // nothing is sent anyway
	case s.PrimaryOnly && (d.BDRRole != bdrPrimary || d.WriteSource != 0):
		out.Ignored = append(out.Ignored, fmt.Sprintf("%s: bdr-mode sends DDLs that the primary of both clusters ran itself; this is of role %q and write source %d", d.Action, d.BDRRole, d.WriteSource))
		return true
	case s.Rules.IgnoresTxn(d.StartTS):
		out.Ignored = append(out.Ignored, fmt.Sprintf("%s: filter.ignore-txn-start-ts has %d", d.Action, d.StartTS))
		return true
	case db != nil:
		i := s.Rules.ignoresDDL(d.Action, db.Name, "", d.Query)
		if i >= 0 {
			say(i, db.Name)
		}
		return i >= 0
	}
	var texts []string
	if d.Action == event.ActionCreateTables {
		texts = statements(d.Query, d.SQLMode&noBackslashEscapes != 0)
	}
	some := false
	for i, n := range nets {
		if !kept[i] {
			continue
		}
		t, text := n.Before, d.Query
		if t == nil {
			t = n.After
		}
		if step := n.steps[0]; step < len(texts) {
			text = texts[step]
		}
		filter := s.Rules.ignoresDDL(d.Action, t.Schema, t.Name, text)
		if filter >= 0 {
			say(filter, t.FullName())
			kept[i] = false
		}
		some = some || kept[i]
	}
	// Halves of an exchange are one statement.
	return !some || d.Action == event.ActionExchangePartition && slices.Contains(kept, false)
}

// change decides one table's part: whether it is sent.
func (s Scope) change(d *event.DDL, n net, ignored bool, out *Decision) (bool, error) {
	if n.Before == nil && n.After == nil {
		return false, cdcerr.Bug("DDL job %d changes a table that is there neither before nor after", d.JobID)
	}
	if n.Before == nil {
		v := s.Table(n.After)
		if v == Keyless {
			out.Keyless = append(out.Keyless, n.After)
		}
		return v == Wanted, nil
	}
	was := s.Table(n.Before)
	if n.After == nil {
		return was == Wanted, nil
	}
	is := s.Table(n.After)
	switch {
	case ignored && was != Wanted && is == Wanted:
		return true, nil
	case was == OutOfRule && is == Wanted:
		return false, cdcerr.RenameIntoScope.New("%s was renamed to %s at %d (job %d): the rules leave the old name out and take the new one",
			n.Before.FullName(), n.After.FullName(), d.SwitchTS, d.JobID)
	case was == OutOfRule && is == Keyless:
		out.Keyless = append(out.Keyless, n.After)
	case was == Wanted && is == Keyless:
		return false, cdcerr.TableIneligible.New("%s lost its only key at %d (job %d): %s", n.After.FullName(), d.SwitchTS, d.JobID, d.Query)
	case was == Keyless && is == Wanted:
		return false, cdcerr.TableIneligible.New(
			"%s has a key since %d (job %d), but was without one before, so that the rows it holds were never replicated; leave it out by a rule, or create the changefeed again from after this DDL with the table's data copied: %s",
			n.After.FullName(), d.SwitchTS, d.JobID, d.Query)
	}
	return was == Wanted, nil
}

// halfExchange is an exchange between a table that is taken and one that is not:
// rows that were never replicated come in without an event.
func (s Scope) halfExchange(d *event.DDL) error {
	var names []string
	for _, c := range d.Tables {
		for _, t := range []*event.Table{c.Before, c.After} {
			if t != nil && !slices.Contains(names, t.FullName()) {
				names = append(names, t.FullName())
			}
		}
	}
	return cdcerr.RenameIntoScope.New("EXCHANGE PARTITION at %d (job %d) moves rows between %s: the rules take one and leave the other out",
		d.SwitchTS, d.JobID, strings.Join(names, " and "))
}

// wantedPart is d itself, a copy that holds the wanted tables only, or nil.
func (s Scope) wantedPart(d *event.DDL, nets []net, kept []bool) (*event.DDL, error) {
	all := !slices.Contains(kept, false)
	if db := databaseOf(d); db != nil {
		if !s.Rules.Schema(db.Name) {
			return nil, nil
		}
		if all {
			return d, nil
		}
	} else if !slices.Contains(kept, true) {
		return nil, nil
	}
	if all {
		return d, nil
	}
	part := *d
	var steps []int
	for i, n := range nets {
		if kept[i] {
			steps = append(steps, n.steps...)
		}
	}
	slices.Sort(steps)
	part.Tables = make([]event.TableChange, len(steps))
	for i, step := range steps {
		part.Tables[i] = d.Tables[step]
	}
	switch d.Action {
	case event.ActionRenameTables:
		part.Query = renameQuery(part.Tables)
	case event.ActionCreateTables:
		texts := statements(d.Query, d.SQLMode&noBackslashEscapes != 0)
		if len(texts) != len(d.Tables) {
			return nil, cdcerr.InvalidDDLJob.New("job %d creates %d tables with %d statements: %s", d.JobID, len(d.Tables), len(texts), d.Query)
		}
		var kept []string
		for _, step := range steps {
			kept = append(kept, texts[step])
		}
		part.Query = strings.Join(kept, "; ")
	}
	return &part, nil
}

// databaseOf is the database that a DDL of a whole database is about.
func databaseOf(d *event.DDL) *event.Database {
	if d.DatabaseBefore != nil {
		return d.DatabaseBefore
	}
	return d.DatabaseAfter
}

// net is what a DDL did to one table in all its steps.
type net struct {
	event.TableChange
	steps []int // indexes into DDL.Tables
}

// netChanges folds the steps of each table: in RENAME TABLE a TO t, b TO a,
// t TO b the first and the third are one change of one table, a to b.
func netChanges(steps []event.TableChange) []net {
	var out []net
	byID := make(map[int64]int) // where the table that has this id now stands in out
	for i, c := range steps {
		at, known := 0, false
		if c.Before != nil {
			at, known = byID[c.Before.ID]
			delete(byID, c.Before.ID)
		}
		if known {
			out[at].After = c.After
			out[at].steps = append(out[at].steps, i)
		} else {
			at = len(out)
			out = append(out, net{c, []int{i}})
		}
		if c.After != nil {
			byID[c.After.ID] = at
		}
	}
	return out
}

// less is the sorted members of a that are not in b; b is sorted on the way.
func less(a, b []int64) []int64 {
	slices.Sort(b)
	var out []int64
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); !found {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func renameQuery(steps []event.TableChange) string {
	parts := make([]string, len(steps))
	for i, c := range steps {
		parts[i] = fmt.Sprintf("%s.%s TO %s.%s", quoteName(c.Before.Schema), quoteName(c.Before.Name), quoteName(c.After.Schema), quoteName(c.After.Name))
	}
	return "RENAME TABLE " + strings.Join(parts, ", ")
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
