package changefeed

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// walk is a life with what it must keep to, whatever happens to it.
type walk struct {
	*rapid.T
	life *Life
	now  time.Time
	info Info   // what was last made durable
	kept Status // and of this
	runs uint64 // the highest run that was begun
}

func (w *walk) tso(name string) tso.TS {
	return at(rapid.Int64Range(-100, int64(w.now.Sub(base)/time.Second)+100).Draw(w.T, name))
}

// operator does something; whatever it is, it may bring the changefeed back.
func (w *walk) operator() {
	switch rapid.IntRange(0, 9).Draw(w.T, "operator") {
	case 0, 1, 2:
		_ = w.life.Pause() // refused or not, the checks hold
	case 3, 4, 5, 6:
		_ = w.life.Resume(w.now, Resumption{Present: tso.At(w.now)})
	case 7:
		before := w.life.status
		err := w.life.Resume(w.now, Resumption{Present: tso.At(w.now), Overwrite: w.tso("overwrite")})
		if err == nil && w.life.status.Epoch != before.Epoch+1 || err != nil && w.life.status != before {
			w.Fatalf("overwrite: %v, %+v after %+v", err, w.life.status, before)
		}
	case 8:
		target := w.tso("target")
		_, _ = w.life.Update(Change{TargetTS: &target}) // refused or not
	default:
		if rapid.IntRange(0, 5).Draw(w.T, "remove") == 0 {
			w.life.Remove()
		}
	}
}

func (w *walk) report() {
	before := w.life.status
	r := Report{Run: w.life.run, CheckpointTS: w.tso("checkpoint")}
	if rapid.IntRange(0, 4).Draw(w.T, "late") == 0 {
		r.Run -= min(r.Run, uint64(rapid.IntRange(1, 3).Draw(w.T, "by")))
	}
	r.ResolvedTS = r.CheckpointTS + tso.TS(rapid.Uint64Range(0, 1<<30).Draw(w.T, "ahead"))
	codes := []*cdcerr.Code{nil, nil, nil, cdcerr.MySQLTxn, cdcerr.MySQLConnection, cdcerr.CorruptRow, cdcerr.SnapshotLostByGC, cdcerr.DataDirInUse}
	if c := rapid.SampledFrom(codes).Draw(w.T, "err"); c != nil {
		r.Err = NewFault(c.New("x"), "a", w.now)
	} else if c := rapid.SampledFrom(codes).Draw(w.T, "warning"); c != nil {
		r.Warning = NewFault(c.New("x"), "a", w.now)
	}
	late := r.Run != w.life.run
	w.life.Step(w.now, r)
	after := w.life.status
	switch {
	case after.Epoch != before.Epoch || after.CheckpointTS < before.CheckpointTS || after.ResolvedTS < before.ResolvedTS:
		w.Fatalf("P3: %+v after %+v", after, before)
	case late && after != before:
		w.Fatalf("a late report changed %+v to %+v", before, after)
	case !before.State.Running() && after.State != before.State && (before.State != Stopped || after.State != Failed):
		w.Fatalf("a report led from %s to %s", before.State, after.State)
	}
}

// owner is the next one, which knows what was kept. Revisions, and with them
// Options.Runs, may be of an etcd that came back from a backup.
func (w *walk) owner() {
	var err error
	w.life, err = New(w.info, w.kept, Options{Runs: rapid.Uint64Range(0, 2*w.runs+1).Draw(w.T, "runs"), GCTTL: 2 * time.Hour}, w.now)
	if err != nil {
		w.Fatal(err)
	}
}

