package pipeline

import (
	"context"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// planned is a DDL that comes next, or soon.
type planned struct {
	*event.DDL
	filter.Decision
	decided bool
	err     error // why it ends the changefeed
}

// aheadMax is how many DDLs are planned ahead. A changefeed that catches up meets
// thousands, and each so many cost a resolved interval, up to a second: with some
// ten that is nothing. A table that is followed before its turn costs a dozen
// kilobytes; scans stand in line in upstream.
const aheadMax = 1024

// take plans DDLs ahead: the physical ids that they bring are followed at once,
// from their switch-ts on. One by one, each would hold the bound until TiKV's
// next resolved-ts, and a hundred tables created in a second would take a
// hundred resolved intervals to catch up with.
//
// What the schema hands out at once is kept here, however much that is: the
// schema bounds it.
func (r *reader) take(ctx context.Context, known tso.TS) error {
	if len(r.ddls) < aheadMax {
		for _, d := range r.schema.DDLs(known) {
			r.ddls = append(r.ddls, planned{DDL: d})
		}
	}
	for i := range min(len(r.ddls), aheadMax) {
		p := &r.ddls[i]
		if p.fatal() || r.cfg.TargetTS != 0 && p.SwitchTS > r.cfg.TargetTS {
			break // nothing behind it will be reached
		}
		if p.decided {
			continue
		}
		p.decide(r.scope)
		if err := r.follow(ctx, p, r.ddls[:i]); err != nil {
			return err
		}
	}
	return nil
}

// decide settles what is done about the DDL; an error waits for its turn.
func (p *planned) decide(s filter.Scope) {
	p.decided = true
	p.Decision, p.err = s.DDL(p.DDL)
}

// fatal tells whether the changefeed ends when the DDL's turn comes.
func (p *planned) fatal() bool { return p.err != nil }

// follow begins the physical ids that a DDL brings, from where their rows count.
// One that a DDL before brings or takes is left to the turns of both: begun here,
// it would stay open from this DDL on, and what that one brings would be missed.
func (r *reader) follow(ctx context.Context, p *planned, before []planned) error {
	from := p.SwitchTS
	if p.Action == event.ActionRecoverTable || p.Action == event.ActionRecoverSchema {
		from = p.FinishedTS
	}
	for _, id := range p.Added {
		if slices.ContainsFunc(before, func(b planned) bool { return slices.Contains(b.Added, id) || slices.Contains(b.Removed, id) }) {
			continue
		}
		if err := r.rows.Follow(ctx, span.OfTable(id), from); err != nil {
			return err
		}
	}
	return nil
}

// carryOut queues the wanted part of a DDL and leaves the physical ids that it takes.
func (r *reader) carryOut(ctx context.Context, p *planned) error {
	if p.SwitchTS < r.last {
		return cdcerr.Bug("DDL job %d of %d came when everything up to %d was read", p.JobID, p.SwitchTS, r.last)
	}
	r.cfg.Recorder.Record(tso.Move{Stage: tso.StageBarrier, From: r.last, To: p.SwitchTS, Cause: causeDDL})
	clear(r.cutter.wanted)
	if p.err != nil {
		return p.err
	}
	for _, t := range p.Keyless {
		r.skip(t)
	}
	for _, why := range p.Ignored {
		r.cfg.Log.Info("DDL is ignored, as configured", "changefeed", r.cfg.Changefeed, "job", p.JobID, "ts", p.SwitchTS, "why", why)
	}
	for _, id := range p.Removed {
		r.rows.Leave(span.OfTable(id))
	}
	if err := r.follow(ctx, p, nil); err != nil {
		return err
	}
	if p.Send == nil {
		return nil
	}
	return r.put(ctx, item{forget: p.SwitchTS, ddl: p.Send})
}
