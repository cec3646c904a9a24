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
	var watched clientv3.LeaseID
	var left, renewed int64
	var until time.Time
	for {
		other, info, err := s.store.namesake(ctx, s.id, address, own)
		if err != nil || other == nil {
			return err
		}
		life, err := s.store.client.TimeToLive(ctx, clientv3.LeaseID(other.Lease))
		switch {
		case err != nil:
			return s.store.failure(err, "looking at the session of capture "+string(info.ID))
		case life.ID != watched:
			watched, renewed = life.ID, 0
			until = time.Now().Add(time.Duration(life.GrantedTTL)*time.Second + expiry)
			s.store.log.Info("another capture has this address; waiting until its session has run out, or is renewed",
				"address", address, "other", info.ID, "left", time.Duration(max(life.TTL, 0))*time.Second)
		case life.TTL > left:
			renewed++ // or an election in etcd has made it longer
			until = time.Now().Add(time.Duration(life.GrantedTTL)*time.Second + expiry)
		}
		left = life.TTL
		if renewed >= renewalsAlive || time.Now().After(until) {
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
