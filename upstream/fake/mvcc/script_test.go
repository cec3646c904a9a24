package mvcc_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// TestScripts runs each story in testdata: blocks of commands, a line of four
// dashes, and what the store answered and showed. Keys are plain letters,
// timestamps plain numbers or, where time to live matters, as 70ms or 70ms+3.
//
//	new                                an empty store
//	prewrite s10 primary=a a=1 del:b lock:c insert:d=2 check:e   … with fu= holds=ab skips=c late=c at=b:7
//	         ttl= min= max= gen= src= async=bc onepc sure:a never:b
//	locking s10 primary=a fu=12 a insert:b   … with values exists only despite ttl= min=
//	unlock s10 upto=12 a b
//	commit s10 c20 a b
//	rollback s10 a b
//	cleanup s10 now=70ms a
//	inquire s10 a                      … with caller= now= roll force pessimistic verify
//	heartbeat s10 a ttl=50 min=30
//	secondaries s10 b c
//	see 30                             a read at, or a promise of, 30
//	get 30 a                           … with resolved=10 committed=10; max is the newest
//	locks 30                           the locks up to that start-ts
//	least                              the least start-ts of locks with data
func TestScripts(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		p := play{s: mvcc.New()}
		return func(commands []string) string {
			var answer strings.Builder
			p.out = &answer
			for _, line := range commands {
				p.command(t, line)
			}
			return answer.String()
		}
	})
}

type play struct {
	s   *mvcc.Store
	out *strings.Builder
}

// args are the words of a command: name=value, kind:key, flags and keys.
type args struct {
	t     *testing.T
	named map[string]string
	words []string
}

func parse(t *testing.T, line string) (command string, a args) {
	f := strings.Fields(line)
	a = args{t: t, named: map[string]string{}}
	for _, w := range f[1:] {
		if name, value, ok := strings.Cut(w, "="); ok && len(name) > 1 && !strings.Contains(name, ":") {
			a.named[name] = value
		} else {
			a.words = append(a.words, w)
		}
	}
	return f[0], a
}

// ts takes the next word, which starts with a letter, as a timestamp.
func (a *args) ts(letter string) tso.TS {
	w := a.words[0]
	a.words = a.words[1:]
	return at(a.t, strings.TrimPrefix(w, letter))
}

func (a *args) flag(name string) bool {
	for i, w := range a.words {
		if w == name {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return true
		}
	}
	return false
}

func (a *args) num(name string) uint64 { return uint64(at(a.t, a.named[name])) }

func (a *args) keys() [][]byte {
	var out [][]byte
	for _, w := range a.words {
		out = append(out, []byte(w))
	}
	return out
}

