package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
)

// seat is this capture's part in one run of a changefeed.
type seat struct {
	run  uint64
	part atomic.Pointer[agent.Part] // nil until it is made
	stop context.CancelFunc
	done chan struct{} // closed when nothing of it goes on

	lives uint64 // of the scheduler's half, until now; of whoever sits
}

func newSeat(run uint64) *seat { return &seat{run: run, done: make(chan struct{})} }

func (s *seat) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// What keeps a capture from taking part may be its own, and over soon: a directory that is
// not mounted yet. Tried again sooner it would only be told again.
const (
	sitAgainMin = 5 * time.Second
	sitAgainMax = time.Minute
)

// attend takes part in a run until ctx ends, and tells the owner why where it cannot.
func (m *member) attend(ctx context.Context, s *seat, kept *meta.Changefeed, floor scheduler.Revision) {
	id := changefeed.ID{Namespace: kept.ID.Namespace, Name: kept.ID.Name}
	log := m.cfg.Log.With("changefeed", id.String(), "run", s.run)
	for wait := sitAgainMin; ctx.Err() == nil; wait = min(2*wait, sitAgainMax) {
		err := m.sit(ctx, s, kept, floor)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Warn("this capture takes no part in the changefeed", "error", err)
		resting, stop := ctx, context.CancelFunc(func() {})
		if c := cdcerr.Of(err); c != nil && c.Local() {
			resting, stop = context.WithTimeout(ctx, wait)
		}
		obeyed, err := m.excuse(resting, s, id, floor, err)
		if resting.Err() == nil {
			log.Warn("nor can it say so to the owner", "error", err)
			<-resting.Done()
		}
		floor = max(floor, obeyed) // an owner that was deposed meanwhile is nobody's any more
		stop()
	}
}

// sit takes part in a run until ctx ends.
func (m *member) sit(ctx context.Context, s *seat, kept *meta.Changefeed, floor scheduler.Revision) error {
	info, err := m.infoOf(kept)
	if err != nil {
		return err
	}
	warnLater(m.cfg.Log.With("changefeed", info.ID().String()), info)
	inbox, err := m.cfg.Transport.Orders(info.ID())
	if err != nil {
		return err
	}
	defer inbox.Close()
	redo, err := m.redoLog(ctx, info, kept.Status.Epoch, m.cfg.Log.With("changefeed", info.ID().String()))
	if err != nil {
		return err
	}
	cfg := agent.PartConfig{
		Name: info.ID().String(), ID: m.cfg.Self.ID, Epoch: s.run, Floor: floor,
		StartTS: rowsAbove(info.StartTS, kept.Status), Checkpoint: kept.Status.CheckpointTS,
		Filter: info.Config.FilterConfig(m.cfg.Zone), ForceReplicate: info.Config.ForceReplicate, FilterLoop: info.Config.BDRMode,
		Line:     &partLine{transport: m.cfg.Transport, inbox: inbox, changefeed: info.ID()},
		Liveness: m.stage, Lease: m.lease,
		Open: func(ctx context.Context, o agent.Opening) (sink.Sink, error) {
			return m.openRows(ctx, info, kept.Status.Epoch, o)
		},
		CountEvery: countEvery(&info.Config.Scheduler),
		Encode:     m.encode, Log: m.cfg.Log, Lives: s.lives,
	}
	if redo != nil {
		defer redo.close()
		cfg.Redo = redo.writer
	}
	part, err := m.cfg.Capture.Part(cfg)
	if err != nil {
		return err
	}
	s.part.Store(part)
	return part.Run(ctx)
}

// excuse tells each owner of a run why this capture takes no part in it, until ctx ends, and
// gives the last owner that it has heard. It holds nothing and takes nothing.
func (m *member) excuse(ctx context.Context, s *seat, id changefeed.ID, floor scheduler.Revision, why error) (scheduler.Revision, error) {
	inbox, err := m.cfg.Transport.Orders(id)
	if err != nil {
		return 0, err
	}
	defer inbox.Close()
	s.lives++
	half, err := scheduler.NewCapture(scheduler.CaptureConfig{ID: m.cfg.Self.ID, Epoch: s.run, Incarnation: s.lives, Floor: floor, Fault: m.encode(why), StatusesMax: scheduler.StatusesMax})
	if err != nil {
		return 0, err
	}
	line := &partLine{transport: m.cfg.Transport, inbox: inbox, changefeed: id}
	var led scheduler.Revision
	for {
		select {
		case <-line.Ready():
		case <-ctx.Done():
			return max(floor, led), ctx.Err()
		}
		for _, o := range line.Take() {
			half.Step(o)
			if now := half.Owner(); now != led {
				if led != 0 { // the owner before has noted it, and this one waits to be told
					s.lives++
					half = half.Next(m.encode(why))
					half.Step(o)
				}
				led = now
			}
		}
		if r := half.Tick(m.stage()); r.Report != nil {
			// That it has nothing is all that it tells: it says nothing under the term that it is
			// given for that, or spans would be given to it.
			r.Report.Complete = r.Report.Fault != ""
			line.Report(*r.Report)
		}
	}
}

