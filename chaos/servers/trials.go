package servers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

const termination = syscall.SIGTERM

// Trials are what befalls a cluster, in this order: what its operators do to it, and
// then what nobody wants.
func Trials() []Trial {
	const s = time.Second
	moves := Bound{P99: 2 * s, Max: 5 * s}
	again := Bound{Within: 10 * s}
	return []Trial{
		{"calm", "nothing, for 20s", Bound{}, 1, calm},
		{"rolling", "rolling restart of all captures by SIGTERM, owner included", moves, 1, rolling},
		{"scale", "scale 3 → 5 → 2", moves, 1, scale},
		{"drain", "drain of a capture, which is started again", moves, 1, drainOther},
		{"drain-owner", "drain of the owner, which is started again", moves, 1, drainOwner},
		{"move", "move 100 tables", moves, 1, moveTables},
		{"kill", "kill -9 a capture", Bound{Within: 3 * s}, 3, killOther},
		{"kill-owner", "kill -9 the owner", Bound{Within: 10 * s, Others: 2 * s}, 3, killOwner},
		{"stop", "SIGSTOP the busiest capture for 30s, then SIGCONT", again, 2, stopBusiest},
		{"stop-owner", "SIGSTOP the owner for 30s, then SIGCONT", again, 1, stopOwner},
		{"cut-etcd", "cut one capture from etcd", again, 1, cutting(other, fromEtcd)},
		{"cut-etcd-owner", "cut the owner from etcd", again, 1, cutting(theOwner, fromEtcd)},
		{"cut-peers", "cut one capture from its peers", again, 1, cutting(other, says, hears)},
		{"cut-out", "cut one capture's peers from what it says", again, 1, cutting(other, says)},
		{"cut-in", "cut one capture from what its peers say", again, 1, cutting(other, hears)},
		{"cut-peers-owner", "cut the owner from its peers", again, 1, cutting(theOwner, says, hears)},
		{"cut-store", "cut one capture from a TiKV store", again, 1, cutting(other, fromStore)},
		{"cut-store-owner", "cut the owner from a TiKV store", again, 1, cutting(theOwner, fromStore)},
	}
}

func calm(ctx context.Context, _ *Site, _ *Attempt) error {
	if !wait(ctx, 20*time.Second-calmFor) {
		return ctx.Err()
	}
	return nil
}

// between is what an operator waits from one server's restart to the next.
const between = 3 * time.Second

// rolling restarts one server after the other, as soon as the last one is back.
func rolling(ctx context.Context, s *Site, a *Attempt) error {
	a.begin("the first SIGTERM")
	for _, n := range s.living() {
		if err := s.again(ctx, n); err != nil {
			return err
		}
		if !wait(ctx, between) {
			return ctx.Err()
		}
	}
	return nil
}

// again ends a server in good order, and waits until it is a capture again.
func (s *Site) again(ctx context.Context, n *Node) error {
	if err := n.Send(ctx, termination); err != nil {
		return err
	}
	return s.until(ctx, n.Name+" is a capture again", func() error {
		_, err := s.shares(ctx)
		return err
	})
}

// scale lets servers come and go: those that come have tables before any goes, and
// the owner is among those that go.
func scale(ctx context.Context, s *Site, a *Attempt) error {
	if _, err := s.gathered(ctx); err != nil {
		return err
	}
	a.begin("the new ones")
	for _, n := range s.Nodes {
		n.Rise()
	}
	all, err := s.gathered(ctx)
	if err != nil {
		return err
	}
	a.note("tables on each: %v", sizes(all))
	if !wait(ctx, between) {
		return ctx.Err()
	}
	a.mark("the first that went")
	slices.SortFunc(all, func(x, y share) int { return compareOwner(y, x) })
	for _, one := range all[:len(all)-2] {
		if err := one.Rest(ctx, termination); err != nil {
			return err
		}
		if !wait(ctx, between) {
			return ctx.Err()
		}
	}
	all, err = s.gathered(ctx)
	a.note("then %v", sizes(all))
	return err
}

func compareOwner(x, y share) int {
	rank := map[bool]int{true: 1}
	return cmp.Compare(rank[x.Owner], rank[y.Owner])
}

func drainOther(ctx context.Context, s *Site, a *Attempt) error { return drainOf(ctx, s, a, other) }

func drainOwner(ctx context.Context, s *Site, a *Attempt) error { return drainOf(ctx, s, a, theOwner) }

func drainOf(ctx context.Context, s *Site, a *Attempt, pick picks) error {
	one, _, err := s.pick(ctx, pick)
	if err != nil {
		return err
	}
	a.begin("the drain")
	if err := s.drain(ctx, one); err != nil {
		return err
	}
	a.note("%d tables went within %v", len(one.Tables), ms(time.Since(a.begun)))
	return s.again(ctx, one.Node)
}

// moveTables moves the bank's tables, each to the next capture.
func moveTables(ctx context.Context, s *Site, a *Attempt) error {
	all, err := s.gathered(ctx)
	if err != nil {
		return err
	}
	names, err := s.Upstream.Tables()
	if err != nil {
		return err
	}
	to := map[string][]int64{}
	for i := range s.cfg.Origin.Tables {
		id := names[fmt.Sprintf("%s.a%d", workload.BankDB, i)]
		at := slices.IndexFunc(all, func(one share) bool { return slices.Contains(one.Tables, id) })
		next := all[(at+1)%len(all)].ID
		to[next] = append(to[next], id)
	}
	a.begin("the first move")
	for _, one := range all {
		if err := s.move(ctx, to[one.ID], one); err != nil {
			return err
		}
	}
	a.note("%d tables went within %v", s.cfg.Origin.Tables, ms(time.Since(a.begun)))
	return nil
}

// picks chooses one of captures that all have tables.
type picks func([]share) share

func theOwner(all []share) share { return slices.MaxFunc(all, compareOwner) }

// busiest has the most tables.
func busiest(all []share) share {
	return slices.MaxFunc(all, func(x, y share) int { return cmp.Compare(len(x.Tables), len(y.Tables)) })
}

// other is the busiest but for the owner.
func other(all []share) share {
	return busiest(slices.DeleteFunc(slices.Clone(all), func(one share) bool { return one.Owner && len(all) > 1 }))
}

func (s *Site) pick(ctx context.Context, pick picks) (one share, all []share, err error) {
	if all, err = s.gathered(ctx); err != nil {
		return one, nil, err
	}
	return pick(all), all, nil
}
