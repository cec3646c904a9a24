package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// Plan is one run, as it follows from its seed.
type Plan struct {
	Seed    uint64
	Subject string // a recording's name, or workload: and its kind

	Lasts    time.Duration // how long the replay or the workload takes
	Faults   []string
	Every    time.Duration // from fault to fault, about
	For      time.Duration // the longest that one lasts
	PDGone   time.Duration // all members of PD are away for so long; 0: they are not
	PDAfter  time.Duration // from the beginning
	Locks    bool          // clients die and leave locks
	Kills    []Kill
	Embedded bool // metadata is in the process that is killed
	OnDisk   bool // the sorter has little memory and a disk
	Database bool // a MariaDB behind the journal, whose contents are the end
	PDLag    time.Duration
}

// Kill is when a life ends: after so many persisted checkpoints, or after a time,
// whichever comes first.
type Kill struct {
	Checkpoints int
	After       time.Duration
	// Early counts the time from the start of the process, else it is from when the
	// changefeed goes on.
	Early bool
}

// Subjects are what a plan may be about: all recordings, and the workloads.
func Subjects(recordings []string) []string {
	out := append([]string(nil), recordings...)
	for _, kind := range workload.Kinds() {
		out = append(out, workloadPrefix+kind)
	}
	return out
}

const workloadPrefix = "workload:"

// Size is how much time a plan may take.
type Size struct {
	Lasts    time.Duration // of a replay or a workload
	PDGone   time.Duration // when PD is gone
	KillsMax int
	// Databases lets some runs write to a MariaDB.
	Databases bool
}

// NewPlan draws the plan of a seed. Seeds in a row go through all subjects.
func NewPlan(seed uint64, subjects []string, s Size) Plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed: seed, Subject: subjects[seed%uint64(len(subjects))],
		Lasts: s.Lasts/2 + time.Duration(rng.Int64N(int64(s.Lasts))),
		Every: 20*time.Millisecond + time.Duration(rng.Int64N(int64(100*time.Millisecond))),
		For:   100*time.Millisecond + time.Duration(rng.Int64N(int64(900*time.Millisecond))),
		Locks: rng.IntN(2) == 0, Embedded: rng.IntN(2) == 0, OnDisk: rng.IntN(2) == 0,
		PDLag: time.Duration(rng.IntN(3)) * 20 * time.Millisecond,
	}
	all := faults()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p.Faults = all[:3+rng.IntN(len(all)-2)]
	if rng.IntN(8) == 0 {
		p.PDGone, p.PDAfter = s.PDGone, time.Duration(rng.Int64N(int64(s.Lasts/2)))
		// Nothing else is to bring a member back.
		p.Faults = slices.DeleteFunc(p.Faults, func(name string) bool { return strings.HasPrefix(name, "pd-") })
	}
	// A database makes a run three times as long.
	p.Database = rng.IntN(6) == 0 && s.Databases
	for range rng.IntN(s.KillsMax + 1) {
		p.Kills = append(p.Kills, Kill{
			Checkpoints: 1 + rng.IntN(12), After: 50*time.Millisecond + time.Duration(rng.Int64N(int64(s.Lasts))), Early: rng.IntN(4) == 0,
		})
	}
	return p
}

// faults are those that keep TiKV's promises, by name.
func faults() []string {
	var out []string
	for _, f := range fake.Faults() {
		if !f.Breaks {
			out = append(out, f.Name)
		}
	}
	return out
}

// String is the plan in a line.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s for %v, %s every %v for %v at most", p.Seed, p.Subject, p.Lasts.Round(time.Millisecond),
		strings.Join(p.Faults, " "), p.Every.Round(time.Millisecond), p.For.Round(time.Millisecond))
	if p.PDGone > 0 {
		fmt.Fprintf(&b, "; PD gone for %v after %v", p.PDGone, p.PDAfter.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "; locks %v, embedded etcd %v, on disk %v, database %v; kills %v", p.Locks, p.Embedded, p.OnDisk, p.Database, p.Kills)
	return b.String()
}