// rowsAbove is above which timestamp rows are written: the start-ts, unless an operator
// has set the checkpoint further back. Then the row just above what that has come to is
// due.
func rowsAbove(start tso.TS, at meta.Status) tso.TS {
	if at.Epoch == 0 {
		return start
	}
	return min(start, at.CheckpointTS)
}

// openRows connects to the downstream of a changefeed's rows.
func (m *member) openRows(ctx context.Context, info *changefeed.Info, epoch uint64, o agent.Opening) (sink.Sink, error) {
	t := m.tallyOf(meta.ChangefeedID{Namespace: info.Namespace, Name: info.Name})
	uri, _, err := info.Config.Handed(info.SinkURI) // its notes are the owner's to log
	if err != nil {
		return nil, err
	}
	down := m.downstream(info, epoch)
	down.Role, down.Capture, down.Snapshot, down.Replayed = sink.Rows, string(m.cfg.Self.ID), o.Snapshot, o.Replayed
	down.Spared, down.Log = o.Filter.LeavesUpdates, m.cfg.Log.With("changefeed", info.ID().String())
	down.Warn = func(err error) {
		t.sinkError()
		o.Warn(err)
	}
	s, err := downstream.Open(ctx, uri.Reveal(), down)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	return counted{s, t, m.cfg.Now}, nil
}

// lease is until when a write may begin to commit, as of now.
func (c *Coordinator) lease() time.Time {
	return time.Now().Add(c.cfg.Session.Left() - leaseMargin)
}

// stage is how far this capture is on its way out.
func (c *Coordinator) stage() capture.Liveness {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.liveness
}

// encode is an error as it is told to an owner, with where it happened.
func (c *Coordinator) encode(err error) string {
	text, bad := json.Marshal(changefeed.NewFault(err, c.cfg.Self.Address, c.cfg.Now()))
	if bad != nil {
		return err.Error()
	}
	return string(text)
}

// silent is what is told of a capture that is waited for and says nothing.
func (m *member) silent(id capture.ID, since time.Time) *changefeed.Fault {
	m.mu.Lock()
	at := m.captures[id].Address
	m.mu.Unlock()
	err := cdcerr.CaptureSilent.New("capture %s at %s says nothing since %s; where its spans are and how far is not known while it is a member of the cluster", id, at, since.UTC().Format(time.RFC3339))
	return changefeed.NewFault(err, at, m.cfg.Now())
}

// told is an error that a capture has told.
type told struct{ fault *changefeed.Fault }

func (t told) Error() string { return t.fault.Message }

// decode is what a capture has told by encode.
func (c *Coordinator) decode(f scheduler.Fault) *changefeed.Fault {
	var out changefeed.Fault
	if err := json.Unmarshal([]byte(f.Err), &out); err != nil || out.Code == "" {
		return changefeed.NewFault(errors.New(f.Err), string(f.Capture), c.cfg.Now())
	}
	return &out
}

// partLine is how a part speaks with its owner.
type partLine struct {
	transport  *transport.Transport
	inbox      *transport.Inbox
	changefeed changefeed.ID

	// Who spoke last as the owner of the highest revision. It is of whoever takes and
	// reports, which is one goroutine.
	owner    capture.ID
	revision scheduler.Revision
}

// Ready implements agent.Line.
func (l *partLine) Ready() <-chan struct{} { return l.inbox.Ready() }

// Take implements agent.Line.
func (l *partLine) Take() (out []scheduler.Orders) {
	for _, r := range l.inbox.Take() {
		if r.Message.Orders == nil {
			continue
		}
		if r.Message.Orders.Owner >= l.revision {
			l.owner, l.revision = r.From, r.Message.Orders.Owner
		}
		out = append(out, *r.Message.Orders)
	}
	return out
}

// Report implements agent.Line.
func (l *partLine) Report(r scheduler.Report) {
	if r.Owner == l.revision {
		// An owner that is no member any more hears nothing, and needs to hear nothing.
		_ = l.transport.Send(l.owner, transport.Message{Changefeed: l.changefeed, Report: &r})
	}
}
