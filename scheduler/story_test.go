package scheduler_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
)

// TestStories plays testdata: an owner, captures by name, and messages that are
// delivered when a story says so.
//
//	owner r1 at=100 tables=1,2 [whole=2] [each=n] [rest=n] [fenced] [sync=n] [recorded=n] [term=n] [target=n]   a new owner
//	      [gate=n]                                 ... of a changefeed with a redo log
//	capture a [floor=2]                            a capture whose key is in etcd
//	gone a | back a | silent a | heard a | stopping a       its lease is over; nothing reaches it; it is on its way out
//	drain a                                        an operator wants it empty
//	run n                                          n rounds: tick, deliver, work done at once
//	tick | reports | orders [b]                    one part of a round; orders to b alone, the others stay on their way
//	prepared a 1 | ended a 1 120 | at a 1 120      what a data path says, where work=manual
//	meta 150                                       the log's meta on the storage says so
//	log 150                                        what captures have logged, up to where it is durable
//	manual                                         from now on only stories say what the data path does
//	to 150                                         every capture writes up to where it may, at most 150
//	schema 150 [ddl=7@120 tables=1 add=3[@130] drop=1 whole=1,3 divisible=1 done|begun|unrecorded]
//	executed 7 | synced 200 | raised a | move 1 b | rebalance
//	restart a [the disk is full]                   a new life of a's half, and why; what names a disk may be of a capture alone
//	wrote a 7@120 [slow disk]                      what its reports say from now on: rows, the last, a warning
//	deaf a | hearing a                             it hears all of the upstream, or does not
//	load a 1 regions=9 [traffic=5] | cut 1 m       of each of a table's spans that it writes; borders as letters
//	sets                                           what the owner has
func TestStories(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		s := &story{t: t, halves: map[capture.ID]*half{}}
		return func(commands []string) string {
			s.out.Reset()
			for _, c := range commands {
				s.do(strings.Fields(c))
			}
			return s.out.String()
		}
	})
}

type story struct {
	t        *testing.T
	out      strings.Builder
	owner    *scheduler.Owner
	fenced   bool
	halves   map[capture.ID]*half
	names    []capture.ID
	manual   bool
	orders   []scheduler.Orders
	fences   []scheduler.Fence
	upto     tso.TS
	logged   tso.TS // what the captures say of it
	metaSays tso.TS // what the owner last wanted the meta to say
	gated    bool
	schema   tso.TS
}

type half struct {
	*scheduler.Capture
	cfg      scheduler.CaptureConfig
	silent   bool
	deaf     bool
	draining bool
	gone     bool
	liveness capture.Liveness
	reports  []scheduler.Report
	written  map[span.Span]tso.TS
	rows     uint64
	upto     tso.TS
	warning  string
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *story) number(v string) uint64 {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		s.t.Fatalf("%q: %v", v, err)
	}
	return n
}

func (s *story) ids(v string) (out []span.TableID) {
	if v == "" {
		return nil
	}
	for _, x := range strings.Split(v, ",") {
		out = append(out, span.TableID(s.number(x)))
	}
	return out
}

func options(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		out[k] = v
	}
	return out
}

func (s *story) do(w []string) {
	o := options(w[1:])
	switch w[0] {
	case "owner":
		s.newOwner(w[1], o)
	case "capture":
		s.newCapture(capture.ID(w[1]), o)
	case "gone", "back":
		s.halves[capture.ID(w[1])].gone = w[0] == "gone"
	case "deaf", "hearing":
		s.halves[capture.ID(w[1])].deaf = w[0] == "deaf"
	case "drain":
		s.halves[capture.ID(w[1])].draining = true
	case "silent", "heard":
		s.halves[capture.ID(w[1])].silent = w[0] == "silent"
	case "stopping":
		s.halves[capture.ID(w[1])].liveness = capture.Stopping
	case "run":
		for range s.number(w[1]) {
			s.round()
		}
	case "tick":
		s.tick()
	case "reports":
		s.reports()
	case "orders":
		s.deliver(w[1:]...)
	case "manual":
		s.manual = true
	case "to":
		s.upto = tso.TS(s.number(w[1]))
		s.write()
	case "meta":
		s.owner.Gate(tso.TS(s.number(w[1])))
	case "log":
		s.logged = tso.TS(s.number(w[1]))
	case "sets":
		s.sets()
	default:
		s.tell(w, o)
	}
}

