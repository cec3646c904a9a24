package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/transport"
)

// Config is what the control plane of one session works with. All of it outlives
// Run. Zero sizes and a nil Now stand for Default's.
type Config struct {
	Self      capture.Info
	ClusterID string
	Version   string
	Capture   *agent.Capture
	Store     *meta.Store
	Session   *meta.Session
	// Transport is what this capture says to the others, and hears; it runs.
	Transport *transport.Transport
	// GCService is the name in which the upstream keeps what the changefeeds have
	// still to read, GCTTL for how long for one that stands still.
	GCService string
	GCTTL     time.Duration
	// RedoBytes bounds what this capture holds of a changefeed's redo log, whatever the
	// changefeed allows; 0 does not.
	RedoBytes int64
	// Zone is where expressions of filters read TIMESTAMP columns.
	Zone   *time.Location
	Limits changefeed.Limits
	// SaveEvery bounds how often a changefeed's checkpoint is persisted.
	SaveEvery time.Duration
	Log       *slog.Logger
	Now       func() time.Time
}

// Default is a Config without what only its caller has.
func Default() Config {
	return Config{
		GCTTL: 24 * time.Hour,
		Zone:  time.UTC,
		// What is written again after a crash is at most this much.
		SaveEvery: 500 * time.Millisecond,
		Log:       slog.New(slog.DiscardHandler),
		Now:       time.Now,
	}
}

// Coordinator is the control plane of one session of one capture.
type Coordinator struct {
	cfg    Config
	member *member

	mu       sync.Mutex
	reign    *reign                       // nil while this capture is not the owner; guarded by mu
	liveness capture.Liveness             // guarded by mu
	sight    capture.Sight                // guarded by mu
	tallies  map[meta.ChangefeedID]*tally // guarded by mu

	telling sync.Mutex   // held while this capture's key is written
	told    capture.Info // what it says; guarded by telling
}

var _ api.Node = (*Coordinator)(nil)

// New makes one that does nothing before Run.
func New(cfg Config) *Coordinator {
	d := Default()
	if cfg.GCTTL == 0 {
		cfg.GCTTL = d.GCTTL
	}
	if cfg.SaveEvery == 0 {
		cfg.SaveEvery = d.SaveEvery
	}
	if cfg.Zone == nil {
		cfg.Zone = d.Zone
	}
	if cfg.Log == nil {
		cfg.Log = d.Log
	}
	if cfg.Now == nil {
		cfg.Now = d.Now
	}
	c := &Coordinator{cfg: cfg, tallies: map[meta.ChangefeedID]*tally{}, told: cfg.Self}
	c.member = newMember(c)
	return c
}

// errLeft ends what runs because this capture was told to end.
var errLeft = errors.New("told to end")

// Run takes part in what runs, stands for election and, elected, leads the
// changefeeds, until leave is closed; then it lets the next one lead, and ends when
// the others have taken over what it has, or there is nobody who could. When ctx ends
// it returns as soon as nothing of it writes.
func (c *Coordinator) Run(ctx context.Context, leave <-chan struct{}) error {
	g, ctx := errgroup.WithContext(ctx)
	leaving, left := context.WithCancelCause(ctx)
	g.Go(func() error { return c.member.run(ctx) })
	g.Go(func() error { return c.watchUpstream(ctx) })
	g.Go(func() error {
		select {
		case <-leave:
			c.stopping(ctx)
			left(errLeft)
		case <-ctx.Done():
		}
		return nil
	})
	g.Go(func() error {
		defer left(nil)
		for {
			err := c.lead(ctx, leaving)
			switch {
			case errors.Is(context.Cause(leaving), errLeft) && ctx.Err() == nil:
				return c.handOver(ctx)
			case err == nil:
			case again(err) && c.cfg.Session.Left() > 0:
				c.cfg.Log.Info("cannot lead, or stand for election; trying again", "error", err)
				if err := pause(leaving, leadAgain); err != nil {
					continue // it is looked at above why
				}
			default:
				return err
			}
		}
	})
	if err := g.Wait(); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// leadAgain is how long a capture waits before it stands for election again, after etcd
// has failed it. What it takes part in goes on meanwhile.
const leadAgain = 200 * time.Millisecond

// again tells whether an error leaves the session as it was.
func again(err error) bool {
	return cdcerr.MetaUnreachable.Is(err) || cdcerr.MetaConflict.Is(err) || cdcerr.NotOwner.Is(err)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopping says to everybody that this capture is on its way out: it is given nothing
// any more.
func (c *Coordinator) stopping(ctx context.Context) {
	if err := c.announce(ctx, func() { c.liveness = capture.Stopping }); err != nil {
		c.cfg.Log.Info("that this capture ends is told by its reports alone", "error", err)
	}
}

// handEvery is how often a capture looks whether it still has something.
const handEvery = 20 * time.Millisecond

// handOver waits until nothing keeps this capture, which is errLeft. Who could take over
// what it has is told so by an owner, and there is none while etcd has this one.
func (c *Coordinator) handOver(ctx context.Context) error {
	look := time.NewTicker(handEvery)
	defer look.Stop()
	for !c.member.idle() {
		if err := c.cfg.Session.StandDown(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Log.Info("cannot resign; trying again", "error", err)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errLeft
}

// lead waits to be elected and is the owner until it resigns, which is nil, or
// leaves, or fails.
func (c *Coordinator) lead(ctx, leaving context.Context) error {
	l, err := c.campaign(leaving)
	if err != nil {
		return err
	}
	c.cfg.Log.Info("elected", "owner-revision", l.Revision())
	r := newReign(c, l)
	err = r.run(ctx, leaving)
	c.mu.Lock()
	c.reign = nil
	c.mu.Unlock()
	if err != nil && !errors.Is(err, errLeft) && !again(err) {
		return err
	}
	// Whoever leads next must find it free, even if we are being told to end.
	if resigned := l.Resign(ctx); resigned != nil && !cdcerr.NotOwner.Is(resigned) {
		return errors.Join(err, resigned)
	}
	c.cfg.Log.Info("no longer the owner", "owner-revision", l.Revision())
	return err
}

// owner is the reign of this capture; cdcerr.OwnerNotFound while there is none.
func (c *Coordinator) owner() (*reign, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reign == nil {
		return nil, cdcerr.OwnerNotFound.New("capture %s is not the owner", c.cfg.Self.ID)
	}
	if c.cfg.Session.Left() <= 0 { // there may be another one, who has told more since
		return nil, cdcerr.OwnerNotFound.New("the session of capture %s is over", c.cfg.Self.ID)
	}
	return c.reign, nil
}
