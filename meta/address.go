package meta

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

const (
	// namesakeEvery is how often a capture with the same address is looked at.
	namesakeEvery = 300 * time.Millisecond
	// renewalsAlive are as many renewals as show that a session is somebody's: an etcd
	// that elects a leader makes one last longer once, and nobody lives by that.
	renewalsAlive = 2
	// expiry is how much longer than its time to live a session may be there that nobody
	// renews.
	expiry = 2 * time.Second
)

// ClaimAddress waits until no other capture has this address: one that is dead has it
// until its session has run out. One that lives keeps it, which shows when it renews its
// session: that is AddressTaken. Those of own are this process's, from before. When this
// session is registered only who came before counts: of two that begin at once one stays.
func (s *Session) ClaimAddress(ctx context.Context, address string, own map[capture.ID]bool) error {
	var seen suspicion
	for {
		other, info, err := s.store.namesake(ctx, s.id, address, own)
		if err != nil || other == nil {
			return err
		}
		life, err := s.store.timeToLive(ctx, clientv3.LeaseID(other.Lease))
		if err != nil {
			return s.store.failure(err, "looking at the session of capture "+string(info.ID))
		}
		first, alive := seen.look(time.Now(), life)
		if first {
			s.store.log.Info("another capture has this address; waiting until its session has run out, or is renewed",
				"address", address, "other", info.ID, "left", time.Duration(max(life.TTL, 0))*time.Second)
		}
		if alive {
			return cdcerr.AddressTaken.New("%s is the address of capture %s (version %s), which has been a member %s and renews its session",
				address, info.ID, info.Version, since(info.Since))
		}
		timer := time.NewTimer(namesakeEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// timeToLive asks how long a session lasts. etcd's client has no bound of its own.
func (s *Store) timeToLive(ctx context.Context, lease clientv3.LeaseID) (*clientv3.LeaseTimeToLiveResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.client.TimeToLive(ctx, lease)
}

// suspicion is what was seen of a session that may be nobody's.
type suspicion struct {
	of       clientv3.LeaseID
	left     int64
	renewals int
	until    time.Time // so long it lasts if nobody renews it
}

// look takes in how long the session lasts, and tells whether it was not looked at before,
// and whether it is somebody's.
func (s *suspicion) look(now time.Time, life *clientv3.LeaseTimeToLiveResponse) (first, alive bool) {
	first = life.ID != s.of
	longer := life.TTL > s.left // it was renewed, or an election in etcd has made it so
	switch {
	case first:
		*s = suspicion{of: life.ID}
	case longer:
		s.renewals++
	}
	if first || longer {
		s.until = now.Add(time.Duration(life.GrantedTTL)*time.Second + expiry)
	}
	s.left = life.TTL
	return first, s.renewals >= renewalsAlive || now.After(s.until)
}

func since(at time.Time) string {
	if at.IsZero() {
		return "for some time"
	}
	return "since " + at.UTC().Format(time.DateTime) + " UTC"
}

// namesake is the first of the other captures that have an address, nil where there is
// none; of those only that came before self, if that is registered.
func (s *Store) namesake(ctx context.Context, self capture.ID, address string, own map[capture.ID]bool) (*mvccpb.KeyValue, capture.Info, error) {
	res, err := s.get(ctx, "looking who has this address", s.keys.captures(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, capture.Info{}, err
	}
	for _, kv := range res.Kvs {
		if s.keys.parse(string(kv.Key)).kind != captureKey {
			continue
		}
		info, err := parseCapture(kv)
		switch {
		case err != nil:
			return nil, info, err
		case info.ID == self:
			return nil, info, nil
		case info.Address == address && !own[info.ID] && info.Liveness == capture.Alive:
			return kv, info, nil
		}
	}
	return nil, capture.Info{}, nil
}
