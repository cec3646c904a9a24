package changefeed

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/tso"
)

// base is second 0 of every story. Timestamps are written in seconds from it.
var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int64) tso.TS { return tso.At(base.Add(time.Duration(seconds) * time.Second)) }

func seconds(ts tso.TS) string {
	if ts == 0 {
		return "0"
	}
	d := ts.Time().Sub(base)
	if next := (ts + 1); next.Logical() == 0 { // just below a second
		return strconv.FormatInt(int64(next.Time().Sub(base)/time.Second), 10) + "-"
	}
	return strconv.FormatInt(int64(d/time.Second), 10)
}

// story is one life, led by commands:
//
//	create start=100 [target=500]          at second 100
//	tick 5s [safepoint=90 [blocking]]      lets time pass, and says what follows
//	report [checkpoint=… resolved=…] [err=CODE] [warn=CODE] [done] [run=…]
//	pause | resume [overwrite=…] [safepoint=…] | update target=… | remove
//	owner                                  another one takes over what was kept
type story struct {
	t      *testing.T
	now    time.Time
	life   *Life
	info   Info
	status Status
}

func TestLives(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		s := &story{t: t, now: base}
		return func(commands []string) string {
			var b strings.Builder
			for _, c := range commands {
				b.WriteString(s.do(c))
			}
			return b.String()
		}
	})
}

func (s *story) do(command string) string {
	words := strings.Fields(command)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	ts := func(key string) tso.TS {
		if args[key] == "" {
			return 0
		}
		n, err := strconv.ParseInt(args[key], 10, 64)
		if err != nil {
			s.t.Fatalf("%s: %v", command, err)
		}
		return at(n)
	}
	switch words[0] {
	case "create":
		return s.create(ts("start"), ts("target"), args["log"] != "")
	case "owner":
		return s.owner()
	case "tick":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		_, blocking := args["blocking"]
		return s.show(s.life.Tick(View{Now: s.now, Safepoint: ts("safepoint"), Blocking: blocking}))
	case "report":
		r := Report{Run: s.life.run, CheckpointTS: ts("checkpoint"), ResolvedTS: max(ts("checkpoint"), ts("resolved")), Err: s.fault(args["err"]), Warning: s.fault(args["warn"])}
		_, r.Done = args["done"]
		if args["run"] != "" {
			r.Run, _ = strconv.ParseUint(args["run"], 10, 64)
		}
		if args["resolved"] != "" {
			r.ResolvedTS = ts("resolved")
		}
		s.life.Step(s.now, r)
		return ""
	case "pause":
		return failure(s.life.Pause())
	case "resume":
		return failure(s.life.Resume(s.now, Resumption{Overwrite: ts("overwrite"), Present: tso.At(s.now), Safepoint: ts("safepoint")}))
	case "update":
		target := ts("target")
		_, err := s.life.Update(Change{TargetTS: &target})
		return failure(err)
	case "remove":
		s.life.Remove()
		return ""
	}
	return s.lost(words, args["warn"]+args["err"], ts("at"))
}

// lost are the commands of an upstream that is lost.
func (s *story) lost(words []string, code string, at tso.TS) string {
	switch words[0] {
	case "away":
		s.life.Away(s.now, s.fault("UpstreamUnreachable"))
		return ""
	case "reached":
		s.life.Reached(s.now)
		return ""
	case "lose":
		s.life.Lose(s.now, "a:1")
		return ""
	case "applying":
		s.life.ApplyWarns(s.fault(code))
		return ""
	case "fails":
		s.life.ApplyFails(s.fault(code))
		return ""
	case "applied":
		s.life.Applied(s.now, "a:1", at)
		return ""
	case "change":
		config, uri := Default(), URI("mysql://root:pw@other/")
		c := Change{SinkURI: &uri}
		if words[1] == "config" {
			c = Change{Config: &config}
		}
		_, err := s.life.Update(c)
		return failure(err)
	default:
		s.t.Fatalf("no command %q", words)
	}
	return ""
}

func (s *story) fault(code string) *Fault {
	if code == "" {
		return nil
	}
	return &Fault{Time: s.now, Addr: "a:1", Code: "CDC:Err" + code, Message: "it is " + code}
}

func failure(err error) string {
	if err == nil {
		return ""
	}
	return "refused: " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
}

func (s *story) create(start, target tso.TS, log bool) string {
	s.now = start.Time()
	config := Default()
	if log {
		config.Consistent.Level, config.Consistent.Storage, config.Consistent.OnUpstreamLoss = "eventual", "file:///log", "apply"
	}
	info, status, notes, err := Create(Creation{
		ID: ID{"default", "story"}, SinkURI: "mysql://root:pw@h/", StartTS: start, TargetTS: target, Config: config, Now: s.now, Present: tso.At(s.now),
	})
	if err != nil || len(notes) > 0 {
		return fmt.Sprint(notes, failure(err))
	}
	s.info, s.status = info, status
	return s.owner()
}

