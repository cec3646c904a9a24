package lock

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/tso"
)

// TestScripts runs each story in testdata: blocks of commands, a line of four
// dashes, and what follows from them. Timestamps are written as milliseconds.
//
//	lock KEY start=100 ttl=3000 primary=a [pessimistic] [async] [min=…] [for-update=…] [size=…] [file]
//	case KEY caller=50            opens the case of the lock at KEY
//	status now=200 [ttl=…] [commit=…] [action=…] [primary-async=b,c min=…] [absent] [mismatch] [trouble=…]
//	secondaries b,c [there=b,c min=…] [sync] [commit=…]
//	plan 100=committed@150 200=rolled-back 300=alive 400=abandoned
func TestScripts(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		p := play{}
		return func(commands []string) string {
			var out strings.Builder
			for _, line := range commands {
				out.WriteString(p.command(t, line))
			}
			return out.String()
		}
	})
}

type play struct {
	locks []Lock
	c     *Case
	now   tso.TS
}

// options reads the words after a command: key=value, or key alone.
func options(words []string) map[string]string {
	o := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		o[key] = value
	}
	return o
}

func ts(s string) tso.TS {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // a script's own mistake
	}
	return tso.New(n, 0)
}

func ms(s string) uint64 { return uint64(ts(s).Physical()) }

func show(t tso.TS) string {
	switch {
	case t == 0 || t == tso.Max:
		return map[tso.TS]string{0: "0", tso.Max: "max"}[t]
	case t.Logical() == 0:
		return fmt.Sprint(t.Physical())
	}
	return fmt.Sprintf("%d+%d", t.Physical(), t.Logical())
}

func keysOf(s string) (keys [][]byte) {
	for k := range strings.SplitSeq(s, ",") {
		if k != "" {
			keys = append(keys, []byte(k))
		}
	}
	return keys
}

func showKeys(keys [][]byte) string {
	var s []string
	for _, k := range keys {
		s = append(s, string(k))
	}
	return strings.Join(s, ",")
}

func (p *play) command(t *testing.T, line string) string {
	f := strings.Fields(line)
	switch f[0] {
	case "lock":
		o := options(f[2:])
		_, pessimistic := o["pessimistic"]
		_, async := o["async"]
		_, file := o["file"]
		l := Lock{Key: []byte(f[1]), Primary: []byte(o["primary"]), StartTS: ts(o["start"]), TTLMS: ms(o["ttl"]), Size: ms(o["size"]),
			Pessimistic: pessimistic, ForUpdateTS: ts(o["for-update"]), Async: async, MinCommitTS: ts(o["min"]), File: file}
		if len(p.locks) > 0 && p.c != nil {
			*p = play{} // a new story
		}
		p.locks = append(p.locks, l)
		return ""
	case "case":
		for _, l := range p.locks {
			if string(l.Key) == f[1] {
				p.c = New(l, ts(options(f[2:])["caller"]))
			}
		}
		return p.next()
	case "status":
		p.c.StepStatus(statusOf(options(f[1:])), ts(options(f[1:])["now"]))
		p.now = ts(options(f[1:])["now"])
		return p.next()
	case "secondaries":
		o := options(f[2:])
		_, turned := o["sync"]
		var there []Lock
		for _, k := range keysOf(o["there"]) {
			there = append(there, Lock{Key: k, Async: !turned, MinCommitTS: ts(o["min"])})
		}
		p.c.StepSecondaries(keysOf(f[1]), there, ts(o["commit"]))
		return p.next()
	case "plan":
		return p.plan(f[1:])
	}
	t.Fatalf("%q: no such command", line)
	return ""
}

var actions = map[string]Action{"": NoAction, "expired-rollback": ExpiredRollback, "absent-rollback": AbsentRollback,
	"pushed": CommitTSPushed, "expired-pessimistic": ExpiredPessimistic, "absent-nothing": AbsentNothing}

