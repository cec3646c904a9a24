package mvcc_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// twin is the store again, as a list of everything that was committed and a map
// of locks.
type twin struct {
	commits []commit
	locks   map[string]mvcc.Lock
	records map[string][]record // by key, as TiKV keeps them
}

// record is a line of TiKV's write column family: a commit stands at its
// commit-ts, a rollback at its start-ts; where a commit stands there already, it
// is marked instead.
type record struct {
	at, start tso.TS
	rollback  bool
	protected bool
	overlap   bool // a protected rollback of at is marked here
}

func (w *twin) rolledBack(key string, start tso.TS) bool {
	return slices.ContainsFunc(w.records[key], func(r record) bool {
		return r.at == start && (r.rollback || r.overlap)
	})
}

func (w *twin) committed(key string, start tso.TS) bool {
	return slices.ContainsFunc(w.commits, func(c commit) bool { return c.key == key && c.start == start })
}

// roll writes a rollback; shown is whether anything was written.
func (w *twin) roll(key string, start tso.TS, protected bool) (shown bool) {
	all := w.records[key]
	at := slices.IndexFunc(all, func(r record) bool { return r.at == start })
	if at >= 0 {
		all[at].overlap = all[at].overlap || protected
		return protected
	}
	if !protected {
		before := -1
		for i, r := range all {
			if r.at < start && (before < 0 || r.at > all[before].at) {
				before = i
			}
		}
		if before >= 0 && all[before].rollback && !all[before].protected {
			all = slices.Delete(all, before, before+1)
		}
	}
	w.records[key] = append(all, record{at: start, start: start, rollback: true, protected: protected})
	return true
}

type commit struct {
	key           string
	start, commit tso.TS
	op            mvcc.Op
	value         string
}

func (w *twin) at(key string, ts tso.TS) (commit, bool) {
	var found commit
	for _, c := range w.commits {
		if c.key == key && c.commit <= ts && c.commit > found.commit && c.op != mvcc.LockOnly {
			found = c
		}
	}
	return found, found.op == mvcc.Put
}

func (w *twin) scan(start, end string, ts tso.TS) string {
	var out []string
	for k := 'a'; k <= 'f'; k++ {
		key := string(k)
		if key < start || (end != "" && key >= end) {
			continue
		}
		if l, ok := w.locks[key]; ok && l.StartTS <= ts && (l.Op == mvcc.Put || l.Op == mvcc.Delete) {
			out = append(out, key+" locked")
		} else if c, ok := w.at(key, ts); ok {
			out = append(out, key+"="+c.value)
		}
	}
	return strings.Join(out, " ")
}

func scanText(s mvcc.Snapshot, start, end string, ts tso.TS, reverse bool) string {
	var out []string
	s.Scan([]byte(start), []byte(end), mvcc.Read{At: ts}, reverse, func(p mvcc.Pair) bool {
		if p.Locked != nil {
			out = append(out, string(p.Key)+" locked")
		} else {
			out = append(out, string(p.Key)+"="+string(p.Value))
		}
		return true
	})
	if reverse {
		slices.Reverse(out)
	}
	return strings.Join(out, " ")
}

// Random transactions against the twin: every read, every old value, every
// refusal, the least lock, and snapshots that must not change under later writes.
func TestStoreAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mvcc.New()
		w := &twin{locks: map[string]mvcc.Lock{}, records: map[string][]record{}}
		type view struct {
			snapshot mvcc.Snapshot
			twin     twin
		}
		var views []view
		now := tso.TS(10)
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += 2
			key := keys.Draw(t, "key")
			start := now - tso.TS(rapid.IntRange(0, 9).Draw(t, "age"))
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				l := mvcc.Lock{
					Op: rapid.SampledFrom([]mvcc.Op{mvcc.Put, mvcc.Delete, mvcc.LockOnly, mvcc.Pessimistic}).Draw(t, "op"), Key: []byte(key),
					Primary: []byte("a"),
					Value:   fmt.Appendf(nil, "%d", i), StartTS: start,
					ForUpdateTS: rapid.SampledFrom([]tso.TS{0, now}).Draw(t, "for update"),
				}
				// A transaction that is over does not prewrite again: no check would
				// keep a pessimistic one from it.
				if !w.committed(key, start) {
					w.prewrite(t, s, l)
				}
			case 2, 3:
				if l, ok := w.locks[key]; ok {
					w.commit(t, s, l, now)
				}
			case 4:
				w.rollback(t, s, key, start)
			case 5:
				if l, ok := w.locks[key]; ok {
					w.rollback(t, s, key, l.StartTS)
				}
			case 6:
				views = append(views, view{s.Snapshot(), twin{slices.Clone(w.commits), maps.Clone(w.locks), nil}})
			}
			w.checkMinLock(t, s)
		}
		views = append(views, view{s.Snapshot(), *w})
		for _, v := range views {
			at := tso.TS(rapid.IntRange(5, int(now)+5).Draw(t, "at"))
			from, to := keys.Draw(t, "from"), rapid.SampledFrom([]string{"", "c", "f"}).Draw(t, "to")
			for _, reverse := range []bool{false, true} {
				if got, want := scanText(v.snapshot, from, to, at, reverse), v.twin.scan(from, to, at); got != want {
					t.Fatalf("scan [%s,%s) at %d reverse %v: got %q, want %q", from, to, at, reverse, got, want)
				}
			}
			if got, want := historyText(v.snapshot, at), v.twin.history(at); got != want {
				t.Fatalf("history after %d:\n got %s\nwant %s", at, got, want)
			}
		}
	})
}

