package region

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// TestScripts runs each story in testdata: blocks of commands, a line of four
// dashes, and what the Tracker decided. Keys are plain letters.
//
//	follow a z from=10            a new Tracker; stuck=4s slow=20s renew=1m now=5000ms parts=4 as it needs them
//	tick 50ms                     the time since the last tick
//	located a z: 1 v1 s1 a-m; …   PD's answer: id, version, store, range
//	rows 1: prewrite s5 k=v o=old g2; commit s5 c7 k put; committed s5 c7 k=v; rollback s5 k; initialized; unknown
//	resolved 1 2: 20              one message for several regions
//	fail 1 not_leader leader=2    a region error
//	fail 1 epoch_not_match: 2 v2 s0 a-m; …  with what the region has become
//	gone s1                       the store's stream broke
//	stale 1: …                    rows from the registration before the present one
//	clock 9000ms fastest=8000ms   PD's time, and the highest resolved-ts elsewhere
//	starved s1                    the store's stream could not be read for a while
//	held                          what waits for commits, what was left out
//	evict                         all prewrites in memory are put away
//
// A command that ends in & leaves its decisions to the next Ready. Timestamps are
// numbers, or wall clock parts with the unit ms.
// Streams are opened as needed: store n has the stream n*100, one more after each gone.
func TestScripts(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		p := &play{}
		return func(commands []string) string { return p.block(t, commands) }
	})
}