// tell is what shells tell the halves.
func (s *story) tell(w []string, o map[string]string) {
	switch w[0] {
	case "prepared":
		s.halves[capture.ID(w[1])].Prepared(span.OfTable(span.TableID(s.number(w[2]))), 0)
	case "ended":
		s.halves[capture.ID(w[1])].Ended(span.OfTable(span.TableID(s.number(w[2]))), tso.TS(s.number(w[3])))
	case "at":
		ts := tso.TS(s.number(w[3]))
		s.halves[capture.ID(w[1])].Progress(span.OfTable(span.TableID(s.number(w[2]))), scheduler.Progress{Checkpoint: ts, Resolved: ts})
	case "schema":
		s.toSchema(w, o)
	case "executed":
		s.owner.Executed(int64(s.number(w[1])))
	case "synced":
		s.owner.Synced(tso.TS(s.number(w[1])))
	case "raised":
		for _, f := range s.fences {
			if f.Capture == capture.ID(w[1]) {
				s.owner.Raised(f)
			}
		}
	case "move":
		if err := s.owner.Move(span.TableID(s.number(w[1])), capture.ID(w[2])); err != nil {
			s.say("refused: %v", err)
		}
	case "rebalance":
		s.owner.Rebalance()
	case "wrote": // wrote a 7@120 [warning]
		h := s.halves[capture.ID(w[1])]
		n, at, _ := strings.Cut(w[2], "@")
		h.rows, h.upto, h.warning = s.number(n), tso.TS(s.number(at)), strings.Join(w[3:], " ")
	case "restart":
		h := s.halves[capture.ID(w[1])]
		h.rows, h.upto, h.warning = 0, 0, ""
		h.Capture, h.written, h.reports = h.Next(cmp.Or(strings.Join(w[2:], " "), "it failed")), map[span.Span]tso.TS{}, nil
		h.Schema(s.schema)
	case "load":
		h := s.halves[capture.ID(w[1])]
		for _, z := range s.owner.Sets(span.TableID(s.number(w[2]))) {
			traffic := uint64(0)
			if v := o["traffic"]; v != "" {
				traffic = s.number(v)
			}
			h.Load(z.Span, uint32(s.number(o["regions"])), traffic)
		}
	case "cut":
		whole := span.OfTable(span.TableID(s.number(w[1])))
		var keys []span.Key
		for _, k := range w[2:] {
			keys = append(keys, whole.Start+span.Key(k))
		}
		s.owner.Cut(whole, keys)
	default:
		s.t.Fatalf("%q is no command", w[0])
	}
}