func (w *twin) prewrite(t *rapid.T, s *mvcc.Store, l mvcc.Lock) {
	key := string(l.Key)
	ch, err := s.Prewrite(l)
	var newest commit // with data or not
	for _, c := range w.commits {
		if c.key == key && c.commit > newest.commit {
			newest = c
		}
	}
	held, locked := w.locks[key]
	var lockedErr *mvcc.LockedError
	var conflict *mvcc.ConflictError
	switch {
	case locked && held.StartTS != l.StartTS:
		if !errors.As(err, &lockedErr) || lockedErr.Lock.StartTS != held.StartTS {
			t.Fatalf("over a lock: %v", err)
		}
		return
	case w.rolledBack(key, l.StartTS):
		if !errors.As(err, &conflict) || conflict.Reason != mvcc.SelfRolledBack {
			t.Fatalf("after its rollback: %v", err)
		}
		return
	case newest.commit > max(l.StartTS, l.ForUpdateTS):
		if !errors.As(err, &conflict) || conflict.CommitTS != newest.commit {
			t.Fatalf("below a version: %v", err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	w.locks[key] = l
	if !l.Op.Data() {
		if ch.Kind != mvcc.Nothing {
			t.Fatalf("a lock without data shows %+v", ch)
		}
		return
	}
	old, _ := w.at(key, max(l.StartTS, l.ForUpdateTS))
	want := old.value
	if old.op == mvcc.Delete {
		want = ""
	}
	if ch.Kind != mvcc.Prewrite || string(ch.Old) != want || string(ch.Value) != string(l.Value) {
		t.Fatalf("prewrite shows %+v, old value %q", ch, want)
	}
}

func (w *twin) commit(t *rapid.T, s *mvcc.Store, l mvcc.Lock, at tso.TS) {
	key := string(l.Key)
	ch, err := s.Commit(l.Key, l.StartTS, at)
	if err != nil {
		t.Fatal(err)
	}
	if shows := ch.Kind == mvcc.Commit; shows != l.Op.Data() || ch.Old != nil {
		t.Fatalf("commit shows %+v", ch)
	}
	delete(w.locks, key)
	w.records[key] = append(w.records[key], record{at: at, start: l.StartTS})
	c := commit{key, l.StartTS, at, l.Op, string(l.Value)}
	if c.op == mvcc.Pessimistic {
		c.op = mvcc.LockOnly
	}
	w.commits = append(w.commits, c)
}

func (w *twin) rollback(t *rapid.T, s *mvcc.Store, key string, start tso.TS) {
	ch, err := s.Rollback([]byte(key), start)
	done := w.committed(key, start)
	var doneErr *mvcc.DoneError
	if done {
		if !errors.As(err, &doneErr) {
			t.Fatalf("rollback of a commit: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	l, locked := w.locks[key]
	mine := locked && l.StartTS == start
	shown := false
	switch {
	case mine:
		delete(w.locks, key)
		shown = w.roll(key, start, l.ForUpdateTS != 0 && key == string(l.Primary))
	case !w.rolledBack(key, start):
		shown = w.roll(key, start, false)
	}
	if (ch.Kind == mvcc.RolledBack) != shown {
		t.Fatalf("rollback shows %+v", ch)
	}
}

func (w *twin) checkMinLock(t *rapid.T, s *mvcc.Store) {
	least := map[string]tso.TS{}
	for k, l := range w.locks {
		for _, from := range []string{"", "c"} {
			if l.Op.Data() && k >= from && (least[from] == 0 || l.StartTS < least[from]) {
				least[from] = l.StartTS
			}
		}
	}
	for _, from := range []string{"", "c"} {
		got, ok := s.MinLock([]byte(from), nil)
		if got != least[from] || ok != (least[from] != 0) {
			t.Fatalf("least lock from %q: %d, want %d", from, got, least[from])
		}
	}
}

func (w *twin) history(after tso.TS) string {
	var out []string
	for k := 'a'; k <= 'f'; k++ {
		key := string(k)
		if l, ok := w.locks[key]; ok && l.Op.Data() {
			out = append(out, fmt.Sprintf("%s lock %d", key, l.StartTS))
		}
		var mine []commit
		for _, c := range w.commits {
			if c.key == key && c.commit > after && c.op != mvcc.LockOnly {
				mine = append(mine, c)
			}
		}
		slices.SortFunc(mine, func(a, b commit) int { return int(b.commit) - int(a.commit) })
		for _, c := range mine {
			old, ok := w.at(key, c.commit-1)
			if !ok {
				old.value = ""
			}
			out = append(out, fmt.Sprintf("%s=%s old %s at %d", key, c.value, old.value, c.commit))
		}
	}
	return strings.Join(out, ", ")
}

func historyText(s mvcc.Snapshot, after tso.TS) string {
	var out []string
	s.History(nil, nil, after, func(ch mvcc.Change) bool {
		if ch.Kind == mvcc.Prewrite {
			out = append(out, fmt.Sprintf("%s lock %d", ch.Key, ch.StartTS))
		} else {
			out = append(out, fmt.Sprintf("%s=%s old %s at %d", ch.Key, ch.Value, ch.Old, ch.CommitTS))
		}
		return true
	})
	return strings.Join(out, ", ")
}

func TestCommitOfNothing(t *testing.T) {
	s := mvcc.New()
	var noLock *mvcc.NoLockError
	if _, err := s.Commit([]byte("a"), 1, 2); !errors.As(err, &noLock) {
		t.Errorf("commit without a lock: %v", err)
	}
	if _, err := s.Rollback([]byte("a"), 1); err != nil {
		t.Error(err)
	}
	if _, err := s.Commit([]byte("a"), 1, 2); !errors.As(err, &noLock) {
		t.Errorf("commit after rollback: %v", err)
	}
}

// A version that comes late goes to its place, and older snapshots keep theirs.
func TestLoadOutOfOrder(t *testing.T) {
	s := mvcc.New()
	load := func(commit tso.TS, v string) {
		s.Load([]byte("a"), mvcc.Version{StartTS: commit - 1, CommitTS: commit, Op: mvcc.Put, Value: []byte(v)})
	}
	load(10, "ten")
	load(30, "thirty")
	before := s.Snapshot()
	load(20, "twenty")
	load(40, "forty")
	load(10, "again")
	for at, want := range map[tso.TS]string{9: "", 10: "again", 29: "twenty", 30: "thirty", 50: "forty"} {
		if p, _ := s.Snapshot().Get([]byte("a"), mvcc.Read{At: at}); string(p.Value) != want {
			t.Errorf("at %d: %q, want %q", at, p.Value, want)
		}
	}
	if p, _ := before.Get([]byte("a"), mvcc.Read{At: 50}); string(p.Value) != "thirty" {
		t.Errorf("the older snapshot reads %q", p.Value)
	}
	if n := len(s.Snapshot().Versions([]byte("a"))); n != 4 {
		t.Errorf("%d versions, want 4", n)
	}
}

// A reader whose ts lies below the lock's least commit-ts need not wait.
func TestLocksThatCannotMatter(t *testing.T) {
	s := mvcc.New()
	if _, err := s.Prewrite(mvcc.Lock{Op: mvcc.Put, Key: []byte("a"), StartTS: 10, MinCommitTS: 21}); err != nil {
		t.Fatal(err)
	}
	if p, ok := s.Snapshot().Get([]byte("a"), mvcc.Read{At: 20}); ok {
		t.Errorf("below min-commit-ts: %+v", p)
	}
	if p, _ := s.Snapshot().Get([]byte("a"), mvcc.Read{At: 21}); p.Locked == nil {
		t.Error("at min-commit-ts: not locked")
	}
	if p, _ := s.Snapshot().Get([]byte("a"), mvcc.Read{At: 30, Resolved: []uint64{10}}); p.Locked != nil {
		t.Error("a lock that the reader knows to be over")
	}
}