func (s *story) owner() string {
	stored, err := s.info.Stored()
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := ParseInfo(stored)
	if err != nil {
		s.t.Fatal(err)
	}
	runs := uint64(0)
	if s.life != nil {
		runs = s.life.run/100*100 + 100
	}
	if s.life, err = New(*info, s.status, Options{Seed: 1, Runs: runs}, s.now); err != nil {
		s.t.Fatal(err)
	}
	return ""
}

// show is a Ready in lines, with the state as it is kept.
func (s *story) show(r Ready) string {
	var b strings.Builder
	for _, t := range r.Trace {
		if t.From == t.To {
			fmt.Fprintf(&b, "%s: %s\n", t.From, t.Why)
		} else {
			fmt.Fprintf(&b, "%s -> %s: %s\n", t.From, t.To, t.Why)
		}
	}
	for _, m := range r.Moves {
		fmt.Fprintf(&b, "%s %s -> %s (%s)\n", m.Stage, seconds(m.From), seconds(m.To), m.Cause)
	}
	if r.Info != nil {
		s.info = *r.Info
		b.WriteString("keep info")
		if e := r.Info.Error; e != nil {
			fmt.Fprintf(&b, ", error %s %q", e.Code, e.Message)
		}
		if w := r.Info.Warning; w != nil {
			fmt.Fprintf(&b, ", warning %s", w.Code)
		}
		if t := r.Info.Trouble; t != nil {
			fmt.Fprintf(&b, ", %d attempts since %s", t.Attempts, t.Since.Sub(base))
			if t.Away {
				b.WriteString(" (away)")
			}
		}
		if l := r.Info.Loss; l != nil {
			fmt.Fprintf(&b, ", lost at %s", l.At.Sub(base))
			if l.AppliedTS != 0 {
				fmt.Fprintf(&b, " and applied to %s", seconds(l.AppliedTS))
			}
		}
		b.WriteString("\n")
	}
	if r.Status != nil {
		s.status = *r.Status
		fmt.Fprintf(&b, "keep status %s, checkpoint %s, epoch %d, run %d\n", r.Status.State, seconds(r.Status.CheckpointTS), r.Status.Epoch, r.Status.Run)
	}
	if r.Remove {
		b.WriteString("forget it\n")
	}
	if r.Stop {
		b.WriteString("stop\n")
	}
	if r.Start != nil {
		verb := "start"
		if r.Start.Continues {
			verb = "take up"
		}
		fmt.Fprintf(&b, verb+" run %d from %s, epoch %d\n", r.Start.Run, seconds(r.Start.CheckpointTS), r.Start.Epoch)
	}
	if r.Apply {
		b.WriteString("apply the redo log\n")
	}
	if hold, ok := s.life.Hold(); ok {
		fmt.Fprintf(&b, "holds %s\n", seconds(hold))
	} else {
		b.WriteString("holds nothing\n")
	}
	return b.String()
}

func TestFaults(t *testing.T) {
	f := NewFault(fmt.Errorf("sink: %w", cdcerr.MySQLTxn.New("x")), "a:1", base)
	if f.Code != "CDC:ErrMySQLTxnError" || f.class() != cdcerr.Retry || f.lost() {
		t.Errorf("%+v", f)
	}
	if f := NewFault(fmt.Errorf("nobody knows"), "", base); f.class() != cdcerr.Retry || f.Code != "CDC:ErrChangefeedRetryable" {
		t.Errorf("%+v", f)
	}
	if f := NewFault(cdcerr.SnapshotLostByGC.New("x"), "", base); f.class() != cdcerr.Terminal || !f.lost() {
		t.Errorf("%+v", f)
	}
	if f := NewFault(fmt.Errorf("%s", strings.Repeat("x", 9000)), "", base); len(f.Message) > messageMax+3 {
		t.Error(len(f.Message))
	}
}

func TestStates(t *testing.T) {
	for s, want := range map[State]struct {
		number, job int
		running     bool
	}{
		Normal: {0, 0, true}, Pending: {1, 1, false}, Failed: {2, 1, false}, Stopped: {3, 1, false}, Finished: {4, 4, false}, Removed: {5, 3, false}, Warning: {6, 0, true},
	} {
		if s.Number() != want.number || s.AdminJob() != want.job || s.Running() != want.running {
			t.Error(s, s.Number(), s.AdminJob(), s.Running())
		}
	}
}
