package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// The names of events, by which they are counted.
const (
	KilledName      = "kill -9"
	KilledOwnerName = "kill -9 of the owner"
	EndedName       = "SIGTERM"
	SeveredName     = "connections killed"

	StoppedName   = "SIGSTOP"
	ContinuedName = "SIGCONT"

	FellName = "MariaDB killed"
	RoseName = "MariaDB is back"
)

// Signal sends a server a signal.
func Signal(name string, node int, sig syscall.Signal) Event {
	return Event{name, func(ctx context.Context, s *Site) error { return s.Nodes[node].Send(ctx, sig) }}
}

// SignalOwner sends the owner a signal: the first server where none says that it is.
func SignalOwner(name string, sig syscall.Signal) Event {
	return Event{name, func(ctx context.Context, s *Site) error { return s.owner(ctx).Send(ctx, sig) }}
}

// Sever ends some of the sink's connections, from the downstream's side.
func Sever(most int) Event {
	return Event{SeveredName, func(ctx context.Context, s *Site) error { return s.sever(ctx, most) }}
}

func (s *Site) sever(ctx context.Context, most int) error {
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = ? ORDER BY RAND() LIMIT ?", sinkUser, most)
	if err != nil {
		return err
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Close(); err != nil {
		return err
	}
	for _, id := range ids {
		// One that is gone by now needs no end.
		_, _ = s.db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
	}
	return rows.Err()
}

// Scripts are those that a Plan may name, each drawn from a seed: so many events of
// its main kind, on so many servers.
func Scripts() map[string]func(seed uint64, events, servers int) []Step {
	return map[string]func(seed uint64, events, servers int) []Step{"kills": Kills, "pauses": Pauses, "outages": Outages}
}

// Pauses draws a script: servers stand still for a while, often for longer than
// their lease lives, and go on as if nothing had been.
func Pauses(seed uint64, events, servers int) []Step {
	rng := rand.New(rand.NewPCG(seed, 8))
	var out []Step
	for range events {
		node := rng.IntN(servers)
		out = append(out,
			Step{Event: Signal(StoppedName, node, syscall.SIGSTOP), After: time.Duration(rng.Int64N(int64(2 * time.Second)))},
			Step{Event: Signal(ContinuedName, node, syscall.SIGCONT), After: time.Second + time.Duration(rng.Int64N(int64(14*time.Second))), Early: true})
	}
	return out
}

// Outages draws a script: the downstream is killed and comes back over what it had
// committed, and every third time a server is killed while it is away.
func Outages(seed uint64, events, servers int) []Step {
	rng := rand.New(rand.NewPCG(seed, 9))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	var out []Step
	for range events {
		out = append(out, Step{Event: Event{FellName, func(_ context.Context, s *Site) error { return s.Down.Kill() }}, After: upTo(2 * time.Second)})
		if rng.IntN(3) == 0 {
			out = append(out, Step{Event: Signal(KilledName, rng.IntN(servers), syscall.SIGKILL), After: upTo(time.Second), Early: true})
		}
		out = append(out, Step{Event: Event{RoseName, func(_ context.Context, s *Site) error { return s.Down.Restart() }}, After: upTo(3 * time.Second), Early: true})
	}
	return out
}

// Kills draws a script: so many kills with -9 of one of the servers, at moments of
// every kind, and other ends among them. Every third kill comes while the server
// still begins or catches up, the others while it follows the upstream closely.
func Kills(seed uint64, kills, servers int) []Step {
	rng := rand.New(rand.NewPCG(seed, 7))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	var out []Step
	for i := range kills {
		node := rng.IntN(servers)
		step := Step{Event: Signal(KilledName, node, syscall.SIGKILL), After: upTo(2 * time.Second)}
		if servers > 1 && rng.IntN(2) == 0 {
			step.Event = SignalOwner(KilledOwnerName, syscall.SIGKILL)
		}
		if i > 0 && rng.IntN(3) == 0 {
			// A lease lives for five seconds more; the changefeed goes on after that.
			step.Early, step.After = true, upTo(9*time.Second)
		}
		out = append(out, step)
		switch rng.IntN(8) {
		case 0:
			out = append(out, Step{Event: Signal(EndedName, rng.IntN(servers), syscall.SIGTERM), After: upTo(2 * time.Second)})
		case 1, 2:
			out = append(out, Step{Event: Sever(1 + rng.IntN(20)), After: upTo(2 * time.Second)})
		}
	}
	return out
}