func (p *play) block(t *testing.T, commands []string) string {
	var out strings.Builder
	for _, line := range commands {
		line, together := strings.CutSuffix(line, " &")
		if err := p.command(line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !together {
			out.WriteString(p.ready())
		}
	}
	if err := p.t.Check(); err != nil {
		t.Fatalf("after %q: %v", commands, err)
	}
	return out.String()
}

// play is one script's Tracker with just enough of a shell.
type play struct {
	t       *Tracker
	now     time.Duration
	streams map[uint64]uint64
	last    map[uint64][]Source // registrations by region, oldest first
	away    map[uint64][]Lot    // prewrites that were put away, by registration, oldest first
	note    string
}

func (p *play) command(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	head, tail, _ := strings.Cut(rest, ":")
	f := strings.Fields(head)
	switch word {
	case "follow":
		*p = play{streams: map[uint64]uint64{}, last: map[uint64][]Source{}, away: map[uint64][]Lot{}}
		s := span.Span{TableID: 7, Start: span.Key(f[0]), End: endKey(f[1])}
		cfg := Config{Span: s, StartTS: tsOf(f[2][len("from="):]), Seed: 1}
		for _, opt := range f[3:] {
			key, v, _ := strings.Cut(opt, "=")
			d, _ := time.ParseDuration(v) // not all are one
			switch key {
			case "parts":
				cfg.PartRows = int(num(v))
			case "stuck":
				cfg.Stuck = d
			case "slow":
				cfg.Slow = d
			case "renew":
				cfg.Renew = d
			case "now":
				cfg.Now = tsOf(v)
			}
		}
		p.t = New(cfg)
		p.t.Tick(0)
	case "tick":
		d, err := time.ParseDuration(f[0])
		if err != nil {
			return err
		}
		p.now += d
		p.t.Tick(p.now)
	case "located":
		p.t.StepLocated(span.Span{TableID: 7, Start: span.Key(f[0]), End: endKey(f[1])}, regionsOf(tail))
	case "rows", "stale":
		all := p.last[num(f[0])]
		src := all[len(all)-1]
		if word == "stale" {
			src = all[len(all)-2]
		}
		p.t.StepRows(src, entriesOf(tail))
		p.find()
	case "resolved":
		for _, id := range f {
			src := p.last[num(id)][len(p.last[num(id)])-1]
			p.t.StepResolved(src.Stream, src.Slot, []uint64{src.Region}, tsOf(strings.TrimSpace(tail)))
		}
	case "fail":
		all := p.last[num(f[0])]
		p.t.StepFailure(all[len(all)-1], failureOf(f[1:], regionsOf(tail)))
	case "gone":
		store := num(f[0][1:])
		p.t.StepStreamGone(p.stream(store))
		p.streams[store]++
	case "clock":
		p.t.StepClock(tsOf(f[0]), tsOf(strings.TrimPrefix(f[1], "fastest=")))
	case "starved":
		p.t.StepStarved(p.stream(num(f[0][1:])))
	case "held":
		held := p.t.Held()
		p.note = fmt.Sprintf("held %d entries of %d bytes; %+v\n", held.Entries, held.Bytes-heldCost*int64(held.Entries), p.t.Counts())
	case "evict":
		p.evict()
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// evict puts all prewrites away.
func (p *play) evict() {
	for _, l := range p.t.Evict(1 << 30) {
		p.away[l.Of] = append(p.away[l.Of], l)
		for a := range l.All() {
			p.note += fmt.Sprintf("put away for registration %d: s%d %s=%s o=%s g%d\n", l.Of, a.StartTS, a.Key, a.Value, a.Old, a.Generation)
		}
	}
}

// find looks for what the last rows need of what was put away.
func (p *play) find() {
	of, keys := p.t.Sought()
	for i, k := range keys {
		p.note += fmt.Sprintf("look for registration %d: s%d %s\n", of, k.StartTS, k.Key)
		for _, l := range p.away[of] {
			for a := range l.All() {
				if a.StartTS == k.StartTS && string(a.Key) == string(k.Key) {
					p.t.StepFound(i, a)
				}
			}
		}
	}
	p.t.StepMatched()
}

func (p *play) stream(store uint64) uint64 {
	if p.streams[store] == 0 {
		p.streams[store] = store * 100
	}
	return p.streams[store]
}

// ready prints what the Tracker decided and acts on the requests.
func (p *play) ready() string {
	r := p.t.Ready()
	var b strings.Builder
	b.WriteString(p.note)
	p.note = ""
	for _, src := range r.Ends {
		fmt.Fprintf(&b, "end region %d of stream %d slot %d\n", src.Region, src.Stream, src.Slot)
	}
	for _, src := range r.Scanned {
		fmt.Fprintf(&b, "scanned region %d\n", src.Region)
	}
	for _, q := range r.Requests {
		src := Source{Stream: p.stream(q.Region.Store), Slot: q.Slot, Region: q.Region.ID}
		p.t.Placed(q, src.Stream)
		p.last[src.Region] = append(p.last[src.Region], src)
		urgent := map[bool]string{true: " urgently"}[q.Urgent]
		fmt.Fprintf(&b, "request region %d v%d [%s,%s) from %d of store %d stream %d slot %d%s\n",
			q.Region.ID, q.Region.Version, q.Span.Start, q.Span.End, q.StartTS, q.Region.Store, src.Stream, q.Slot, urgent)
	}
	for _, of := range r.Gone {
		fmt.Fprintf(&b, "nothing of registration %d is to be kept away\n", of)
	}
	for _, s := range r.Reloads {
		fmt.Fprintf(&b, "reload [%s,%s)\n", s.Start, s.End)
	}
	for _, row := range r.Rows {
		b.WriteString(showRow(row))
	}
	if r.Resolved != 0 {
		fmt.Fprintf(&b, "resolved %d\n", r.Resolved)
	}
	for _, m := range r.Moves {
		fmt.Fprintf(&b, "move %s\n", m)
	}
	b.WriteString(showLag(r))
	if r.Wake > p.now {
		fmt.Fprintf(&b, "wake in %v\n", r.Wake-p.now)
	}
	if r.Err != nil {
		fmt.Fprintf(&b, "error %v\n", r.Err)
	}
	return inMS.ReplaceAllStringFunc(b.String(), func(s string) string {
		if ts := tso.TS(num(s)); ts.Physical() > 0 && ts.Logical() == 0 {
			return fmt.Sprintf("%dms", ts.Physical())
		}
		return s
	})
}

// inMS finds timestamps that have a wall clock part.
var inMS = regexp.MustCompile(`\b\d{6,}\b`)

func showLag(r Ready) string {
	var b strings.Builder
	for _, s := range r.Stuck {
		fmt.Fprintf(&b, "search region %d [%s,%s) for locks up to %d\n", s.Region.ID, s.Span.Start, s.Span.End, s.Target)
	}
	if r.Lag == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "%d regions lag\n", r.Lag.Slow)
	for _, l := range r.Lag.Named {
		fmt.Fprintf(&b, "region %d [%s,%s) is %v behind and stands for %v at %d, renewed %d times, held by %d at %q\n",
			l.Region.ID, l.Span.Start, l.Span.End, l.Behind, l.Still, l.Resolved, l.Renewals, l.HeldBy, l.HeldKey)
	}
	return b.String()
}

// tsOf reads a timestamp: a number, or a wall clock part in ms.
func tsOf(s string) tso.TS {
	if ms, ok := strings.CutSuffix(s, "ms"); ok {
		return tso.New(int64(num(ms)), 0)
	}
	return tso.TS(num(s))
}

func showRow(row event.RawKV) string {
	op := "put"
	if row.Op == event.Delete {
		op = "delete"
	}
	return fmt.Sprintf("row %s %s=%s old=%s start %d commit %d\n", op, row.Key, row.Value, row.Old, row.StartTS, row.CommitTS)
}

func endKey(s string) span.Key {
	if s == "end" {
		return ""
	}
	return span.Key(s)
}

func num(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err) // a script's own mistake
	}
	return n
}