func (w *walk) tick() {
	before := w.life.status.State
	wasRunning, retry := w.life.running, w.life.info.Trouble
	r := w.life.Tick(View{Now: w.now, Safepoint: w.tso("safepoint"), Blocking: rapid.IntRange(0, 3).Draw(w.T, "blocking") > 0})
	after := w.life.status
	if (before == Stopped || before == Finished || before == Failed || before == Removed) && after.State != before && after.State != Failed {
		w.Fatalf("time led from %s to %s", before, after.State)
	}
	if before == Removed != r.Remove {
		w.Fatalf("forget: %v in state %s", r.Remove, before)
	}
	if r.Status != nil {
		if r.Status.Epoch == w.kept.Epoch && r.Status.CheckpointTS < w.kept.CheckpointTS || r.Status.Epoch < w.kept.Epoch {
			w.Fatalf("P3: keep %+v after %+v", *r.Status, w.kept)
		}
		w.kept = *r.Status
	}
	if r.Info != nil {
		w.info = *r.Info
	}
	if w.kept != after && !r.Remove {
		w.Fatalf("%+v is not kept, which is %+v", after, w.kept)
	}
	if r.Start != nil {
		if w.kept.Run != r.Start.Run {
			w.Fatalf("start %+v, kept is %+v", *r.Start, w.kept)
		}
		if r.Start.Run < w.runs || r.Start.Run == w.runs != r.Start.Continues || r.Start.CheckpointTS != after.CheckpointTS || r.Start.Epoch != after.Epoch || !after.State.Running() {
			w.Fatalf("start %+v in %+v", *r.Start, after)
		}
		w.runs = r.Start.Run
		if before == Pending && retry != nil && w.now.Before(retry.RetryAt) {
			w.Fatalf("run again %s too early", retry.RetryAt.Sub(w.now))
		}
	}
	if after.State.Running() != w.life.running || wasRunning && !w.life.running && !r.Stop {
		w.Fatalf("running %v in state %s, stop %v", w.life.running, after.State, r.Stop)
	}
}

// TestAnyLife does all kinds of things to a changefeed: never back from where it
// stands without an operator, never back within an epoch, nothing begun that is
// not kept, no run beside another one.
func TestAnyLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{T: t, now: base}
		info := Info{Namespace: "default", Name: "any", SinkURI: "blackhole://", StartTS: at(0), Config: Default()}
		if rapid.Bool().Draw(t, "ends") {
			info.TargetTS = at(3000)
		}
		w.kept = Status{CheckpointTS: at(0), ResolvedTS: at(0), State: Normal}
		w.info = info
		var err error
		if w.life, err = New(info, w.kept, Options{Seed: rapid.Uint64().Draw(t, "seed"), GCTTL: 2 * time.Hour}, w.now); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				w.operator()
			case 8:
				w.owner()
			case 1, 2, 3:
				w.report()
			default:
				w.tick()
			}
			if err := w.life.check(); err != nil {
				t.Fatal(err)
			}
			if hold, ok := w.life.Hold(); ok && hold >= w.life.status.CheckpointTS {
				t.Fatalf("P7: holds %d, checkpoint %d", hold, w.life.status.CheckpointTS)
			}
		}
	})
}

// The waits are TiCDC's: 10 s, doubled up to 10 min, a tenth more or less.
func TestWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := New(Info{}, Status{}, Options{Seed: rapid.Uint64().Draw(t, "seed")}, base)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			want := min(10*time.Second<<i, 10*time.Minute)
			if got := l.wait(i + 1); got < want*9/10 || got > want*11/10 {
				t.Fatalf("attempt %d waits %s, want %s", i+1, got, want)
			}
		}
		if l.wait(1<<30) > 11*time.Minute {
			t.Fatal("many attempts")
		}
	})
}

// Many workers say one thing in words of their own, which is not kept each time; other
// words are kept after a while, and another code at once.
func TestAWarningInOtherWords(t *testing.T) {
	l, err := New(Info{Namespace: "default", Name: "a", Config: Default()}, Status{State: Normal}, Options{}, base)
	if err != nil {
		t.Fatal(err)
	}
	run := l.Tick(View{Now: base}).Start.Run
	kept := 0
	warn := func(after time.Duration, code *cdcerr.Code, words string) string {
		now := base.Add(after)
		l.Step(now, Report{Run: run, Warning: NewFault(code.New("%s", words), "a", now)})
		if r := l.Tick(View{Now: now}); r.Info != nil {
			kept++
		}
		return l.info.Warning.Message
	}
	for i := range 100 {
		warn(time.Duration(i)*10*time.Millisecond, cdcerr.MySQLConnection, string(rune('a'+i%16)))
	}
	if kept != 1 {
		t.Errorf("kept %d times", kept)
	}
	if got := warn(2*time.Second, cdcerr.MySQLTxn, "locked"); kept != 2 || !strings.Contains(got, "locked") {
		t.Errorf("another code: %d, %s", kept, got)
	}
	if got := warn(time.Minute, cdcerr.MySQLTxn, "still"); kept != 3 || !strings.Contains(got, "still") {
		t.Errorf("later: %d, %s", kept, got)
	}
}
