package servers

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/transport/badline"
)

func killOther(ctx context.Context, s *Site, a *Attempt) error {
	one, _, err := s.pick(ctx, other)
	if err != nil {
		return err
	}
	a.begin("the kill")
	a.note("it had %d tables", len(one.Tables))
	return one.Rest(ctx, syscall.SIGKILL)
}

// killOwner kills it with all others' heartbeats in sight, and asks the others for the
// changefeed meanwhile. It comes just after a sync point, at which everything would
// wait for an owner.
func killOwner(ctx context.Context, s *Site, a *Attempt) error {
	if err := s.spread(ctx); err != nil {
		return err
	}
	if err := s.syncPoint(ctx); err != nil {
		return err
	}
	all, err := s.gathered(ctx) // tables and owner may have moved since
	if err != nil {
		return err
	}
	owner := theOwner(all)
	names, err := s.Upstream.Tables()
	if err != nil {
		return err
	}
	a.others = nil
	for i := range s.cfg.Origin.Beats {
		id := names[beatName(i)]
		if at := slices.IndexFunc(all, func(one share) bool { return slices.Contains(one.Tables, id) }); at >= 0 && all[at].ID != owner.ID {
			a.others = append(a.others, i)
		}
	}
	if len(a.others) == 0 {
		return fmt.Errorf("no table of the heartbeat is on another capture: %w", errForGood)
	}
	a.begin("the kill")
	if err := owner.Rest(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	return s.refusals(ctx, a)
}

func beatName(number int) string { return fmt.Sprintf("%s.b%d", origin.BeatDB, number) }

// spread lets each capture have tables of the heartbeat.
func (s *Site) spread(ctx context.Context) error {
	all, err := s.gathered(ctx)
	if err != nil {
		return err
	}
	names, err := s.Upstream.Tables()
	if err != nil {
		return err
	}
	for i := range s.cfg.Origin.Beats {
		id, to := names[beatName(i)], all[i%len(all)]
		if !slices.Contains(to.Tables, id) {
			if err := s.move(ctx, []int64{id}, to); err != nil {
				return err
			}
		}
	}
	return s.calmAgain(ctx)
}

// syncPoint waits for the next one.
func (s *Site) syncPoint(ctx context.Context) error {
	last, err := s.lastSyncPoint(ctx)
	if err != nil {
		return err
	}
	return s.until(ctx, "another sync point", func() error {
		now, err := s.lastSyncPoint(ctx)
		if err == nil && now == last {
			err = fmt.Errorf("the last is %s", last)
		}
		return err
	})
}

func (s *Site) lastSyncPoint(ctx context.Context) (ts string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(primary_ts), '') FROM tidb_cdc.syncpoint_v1").Scan(&ts)
	return ts, err
}

// stopFor is for how long a process stands still: for longer than its lease.
const stopFor = 30 * time.Second

func stopBusiest(ctx context.Context, s *Site, a *Attempt) error { return stopOf(ctx, s, a, busiest) }

func stopOwner(ctx context.Context, s *Site, a *Attempt) error { return stopOf(ctx, s, a, theOwner) }

func stopOf(ctx context.Context, s *Site, a *Attempt, pick picks) error {
	one, _, err := s.pick(ctx, pick)
	if err != nil {
		return err
	}
	a.note("it had %d tables, owner: %v", len(one.Tables), one.Owner)
	a.begin("SIGSTOP")
	if err := one.Send(ctx, syscall.SIGSTOP); err != nil {
		return err
	}
	if !wait(ctx, stopFor) {
		return ctx.Err()
	}
	if err := s.left(ctx, a, one); err != nil {
		return err
	}
	a.mark("SIGCONT")
	return one.Send(ctx, syscall.SIGCONT)
}

// cutFor is for how long wires are cut: for longer than any lease.
const cutFor = 20 * time.Second

// cutting cuts wires of one capture.
func cutting(pick picks, what ...func(one share) []cut) func(context.Context, *Site, *Attempt) error {
	return func(ctx context.Context, s *Site, a *Attempt) error {
		one, _, err := s.pick(ctx, pick)
		if err != nil {
			return err
		}
		a.note("it had %d tables, owner: %v", len(one.Tables), one.Owner)
		a.begin("the cut")
		var all []cut
		for _, w := range what {
			all = append(all, w(one)...)
		}
		s.wires.Cut(all...)
		if !wait(ctx, cutFor) {
			return ctx.Err()
		}
		err = s.left(ctx, a, one)
		a.mark("its end")
		s.wires.Cut()
		return err
	}
}

// left notes what a capture has after something befell it.
func (s *Site) left(ctx context.Context, a *Attempt, one share) error {
	return s.until(ctx, "what it has left", func() error {
		tasks, err := s.tasks(ctx)
		if err == nil {
			a.note("%d at the end", len(tasks[one.ID]))
		}
		return err
	})
}

// bothWays cuts a capture off somebody whom it calls.
func bothWays(one share, to string) []cut {
	of := func(w wire) bool { return w.from == one.Name && w.to == to }
	return []cut{{of, badline.Out}, {of, badline.In}}
}

func fromEtcd(one share) []cut { return bothWays(one, etcdName) }

func fromStore(one share) []cut { return bothWays(one, storeName(0)) }

// calls and called are a capture's wires to others.
func calls(one share) func(wire) bool {
	return func(w wire) bool { return w.from == one.Name && w.isPeers() }
}

func called(one share) func(wire) bool {
	return func(w wire) bool { return w.to == one.Name && w.isPeers() }
}

// says is what a capture says to others, whoever has called; hears the other way.
func says(one share) []cut { return []cut{{calls(one), badline.Out}, {called(one), badline.In}} }

func hears(one share) []cut { return []cut{{calls(one), badline.In}, {called(one), badline.Out}} }
