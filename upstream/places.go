package upstream

import (
	"context"
	"sync"

	"github.com/google/btree"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// places remembers where regions and stores are, for reads. What it says may be
// old; the store then refuses, and the entry is dropped.
type places struct {
	mu    sync.Mutex
	by    *btree.BTreeG[place] // guarded by mu; by start key
	store map[uint64]string    // guarded by mu; addresses
	last  map[uint64]string    // guarded by mu; where stores were last, one each
}

// placesMax bounds the memory of regions. Reads are snapshots of schemas and of
// single tables; forgetting costs one question to PD.
const placesMax = 4096

// place is the region that holds a key, from memory or from PD, which is asked
// for all regions up to the end of s in one go.
func (c *Client) place(ctx context.Context, key span.Key, s span.Span) (place, error) {
	if p, ok := c.places.find(key); ok {
		return p, nil
	}
	s.Start = key
	found, err := c.locate(ctx, s)
	if err != nil {
		return place{}, err
	}
	if len(found) == 0 || !found[0].Span.Contains(key) || found[0].Store == 0 {
		return place{}, cdcerr.RegionLookup.New("PD knows no region with a leader for key %X", string(key))
	}
	c.places.put(found)
	return found[0], nil
}

func (t *places) find(key span.Key) (p place, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		return place{}, false
	}
	at := place{}
	at.Span.Start = key
	t.by.DescendLessOrEqual(at, func(o place) bool {
		p, ok = o, o.Span.Contains(key)
		return false
	})
	return p, ok
}

func (t *places) put(found []place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil || t.by.Len()+len(found) > placesMax {
		t.by = btree.NewG(16, func(a, b place) bool { return a.Span.Start < b.Span.Start })
	}
	for _, p := range found {
		if p.Store != 0 {
			t.by.ReplaceOrInsert(p)
		}
	}
}

// moved drops a place, or puts the leader that a store named in.
func (t *places) moved(p place, leader *metapb.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if leader == nil || leader.GetStoreId() == p.Store {
		t.by.Delete(p)
		return
	}
	p.peer, p.Store = leader, leader.GetStoreId()
	t.by.ReplaceOrInsert(p)
}

// address is where a store serves.
func (c *Client) address(ctx context.Context, store uint64) (string, error) {
	c.places.mu.Lock()
	known := c.places.store[store]
	c.places.mu.Unlock()
	if known != "" {
		return known, nil
	}
	found, err := c.storeAddress(ctx, store)
	if err != nil {
		return "", err
	}
	c.places.mu.Lock()
	defer c.places.mu.Unlock()
	if c.places.store == nil {
		c.places.store = map[uint64]string{}
	}
	c.places.store[store] = found
	return found, nil
}

// checked notes where a store was when PD was last asked.
func (t *places) checked(store uint64, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[uint64]string{}
	}
	t.last[store] = address
}

func (t *places) lastAddress(store uint64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[store]
}

// lost forgets a store's address after a call to it failed.
func (t *places) lost(store uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.store, store)
}