func statusOf(o map[string]string) Status {
	_, absent := o["absent"]
	_, mismatch := o["mismatch"]
	s := Status{TTLMS: ms(o["ttl"]), CommitTS: ts(o["commit"]), Action: actions[o["action"]], Absent: absent, Mismatch: mismatch, Trouble: o["trouble"]}
	if secondaries, ok := o["primary-async"]; ok {
		s.Primary = &Lock{Async: true, MinCommitTS: ts(o["min"]), Secondaries: keysOf(secondaries)}
	}
	return s
}

// next shows the verdict, or what is asked next.
func (p *play) next() string {
	if !p.c.Open() {
		v := p.c.Verdict()
		if v.Outcome == Committed {
			return fmt.Sprintf("committed at %s\n", show(v.CommitTS))
		}
		return v.String() + "\n"
	}
	a := p.c.Ask(p.now)
	if len(a.Keys) > 0 {
		return fmt.Sprintf("ask secondaries of %s: %s\n", show(a.StartTS), showKeys(a.Keys))
	}
	s := fmt.Sprintf("ask %s of %s caller %s", a.Primary, show(a.StartTS), show(a.Caller))
	for _, w := range []struct {
		on   bool
		word string
	}{{a.RollbackIfAbsent, "rollback-if-absent"}, {a.ForceSync, "force-sync"}, {a.Pessimistic, "pessimistic"}, {a.File, "file"}} {
		if w.on {
			s += " " + w.word
		}
	}
	return s + "\n"
}

func (p *play) plan(verdicts []string) string {
	known := map[tso.TS]Verdict{}
	for _, w := range verdicts {
		start, end, _ := strings.Cut(w, "=")
		name, commit, _ := strings.Cut(end, "@")
		v := Verdict{CommitTS: ts(commit)}
		for i, o := range outcomeNames {
			if o == strings.ReplaceAll(name, "-", " ") {
				v.Outcome = Outcome(i)
			}
		}
		known[ts(start)] = v
	}
	var b strings.Builder
	for _, c := range Cases(p.locks, known, 0) {
		fmt.Fprintf(&b, "to be judged: %s by %s\n", show(c.StartTS()), c.lock.Key)
	}
	for _, d := range Plan(p.locks, known) {
		switch {
		case d.Pessimistic:
			fmt.Fprintf(&b, "pessimistic rollback of %s up to for-update %s: %s", show(d.StartTS), show(d.ForUpdateTS), showKeys(d.Keys))
		case len(d.Keys) > 0:
			fmt.Fprintf(&b, "resolve %s at %s: %s", show(d.StartTS), show(d.CommitTS), showKeys(d.Keys))
		default:
			b.WriteString("resolve the region:")
			for _, x := range d.Txns {
				fmt.Fprintf(&b, " %s at %s", show(x.StartTS), show(x.CommitTS))
			}
		}
		if d.File {
			b.WriteString(" (file)")
		}
		b.WriteString("\n")
	}
	p.c = New(Lock{}, 0) // the next lock begins a new story
	return b.String()
}

func TestQueue(t *testing.T) {
	q := NewQueue(2, 10*time.Second)
	want := func(region uint64, at time.Duration, taken bool) {
		t.Helper()
		if got := q.Want(Visit{Region: region}, at); got != taken {
			t.Errorf("region %d at %v: taken %v", region, at, got)
		}
	}
	want(1, 0, true)
	want(1, 9*time.Second, false) // too soon
	want(2, 9*time.Second, true)
	want(3, 9*time.Second, false) // full
	if v, ok := q.Next(); !ok || v.Region != 1 {
		t.Errorf("got %v", v)
	}
	want(3, 9*time.Second, true) // being turned away does not count as a visit
	want(1, 10*time.Second, false)
	if q.Refused() != 2 || q.Waiting() != 2 {
		t.Errorf("%d refused, %d waiting", q.Refused(), q.Waiting())
	}
	// What is remembered stays in proportion to what is wished for in an interval.
	for i := range uint64(10_000) {
		q.Want(Visit{Region: 100 + i}, time.Duration(i)*time.Second)
		q.Next()
	}
	if len(q.last) > 64 {
		t.Errorf("%d visits are remembered", len(q.last))
	}
}