func regionsOf(text string) []Region {
	var out []Region
	for part := range strings.SplitSeq(text, ";") {
		f := strings.Fields(part)
		if len(f) == 0 {
			continue
		}
		from, to, _ := strings.Cut(f[3], "-")
		if from == "begin" {
			from = ""
		}
		out = append(out, Region{ID: num(f[0]), Version: num(f[1][1:]), Store: num(f[2][1:]),
			Span: span.Span{Start: span.Key(from), End: endKey(to)}})
	}
	return out
}

func failureOf(f []string, become []Region) Failure {
	out := Failure{Regions: become}
	for i, name := range failureNames {
		if name == f[0] {
			out.Kind = FailureKind(i)
		}
	}
	for _, opt := range f[1:] {
		key, v, _ := strings.Cut(opt, "=")
		switch key {
		case "leader":
			out.Leader = num(v)
		case "backoff":
			out.BackoffMS = num(v)
		case "detail":
			out.Detail = v
		}
	}
	return out
}

var entryTypes = map[string]EntryType{"unknown": Unknown, "prewrite": Prewrite, "commit": Commit,
	"rollback": Rollback, "committed": Committed, "initialized": Initialized}

func entriesOf(text string) []Entry {
	var out []Entry
	for part := range strings.SplitSeq(text, ";") {
		f := strings.Fields(part)
		e := Entry{Type: entryTypes[f[0]]}
		if e.Type == Committed || e.Type == Commit || e.Type == Prewrite {
			e.Op = OpPut
		}
		for _, w := range f[1:] {
			key, v, assigned := strings.Cut(w, "=")
			switch {
			case w == "delete":
				e.Op = OpDelete
			case assigned && key == "o":
				e.Old = []byte(v)
			case assigned:
				e.Key, e.Value = []byte(key), []byte(v)
			case w[0] == 's' && len(w) > 1:
				e.StartTS = tsOf(w[1:])
			case w[0] == 'c' && len(w) > 1:
				e.CommitTS = tsOf(w[1:])
			case w[0] == 'g' && len(w) > 1:
				e.Generation = num(w[1:])
			default:
				e.Key = []byte(w)
			}
		}
		out = append(out, e)
	}
	return out
}