func at(t *testing.T, s string) tso.TS {
	t.Helper()
	switch s {
	case "":
		return 0
	case "max":
		return tso.Max
	}
	ms, logical, isTime := strings.Cut(s, "+")
	if d, err := time.ParseDuration(ms); err == nil && d != 0 {
		n, _ := strconv.Atoi(logical)
		return tso.New(d.Milliseconds(), int64(n))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || isTime {
		t.Fatalf("timestamp %q", s)
	}
	return tso.TS(n)
}

func show(ts tso.TS) string {
	if ts.Physical() == 0 || ts == tso.Max {
		return strconv.FormatUint(uint64(ts), 10)
	}
	if ts.Logical() == 0 {
		return fmt.Sprintf("%dms", ts.Physical())
	}
	return fmt.Sprintf("%dms+%d", ts.Physical(), ts.Logical())
}

func (p *play) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

func (p *play) changes(changes []mvcc.Change) {
	for i := range changes {
		ch := &changes[i]
		op := map[mvcc.Op]string{mvcc.Put: "put", mvcc.Delete: "delete", mvcc.LockOnly: "lock", mvcc.Pessimistic: "pessimistic"}[ch.Op]
		value := string(ch.Value)
		if len(value) > 20 {
			value = fmt.Sprintf("%d bytes", len(value))
		}
		switch ch.Kind {
		case mvcc.Prewrite:
			p.say("  PREWRITE %s %s s%s value %q old %q", ch.Key, op, show(ch.StartTS), value, ch.Old)
		case mvcc.Commit:
			p.say("  COMMIT %s %s s%s c%s value %q", ch.Key, op, show(ch.StartTS), show(ch.CommitTS), value)
		case mvcc.Committed:
			p.say("  COMMITTED %s %s s%s c%s value %q old %q", ch.Key, op, show(ch.StartTS), show(ch.CommitTS), value, ch.Old)
		case mvcc.RolledBack:
			p.say("  ROLLBACK %s s%s", ch.Key, show(ch.StartTS))
		}
	}
}

// done says what an ordinary write came to.
func (p *play) done(changes []mvcc.Change, err error) {
	if err != nil {
		p.say("%T: %v", err, err)
		return
	}
	p.say("ok")
	p.changes(changes)
}

func lockText(l *mvcc.Lock) string {
	op := map[mvcc.Op]string{mvcc.Put: "put", mvcc.Delete: "delete", mvcc.LockOnly: "lock", mvcc.Pessimistic: "pessimistic"}[l.Op]
	s := fmt.Sprintf("%s %s s%s primary %s ttl %d", l.Key, op, show(l.StartTS), l.Primary, l.TTL)
	if l.ForUpdateTS != 0 {
		s += " fu " + show(l.ForUpdateTS)
	}
	if l.MinCommitTS != 0 {
		s += " min " + show(l.MinCommitTS)
	}
	if l.AsyncCommit {
		s += fmt.Sprintf(" async %q", l.Secondaries)
	}
	return s
}

func (p *play) command(t *testing.T, line string) {
	name, a := parse(t, line)
	switch name {
	case "new":
		p.s = mvcc.New()
	case "prewrite":
		p.prewrite(&a)
	case "locking":
		p.locking(&a)
	case "unlock":
		start := a.ts("s")
		for _, k := range a.keys() {
			ch := p.s.Unlock(k, start, tso.TS(a.num("upto")))
			p.changes([]mvcc.Change{ch})
		}
	case "commit":
		start, commit := a.ts("s"), a.ts("c")
		p.done(p.s.CommitAll(a.keys(), start, commit))
	case "rollback":
		start := a.ts("s")
		p.done(p.s.RollbackAll(a.keys(), start))
	case "cleanup":
		start := a.ts("s")
		ch, err := p.s.Cleanup(a.keys()[0], start, tso.TS(a.num("now")))
		p.done([]mvcc.Change{ch}, err)
	case "see":
		p.s.See(a.ts(""))
	default:
		p.question(t, name, &a)
	}
}

func (p *play) prewrite(a *args) {
	req := &mvcc.Prewriting{
		StartTS: a.ts("s"), Primary: []byte(a.named["primary"]), ForUpdateTS: tso.TS(a.num("fu")), TTL: a.num("ttl"),
		MinCommitTS: tso.TS(a.num("min")), MaxCommitTS: tso.TS(a.num("max")), Generation: a.num("gen"), TxnSource: a.num("src"),
		OnePhase: a.flag("onepc"),
	}
	if s, ok := a.named["async"]; ok {
		req.AsyncCommit = true
		for _, k := range s {
			req.Secondaries = append(req.Secondaries, []byte(string(k)))
		}
	}
	asserted := map[string]mvcc.Assertion{}
	for _, w := range a.words {
		kind, rest, ok := strings.Cut(w, ":")
		if !ok {
			kind, rest = "put", w
		}
		key, value, _ := strings.Cut(rest, "=")
		if n, size, ok := strings.Cut(value, "*"); ok {
			count, _ := strconv.Atoi(size)
			value = strings.Repeat(n, count)
		}
		write := mvcc.Write{Op: mvcc.Put, Key: []byte(key), Value: []byte(value)}
		switch kind {
		case "del":
			write.Op = mvcc.Delete
		case "lock":
			write.Op = mvcc.LockOnly
		case "insert":
			write.Insert = true
		case "check":
			write.Op, write.Insert, write.CheckOnly = mvcc.LockOnly, true, true
		case "sure":
			asserted[key] = mvcc.MustExist
			continue
		case "never":
			asserted[key] = mvcc.MustNotExist
			continue
		}
		for check, keys := range map[mvcc.Check]string{mvcc.HoldsLock: a.named["holds"], mvcc.CheckConflict: a.named["late"]} {
			if strings.Contains(keys, key) {
				write.Check = check
			}
		}
		if k, ts, ok := strings.Cut(a.named["at"], ":"); ok && k == key {
			write.ForUpdateTS = at(a.t, ts)
		}
		req.Writes = append(req.Writes, write)
	}
	for i := range req.Writes {
		req.Writes[i].Assertion = asserted[string(req.Writes[i].Key)]
	}
	done, err := p.s.PrewriteAll(req)
	switch {
	case err != nil:
		p.say("%T: %v", err, err)
		return
	case done.OnePhaseTS != 0:
		p.say("one phase c%s", show(done.OnePhaseTS))
	case done.MinCommitTS != 0:
		p.say("async c%s", show(done.MinCommitTS))
	case len(done.Locked) == 0:
		p.say("ok")
	}
	for _, l := range done.Locked {
		p.say("locked: %s", lockText(l))
	}
	p.changes(done.Changes)
}

func (p *play) locking(a *args) {
	req := &mvcc.Locking{
		StartTS: a.ts("s"), Primary: []byte(a.named["primary"]), ForUpdateTS: tso.TS(a.num("fu")), TTL: a.num("ttl"), MinCommitTS: tso.TS(a.num("min")),
		ReturnValues: a.flag("values"), CheckExists: a.flag("exists"), OnlyIfExists: a.flag("only"), DespiteConflict: a.flag("despite"),
	}
	for _, w := range a.words {
		key, insert := strings.CutPrefix(w, "insert:")
		req.Keys = append(req.Keys, mvcc.LockKey{Key: []byte(key), Insert: insert})
	}
	found, err := p.s.LockAll(req)
	if err != nil {
		p.say("%T: %v", err, err)
		return
	}
	for i, f := range found {
		s := fmt.Sprintf("%s value %q exists %v", req.Keys[i].Key, f.Value, f.Exists)
		if f.ConflictTS != 0 {
			s += " despite c" + show(f.ConflictTS)
		}
		p.say("%s", s)
	}
}

func (p *play) question(t *testing.T, name string, a *args) {
	switch name {
	case "inquire":
		p.inquire(a)
	case "heartbeat":
		start := a.ts("s")
		ttl, changes, err := p.s.Heartbeat(a.keys()[0], start, a.num("ttl"), tso.TS(a.num("min")))
		if err != nil {
			p.say("%T: %v", err, err)
			return
		}
		p.say("ttl %d", ttl)
		p.changes(changes)
	case "secondaries":
		start := a.ts("s")
		locks, commit, changes := p.s.InquireSecondaries(a.keys(), start)
		switch {
		case commit != 0:
			p.say("committed c%s", show(commit))
		case len(locks) == 0:
			p.say("rolled back")
		}
		for _, l := range locks {
			p.say("%s", lockText(l))
		}
		p.changes(changes)
	case "get":
		r := mvcc.Read{At: a.ts("")}
		if n := a.num("resolved"); n != 0 {
			r.Resolved = []uint64{n}
		}
		if n := a.num("committed"); n != 0 {
			r.Committed = []uint64{n}
		}
		for _, k := range a.keys() {
			switch pair, ok := p.s.Snapshot().Get(k, r); {
			case pair.Locked != nil:
				p.say("%s locked s%s", k, show(pair.Locked.StartTS))
			case ok:
				p.say("%s=%s c%s", k, pair.Value, show(pair.CommitTS))
			default:
				p.say("%s none", k)
			}
		}
	case "locks":
		p.s.Locks(nil, nil, a.ts(""), func(l *mvcc.Lock) bool {
			p.say("%s", lockText(l))
			return true
		})
	case "least":
		least, ok := p.s.MinLock(nil, nil)
		p.say("%s %v", show(least), ok)
	default:
		t.Fatalf("command %q", name)
	}
}

func (p *play) inquire(a *args) {
	start := a.ts("s")
	q := mvcc.Inquiry{
		StartTS: start, Caller: tso.TS(a.num("caller")), Now: tso.TS(a.num("now")), RollbackMissing: a.flag("roll"),
		ForceSync: a.flag("force"), ForPessimistic: a.flag("pessimistic"), VerifyPrimary: a.flag("verify"),
	}
	q.Primary = a.keys()[0]
	st, changes, err := p.s.Inquire(q)
	action := map[mvcc.Action]string{
		mvcc.NoAction: "", mvcc.ExpiredRollback: " (expired, rolled back)", mvcc.MissingRollback: " (missing, rolled back)",
		mvcc.MinCommitPushed: " (pushed)", mvcc.ExpiredUnlock: " (expired, unlocked)", mvcc.MissingUndecided: " (missing, undecided)",
	}[st.Action]
	switch {
	case err != nil:
		p.say("%T: %v", err, err)
	case st.CommitTS != 0:
		p.say("committed c%s%s", show(st.CommitTS), action)
	case st.Lock != nil:
		p.say("open%s: %s", action, lockText(st.Lock))
	default:
		p.say("rolled back%s", action)
	}
	p.changes(changes)
}
