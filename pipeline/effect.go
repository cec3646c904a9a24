package pipeline

import (
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// Effect is one DDL as a changefeed sees it whose spans are spread over captures: what
// is done about it, and what placement has to know of it. Owner and captures come to
// the same one, since it follows from the DDL and the changefeed's scope alone.
type Effect struct {
	// Decision is the owner's to carry out; with Err it says nothing.
	filter.Decision
	// Err ends the changefeed when the DDL's turn comes, where it is not nil.
	Err error

	Job int64
	TS  tso.TS // its switch-ts
	// Tables are the physical ids before the DDL, in order, of all wanted tables that it
	// touches, whether or not its wanted part has them. A view may name any table, and a
	// FLASHBACK CLUSTER undoes rows of all of them: these touch every wanted table.
	Tables []span.TableID
	// AddedAt is where the ids that it adds begin. Those that are recovered hold
	// rows from before, which are downstream: they begin when the job was finished.
	AddedAt tso.TS
	// Names are what the DDL changes, before and after it: tables, or with an empty
	// Table a whole schema. They are in lower case, in which TiDB compares them.
	Names []scheduler.Name
}

// EffectOf tells what a DDL is to a changefeed. Tables gives all tables just before its
// switch-ts, and is asked only where it touches every one.
func EffectOf(d *event.DDL, scope filter.Scope, tables func() []*event.Table) Effect {
	e := Effect{Job: d.JobID, TS: d.SwitchTS, AddedAt: d.SwitchTS}
	if d.Action == event.ActionRecoverTable || d.Action == event.ActionRecoverSchema {
		e.AddedAt = d.FinishedTS
	}
	e.Decision, e.Err = scope.DDL(d)
	for _, c := range d.Tables {
		if c.Before != nil && scope.Table(c.Before) == filter.Wanted {
			e.Tables = append(e.Tables, c.Before.PhysicalIDs()...)
		}
		for _, t := range []*event.Table{c.Before, c.After} {
			if t != nil {
				e.name(t.Schema, t.Name)
			}
		}
	}
	for _, db := range []*event.Database{d.DatabaseBefore, d.DatabaseAfter} {
		if db != nil {
			e.name(db.Name, "")
		}
	}
	e.Tables = append(e.Tables, e.Removed...)
	if e.Concerns() && (d.Action == event.ActionCreateView || d.Action == event.ActionFlashbackCluster) {
		for _, t := range tables() {
			if scope.Table(t) == filter.Wanted {
				e.Tables = append(e.Tables, t.PhysicalIDs()...)
			}
		}
	}
	slices.Sort(e.Tables)
	e.Tables = slices.Compact(e.Tables)
	return e
}

func (e *Effect) name(schema, table string) {
	n := scheduler.Name{Schema: strings.ToLower(schema), Table: strings.ToLower(table)}
	if !slices.Contains(e.Names, n) {
		e.Names = append(e.Names, n)
	}
}

// Concerns tells whether the DDL is anything to the changefeed. One that is not is
// given neither to the owner's half of the scheduler nor to the captures'.
func (e *Effect) Concerns() bool {
	return e.Err != nil || e.Send != nil || len(e.Added) > 0 || len(e.Removed) > 0
}

// DDL is what the owner's half gets.
func (e *Effect) DDL() scheduler.DDL {
	return scheduler.DDL{Job: e.Job, TS: e.TS, Tables: e.Tables, Added: e.Added, Removed: e.Removed, Names: e.Names}
}

// Block is what the captures' half gets.
func (e *Effect) Block() scheduler.Block { return scheduler.Block{TS: e.TS, Tables: e.Tables} }
