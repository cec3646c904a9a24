package disaster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/servers"
)

// Plan is one disaster.
type Plan struct {
	Seed    uint64
	S3      bool          // the log is in an S3; else in a directory
	Servers int           // one has its metadata in itself, unless Offline
	Slow    time.Duration // the downstream's answers
	After   time.Duration // of load until the upstream is killed
	// A server is killed while the load goes on, early enough to be back at the end of it;
	// a second before the upstream; with it.
	Early, Before, With Victim
	// Troubles come one after the other in the midst of the load.
	Troubles []servers.Event
	Left     time.Duration // how long the servers live on without an upstream
	// Live is how long they live on beside the first attempt to apply the log, which takes
	// the place of whoever writes; 0: all are killed before.
	Live  time.Duration
	Kills []time.Duration // after which the command is killed, one after the other
	// Offline leaves it to the servers: nobody runs the command. Decided is killed once
	// they have taken the upstream for lost.
	Offline bool
	Decided Victim
}

// Victim is the server that is killed.
type Victim int

// The victims.
const (
	Nobody Victim = iota
	Anybody
	TheOwner
)

// String is what a person reads of it.
func (v Victim) String() string { return [...]string{"nobody", "a server", "the owner"}[v] }

// grace is for how long an upstream has to be away for the servers to take it for lost.
const grace = 3 * time.Second

// Outage is for how long a downstream is away that is.
const Outage = 65 * time.Second

// troubles draws what the cluster goes through, outages of so long.
func troubles(rng *rand.Rand, p *Plan, outage time.Duration) {
	could := []func() servers.Event{servers.HandedOver, func() servers.Event { return servers.Paused(2 * time.Second) }}
	if p.Servers > 1 {
		could = append(could, servers.Drained, servers.Moved)
	}
	rng.Shuffle(len(could), func(i, j int) { could[i], could[j] = could[j], could[i] })
	for _, trouble := range could[:rng.IntN(3)] {
		p.Troubles = append(p.Troubles, trouble())
	}
	if rng.IntN(8) == 0 {
		p.Troubles = append(p.Troubles, servers.Away(outage))
	}
}

// Draw is the plan of a seed, in which the downstream is away for so long, where it is. The
// log's place is in turn, and who applies it.
func Draw(seed uint64, outage time.Duration) Plan {
	rng := rand.New(rand.NewPCG(seed, 11))
	ms := func(low, high int) time.Duration { return time.Duration(low+rng.IntN(high-low)) * time.Millisecond }
	victim := func() Victim { return Victim(max(0, rng.IntN(5)-2)) }
	p := Plan{Seed: seed, S3: seed%2 == 0, Servers: 1 + 2*rng.IntN(2), After: ms(3000, 12_000), Left: ms(0, 4000)}
	p.Slow = []time.Duration{0, 30 * time.Millisecond, 200 * time.Millisecond}[rng.IntN(3)]
	p.Early, p.Before, p.With = victim(), victim(), victim()
	if rng.IntN(3) == 0 {
		p.Live = ms(100, 3000)
	}
	for range rng.IntN(3) {
		p.Kills = append(p.Kills, ms(30, 1500))
	}
	if p.Offline = seed%3 == 0; p.Offline {
		p.Decided = victim()
		// The servers write what is left as they wrote before: so late that would take minutes.
		p.Left, p.Live, p.Kills, p.Slow = 0, 0, nil, min(p.Slow, 10*time.Millisecond)
	}
	troubles(rng, &p, outage)
	return p
}

// String is what a person reads of it.
func (p Plan) String() string {
	words := []string{fmt.Sprintf("%d server(s)", p.Servers), "log in a directory"}
	if p.S3 {
		words[1] = "log in S3"
	}
	if p.Slow > 0 {
		words = append(words, fmt.Sprintf("downstream %v late", p.Slow))
	}
	for _, kill := range []struct {
		who  Victim
		when string
	}{{p.Early, "early"}, {p.Before, "before"}, {p.With, "with it"}} {
		if kill.who != Nobody {
			words = append(words, fmt.Sprintf("%v killed %s", kill.who, kill.when))
		}
	}
	for _, t := range p.Troubles {
		words = append(words, t.Name)
	}
	switch {
	case p.Offline:
		words = append(words, "applied by the servers themselves")
		if p.Decided != Nobody {
			words = append(words, fmt.Sprintf("%v killed meanwhile", p.Decided))
		}
	case p.Live > 0:
		words = append(words, fmt.Sprintf("applied first among servers that live on for %v", p.Live))
	default:
		words = append(words, fmt.Sprintf("servers killed %v after", p.Left))
	}
	if len(p.Kills) > 0 {
		words = append(words, fmt.Sprintf("apply killed %d times", len(p.Kills)))
	}
	return strings.Join(words, ", ")
}

// Config is what all disasters share.
type Config struct {
	Sluice  string // the command of Sluice
	Program string // this very one: see servers.Config
	Dir     string // for data and logs
	Origin  origin.Config
	// Storage is the address of an empty place for one redo log in an S3; runs do not share it.
	Storage  func() (string, error)
	Patience time.Duration // for whatever is waited for
}

// site is the two sites of a plan.
func (c *Config) site(p Plan, dir, storage string) servers.Config {
	consistent := map[string]any{"level": "eventual", "storage": storage}
	if p.Offline {
		consistent["on_upstream_loss"], consistent["upstream_loss_grace"] = "apply", grace.String()
	}
	out := servers.Config{
		Sluice: c.Sluice, Program: c.Program, Dir: dir, Origin: c.Origin, Servers: p.Servers, Apart: p.Servers > 1 || p.Offline,
		Slow: p.Slow, SyncPointEvery: time.Second, Patience: c.Patience,
		Consistent: consistent, LossGraceMin: grace,
	}
	out.Origin.Seed = p.Seed
	return out
}