func (s *story) newOwner(rev string, o map[string]string) {
	cfg := scheduler.Default()
	cfg.Owner, cfg.Epoch = scheduler.Revision(s.number(rev[1:])), 1
	cfg.ResendTicks, cfg.SilentTicks, cfg.BrokenTicks, cfg.HeartbeatTicks, cfg.BalanceTicks = 5, 4, 2, 2, 1000
	cfg.Split = scheduler.SplitConfig{Regions: 10, PartMax: 8}
	cfg.Local, cfg.RestTicks, cfg.RestMaxTicks, cfg.StuckTicks = func(text string) bool { return strings.Contains(text, "disk") }, 10, 20, 3
	if v := o["each"]; v != "" {
		cfg.Split.Each = uint32(s.number(v))
	}
	if v := o["rest"]; v != "" {
		cfg.Split.RestTicks, cfg.BalanceTicks = s.number(v), 5
	}
	_, cfg.Fenced = o["fenced"]
	s.fenced = cfg.Fenced
	if v := o["sync"]; v != "" {
		cfg.SyncEvery = int64(s.number(v))
	}
	at := tso.TS(s.number(o["at"]))
	var err error
	_, s.gated = o["gate"]
	cfg.Gated = s.gated
	r := scheduler.Resume{Watermark: scheduler.Watermark{Checkpoint: at, Resolved: at}, Tables: s.ids(o["tables"]), Whole: s.ids(o["whole"])}
	if v := o["gate"]; v != "" {
		r.Gate = tso.TS(s.number(v))
	}
	if v := o["recorded"]; v != "" {
		r.Recorded = tso.TS(s.number(v))
	}
	if v := o["term"]; v != "" {
		r.Term = scheduler.Term(s.number(v))
	}
	if v := o["target"]; v != "" {
		cfg.Target = tso.TS(s.number(v))
	}
	s.owner, err = scheduler.New(cfg, r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.orders = nil
}

func (s *story) newCapture(id capture.ID, o map[string]string) {
	h := &half{cfg: scheduler.CaptureConfig{ID: id, Epoch: 1, Incarnation: 1, Gated: s.gated, StatusesMax: 3}}
	if v := o["floor"]; v != "" {
		h.cfg.Floor = scheduler.Revision(s.number(v))
	}
	s.begin(h)
	s.halves[id] = h
	s.names = append(s.names, id)
	slices.Sort(s.names)
}

func (s *story) begin(h *half) {
	c, err := scheduler.NewCapture(h.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	h.Capture, h.written, h.reports = c, map[span.Span]tso.TS{}, nil
	h.Schema(s.schema)
}

func (s *story) toSchema(w []string, o map[string]string) {
	s.schema = tso.TS(s.number(w[1]))
	var ddls []scheduler.DDL
	var blocks []scheduler.Block
	if v := o["ddl"]; v != "" {
		job, ts, _ := strings.Cut(v, "@")
		_, done := o["done"]
		_, begun := o["begun"]
		_, unrecorded := o["unrecorded"]
		add, from, _ := strings.Cut(o["add"], "@")
		d := scheduler.DDL{
			Job: int64(s.number(job)), TS: tso.TS(s.number(ts)), Done: done, Begun: begun,
			Unrecorded: unrecorded, Tables: s.ids(o["tables"]), Added: s.ids(add), Removed: s.ids(o["drop"]),
			Whole: s.ids(o["whole"]), Divisible: s.ids(o["divisible"]),
		}
		if from != "" {
			d.AddedAt = tso.TS(s.number(from))
		}
		ddls = append(ddls, d)
		blocks = append(blocks, scheduler.Block{TS: d.TS, Tables: d.Tables, Added: d.Added})
	}
	s.owner.Schema(s.schema, ddls...)
	for _, id := range s.names {
		s.halves[id].Schema(s.schema, blocks...)
	}
}

// round is a tick, everything delivered, and the work done.
func (s *story) round() {
	s.tick()
	s.deliver()
	s.write()
	s.reports()
}

func (s *story) tick() {
	var v scheduler.View
	for _, id := range s.names {
		if h := s.halves[id]; !h.gone {
			v.Members = append(v.Members, scheduler.Member{ID: id, Liveness: h.liveness, Draining: h.draining})
		}
	}
	before := s.owner.Watermark()
	r := s.owner.Tick(v)
	if r.Err != nil {
		s.say("error: %v", r.Err)
	}
	for _, x := range r.Trace {
		s.say("%s: %v -> %v primary=%s secondary=%s (%s)", name(x.Span), x.From, x.To, x.Primary, x.Secondary, x.Why)
	}
	for _, f := range r.Fences {
		s.say("raise the fence of %s", f.Capture)
		s.fences = append(s.fences, f)
	}
	for _, d := range r.DDLs {
		s.say("carry out %d at %d", d.Job, d.TS)
	}
	for _, c := range r.Cuts {
		s.say("where to cut %s into %d", name(c.Span), c.Parts)
	}
	for _, f := range r.Warnings {
		s.say("warning of %s: %s", f.Capture, f.Err)
	}
	for _, f := range r.Spared {
		s.say("kept out is %s: %s", f.Capture, f.Err)
	}
	for _, f := range r.Faults {
		s.say("fault of %s: %s", f.Capture, f.Err)
	}
	if r.Sync != 0 {
		s.say("note sync point %d", r.Sync)
	}
	if r.Watermark != before {
		s.say("checkpoint %d", r.Watermark.Checkpoint)
	}
	if r.Log.Resolved != s.metaSays {
		s.say("meta: %d, in files of %q", r.Log.Resolved, r.Log.Extents)
		s.metaSays = r.Log.Resolved
	}
	s.owner.Saved(r.Watermark)
	s.orders = append(s.orders, r.Messages...)
	if err := s.owner.Check(); err != nil {
		s.say("broken: %v", err)
	}
}

func (s *story) deliver(only ...string) {
	all := s.orders
	s.orders = nil
	for _, m := range all {
		if len(only) > 0 && !slices.Contains(only, string(m.Capture)) {
			s.orders = append(s.orders, m)
			continue
		}
		for _, x := range m.Orders {
			s.say("-> %s %v %s from=%d", m.Capture, x.Verb, name(x.Span), x.From)
		}
		if h := s.halves[m.Capture]; h != nil && !h.silent && !h.gone {
			h.Step(m)
		}
	}
}

// write does what the data paths were told, and lets them write up to where they may.
func (s *story) write() {
	for _, id := range s.names {
		h := s.halves[id]
		if h.gone || h.silent {
			continue
		}
		r := h.Tick(h.liveness)
		if r.Report != nil {
			h.reports = append(h.reports, *r.Report)
		}
		for _, w := range r.Work {
			switch {
			case w.Verb == scheduler.Reset:
				s.say("   %s drops everything", id)
				clear(h.written)
			case w.Verb == scheduler.Prepare && !s.manual:
				h.Prepared(w.Span, w.From)
			case w.Verb == scheduler.Write:
				h.written[w.Span] = w.From
			case w.Verb == scheduler.Stop && !s.manual:
				h.Ended(w.Span, h.written[w.Span])
				delete(h.written, w.Span)
			}
		}
		if !s.manual {
			for _, z := range slices.SortedFunc(maps.Keys(h.written), func(a, b span.Span) int {
				return cmp.Or(cmp.Compare(a.TableID, b.TableID), strings.Compare(string(a.Start), string(b.Start)))
			}) {
				h.written[z] = max(h.written[z], min(s.upto, h.Limit(z)))
				p := scheduler.Progress{Checkpoint: h.written[z], Resolved: max(s.upto, h.written[z])}
				h.Progress(z, p)
			}
		}
		if s.gated {
			h.Logged(max(s.logged, h.Gate()), []byte(fmt.Sprintf("%s:%d", id, s.logged)))
		}
		if r := h.Tick(h.liveness); r.Report != nil {
			h.reports = append(h.reports, *r.Report)
		}
	}
}

func (s *story) reports() {
	for _, id := range s.names {
		h := s.halves[id]
		for _, r := range h.reports {
			r.Rows, r.Written, r.Warning, r.Deaf = h.rows, h.upto, h.warning, h.deaf
			if !h.silent && !h.gone {
				s.owner.Step(r)
			}
		}
		h.reports = nil
	}
}

func (s *story) sets() {
	for id := span.TableID(0); id < 20; id++ {
		for _, z := range s.owner.Sets(id) {
			s.say("%s %v primary=%s secondary=%s", name(z.Span), z.State, z.Primary(), z.Secondary())
		}
	}
	s.say("settled: %v", s.owner.Settled())
	if n, at := s.owner.Rows(); n > 0 {
		s.say("rows: %d up to %d", n, at)
	}
}

// name is a span as stories write it: the table, and its borders where it is a part.
func name(z span.Span) string {
	whole := span.OfTable(z.TableID)
	if z == whole {
		return strconv.FormatInt(z.TableID, 10)
	}
	from, to := "", ""
	if z.Start != whole.Start {
		from = string(z.Start[len(whole.Start):])
	}
	if z.End != whole.End {
		to = string(z.End[len(whole.Start):])
	}
	return fmt.Sprintf("%d[%s,%s)", z.TableID, from, to)
}
