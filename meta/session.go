package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// renewals is how often a session is renewed within its time to live: two may be
// lost, and it lives.
const renewals = 3

// Session is a capture's proof of life: a lease, on which its keys are. When the
// lease is over they are gone.
type Session struct {
	store *Store
	id    capture.ID
	lease clientv3.LeaseID
	ttl   time.Duration
	now   func() time.Duration // a clock that does not stand still

	mu    sync.Mutex
	until time.Duration // guarded by mu: on that clock, when etcd may take it for over at the earliest
	lost  chan struct{} // closed when it is over
	over  bool          // guarded by mu
	led   Fence         // guarded by mu: by which it has led and not resigned, as far as is known
	left  bool          // guarded by mu: it is to run out, whatever Run is told
}

// NewSession asks for a lease of about this length, etcd may give a longer one.
// It lives on for as long as Run runs.
func (s *Store) NewSession(ctx context.Context, id capture.ID, ttl time.Duration) (*Session, error) {
	if err := checkWord("capture", string(id)); err != nil {
		return nil, err
	}
	if ttl < time.Second {
		return nil, cdcerr.InvalidArgument.New("session of %v: etcd counts in seconds", ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	begun := sinceBoot()
	res, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, s.failure(err, "beginning a session")
	}
	granted := time.Duration(res.TTL) * time.Second
	return &Session{
		store: s, id: id, lease: res.ID, ttl: granted, now: sinceBoot,
		until: begun + granted, lost: make(chan struct{}),
	}, nil
}

// farewell bounds the end of a session's lease: a capture that was told to end does
// not wait for etcd.
const farewell = time.Second

// Run renews the session until ctx ends, then ends its lease, so that nobody has to
// wait for it to run out. A session that could not be renewed in time is lost: then
// the error is SessionLost, and everything that wrote by it must have stopped.
func (s *Session) Run(ctx context.Context) error {
	defer s.end()
	every := s.ttl / renewals
	for {
		timer := time.NewTimer(min(every, max(s.Left(), 0)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if !s.abandoned() {
				s.revoke(context.WithoutCancel(ctx))
			}
			return ctx.Err()
		}
		if s.abandoned() {
			return cdcerr.SessionLost.New("session %016x of capture %s was abandoned", int64(s.lease), s.id)
		}
		err := s.renew(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return cdcerr.SessionLost.Wrap(err, "session %016x of capture %s", int64(s.lease), s.id)
		case s.Left() <= 0:
			return cdcerr.SessionLost.New("session %016x of capture %s could not be renewed for %v: %v", int64(s.lease), s.id, s.ttl, err)
		case err != nil:
			s.store.log.Info("the session cannot be renewed; trying again", "capture", s.id, "left", s.Left(), "error", err)
			every = s.ttl / (renewals * renewals)
		default:
			every = s.ttl / renewals
		}
	}
}

// renew asks once. The new time counts from before the question: etcd's counts from
// later on.
func (s *Session) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(s.ttl/renewals, s.store.cfg.RequestTimeout))
	defer cancel()
	begun := s.now()
	res, err := s.store.client.KeepAliveOnce(ctx, s.lease)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		s.until = max(s.until, begun+time.Duration(res.TTL)*time.Second)
	}
	return nil
}

// Abandon leaves the session to run out, as that of a process which was killed does:
// nothing may be written by it any more, and the end of Run says nothing to etcd.
func (s *Session) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.left = 0, true
}

func (s *Session) abandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Token names the session to EndEarlier.
func (s *Session) Token() string { return fmt.Sprintf("%s %016x", s.store.identity, int64(s.lease)) }

// EndEarlier ends the session of a token now, instead of when it runs out. Its caller
// knows that the process that had it is dead; a token of another cluster, and one of
// a session that is over, are none.
func (s *Store) EndEarlier(ctx context.Context, token string) error {
	identity, hex, _ := strings.Cut(strings.TrimSpace(token), " ")
	lease, err := strconv.ParseUint(hex, 16, 63)
	if err != nil || identity != s.identity {
		return nil // it names nothing here
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	_, err = s.client.Revoke(ctx, clientv3.LeaseID(lease)) //nolint:gosec // 63 bits
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	if err != nil {
		return s.failure(err, "ending an earlier session")
	}
	s.log.Info("the session of this capture's earlier life is ended", "lease", hex)
	return nil
}

func (s *Session) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if _, err := s.store.client.Revoke(ctx, s.lease); err != nil {
		s.store.log.Info("the session ends by running out", "capture", s.id, "error", err)
	}
}

func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = 0
	if !s.over {
		s.over = true
		close(s.lost)
	}
}

// Left is for how long the session is alive beyond doubt: a write that may commit
// later must not be begun. It is not positive once the session may be over.
func (s *Session) Left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until - s.now()
}

// Over is closed when Run has ended.
func (s *Session) Over() <-chan struct{} { return s.lost }

// Register writes what the capture says of itself, at first or anew. The key is gone
// with the session.
func (s *Session) Register(ctx context.Context, info capture.Info) error {
	if info.ID != s.id {
		return cdcerr.Bug("capture %s registers as %s", s.id, info.ID)
	}
	c := captureInfo{
		ID: string(info.ID), Address: info.Address, Version: info.Version, Stopping: info.Liveness == capture.Stopping,
		Upstream: sightWords[info.Upstream], NoUpstream: info.NoUpstream,
	}
	if !info.Since.IsZero() {
		c.Since = info.Since.Unix()
	}
	value, err := json.Marshal(c)
	if err != nil {
		return cdcerr.Bug("capture %s: %v", info.ID, err)
	}
	_, err = s.store.set(ctx, "registering capture "+string(info.ID), Fence{}, nil,
		[]clientv3.Op{clientv3.OpPut(s.store.keys.capture(info.ID), string(value), clientv3.WithLease(s.lease))})
	return err
}

// captureInfo is the JSON of a capture.Info.
type captureInfo struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Stopping says that it is on its way out; it is not there where it is not.
	Stopping bool `json:"stopping,omitempty"`
	// Since is when it joined, in seconds since 1970; not there where it does not say.
	Since int64 `json:"since,omitempty"`
	// Upstream is what it sees of the upstream, if it looks.
	Upstream string `json:"upstream,omitempty"`
	// NoUpstream says that it came without one.
	NoUpstream bool `json:"no-upstream,omitempty"`
}

// sightWords are capture.Sight, as they are kept.
var sightWords = [...]string{capture.Unlooked: "", capture.Reached: "reached", capture.Unreached: "unreached"}
