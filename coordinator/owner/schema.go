package owner

import (
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/tso"
)

// pendingMax is how many DDLs scheduler may have that are not done, before no more are
// taken from the schema, which bounds what waits there. It looks at some hundred.
const pendingMax = 1024

// learn takes the DDLs that have come, and up to where there are no others.
func (l *Loop) learn() {
	known := l.feed.Resolved()
	if known <= l.known {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner.Pending() >= pendingMax || l.teaching {
		return
	}
	s := lesson{known: known}
	for _, d := range l.feed.DDLs(known) {
		t := l.cfg.Scope.Turn(d, func() []*event.Table { return l.feed.Tables(d.SwitchTS.Prev()) })
		l.say(d, &t)
		if x, ok := l.place(d, &t); ok {
			s.ddls = append(s.ddls, x)
		}
		if s.note(&t); t.Err != nil && l.endsAt == 0 {
			l.endsAt = d.SwitchTS
		}
	}
	l.known = known
	l.teach(s)
}

// say logs what a DDL leaves out.
func (l *Loop) say(d *event.DDL, t *filter.Turn) {
	for _, why := range t.Ignored {
		l.cfg.Log.Info("DDL is ignored, as configured", "changefeed", l.cfg.Changefeed, "job", d.JobID, "ts", d.SwitchTS, "why", why)
	}
	for _, k := range t.Keyless {
		l.skip(k.FullName())
	}
}

// place is what scheduler has to know of a DDL; false: nothing.
func (l *Loop) place(d *event.DDL, t *filter.Turn) (scheduler.DDL, bool) {
	on, recorded := l.record.of(d.JobID, d.SwitchTS)
	x := scheduler.DDL{
		Job: d.JobID, TS: d.SwitchTS,
		Tables: t.Tables, Added: t.Added, Removed: t.Removed, AddedAt: t.AddedAt,
	}
	x.Unrecorded = !l.keeps || t.Send == nil
	l.form(&x, d.Tables)
	for _, n := range t.Names {
		x.Names = append(x.Names, scheduler.Name(n))
	}
	switch {
	case t.Err != nil: // whatever is on record: the changefeed ends here
	case !t.Counts():
		// An operator has it left out since, for example because it failed. It was
		// begun all the same, and rows from before it must not come again.
		x.Done = true
		x.Tables = on.Tables
		return x, recorded && len(on.Tables) > 0
	case recorded:
		x.Done, x.Begun = on.Done, !on.Done
	}
	if !x.Done {
		l.turns[d.JobID] = *t
	}
	return x, true
}

// Resolved is up to where the schema is known, 0 before Run has begun.
func (l *Loop) Resolved() tso.TS {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == nil {
		return 0
	}
	return l.feed.Resolved()
}
