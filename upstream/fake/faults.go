package fake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"

	"github.com/sluice-cdc/sluice/tso"
)

// Fault is something that may befall a cluster.
type Fault struct {
	Name    string
	Promise string // what TiKV and PD promise in the matter
	Breaks  bool   // the fault breaks the promise; else it keeps it
	// strike lets it happen, and returns when it is over, with what it was.
	strike func(ctx context.Context, b *blow) (what string, err error)
}

// regionsMax is how many regions splits may make: enough for every table to
// have several, few enough for a storm to come back to each.
const regionsMax = 60

// Faults is all faults.
func Faults() []Fault {
	const (
		epochs  = "a region that is cut or joined ends its registrations with epoch_not_match, and loses nothing"
		leaders = "one store leads a region, and answers for it; the others say not_leader"
		restart = "what was committed is there after a restart; streams that broke are to be opened again"
		network = "bytes arrive late or not at all, but in order and unchanged"
		retry   = "a registration may be ended at any time with an error that says how to go on"
		pd      = "one member of PD leads; timestamps only grow, whoever leads"
		order   = "rows of one key come in order, and a COMMIT after its PREWRITE"
		resolve = "after a resolved-ts R no row with commit-ts ≤ R comes"
	)
	return []Fault{
		{"split", epochs, false, split},
		{"merge", epochs, false, merge},
		{"lead", leaders, false, lead},
		{"store-restart", restart, false, storeRestart},
		{"store-freeze", network, false, storeTrouble("frozen", Trouble{HoldIn: true, HoldOut: true})},
		{"store-deaf", network, false, storeTrouble("cut off from its clients", Trouble{HoldIn: true})},
		{"store-mute", network, false, storeTrouble("cut off towards its clients", Trouble{HoldOut: true})},
		{"store-slow", network, false, storeSlow},
		{"stream-cut", restart, false, streamCut},
		{"feed-error", retry, false, feedError},
		{"region-lag", "resolved-ts moves at no promised speed", false, regionLag},
		{"pd-lead", pd, false, pdLead},
		{"pd-restart", pd, false, pdRestart},
		{"pd-gone", pd, false, pdGone},
		{"pd-late", "PD knows of regions what stores have told it, at some time", false, pdLate},

		{"commit-without-prewrite", order, true, broken(CommitWithoutPrewrite)},
		{"repeated-commit", order, true, broken(RepeatedCommit)},
		{"lost-row", "whatever is committed is told", true, broken(LostRow)},
		{"late-row", resolve, true, broken(LateRow)},
		{"regressing-resolved", "the resolved-ts of a registration never falls", true, broken(RegressingResolved)},
		{"early-resolved", "no resolved-ts comes before a scan is over", true, broken(EarlyResolved)},
		{"row-after-error", "after an error nothing of its registration comes", true, broken(RowAfterError)},
		{"feed-refused", "duplicate_request, compatibility and cluster_id_mismatch come only to who is in the wrong", true, feedRefused},
		{"wrong-cluster", "a cluster's id never changes", true, wrongCluster},
	}
}

func split(_ context.Context, b *blow) (string, error) {
	c := b.cluster
	all := c.Regions()
	if len(all) >= regionsMax {
		return "nothing: enough regions", nil
	}
	// Somewhere among the first keys from some region on.
	key, skip := []byte(nil), b.rng.IntN(64)
	c.Snapshot().Scan(all[b.rng.IntN(len(all))].RawStart, nil, mvcc.Read{At: tso.Max}, false, func(p mvcc.Pair) bool {
		key = p.Key
		skip--
		return skip >= 0
	})
	if len(key) > tablePrefix && b.rng.IntN(4) == 0 {
		key = key[:tablePrefix] // at the border of its table
	}
	if len(key) == 0 {
		return "nothing: no keys", nil
	}
	c.Split(key)
	return fmt.Sprintf("at %X", key), nil
}

func merge(ctx context.Context, b *blow) (string, error) {
	c := b.cluster
	all := c.Regions()
	if len(all) < 2 {
		return "nothing: one region", nil
	}
	i := b.rng.IntN(len(all) - 1)
	source, target := all[i], all[i+1]
	if b.coin() {
		source, target = target, source
	}
	if err := c.PrepareMerge(source.ID); err != nil {
		return refused(err), nil
	}
	if b.coin() {
		b.last(ctx, 0.1)
	}
	if b.rng.IntN(8) > 0 && c.CommitMerge(source.ID, target.ID) == nil {
		return fmt.Sprintf("%d into %d", source.ID, target.ID), nil
	}
	return fmt.Sprintf("%d into %d, rolled back", source.ID, target.ID), c.RollbackMerge(source.ID)
}

func lead(_ context.Context, b *blow) (string, error) {
	region, store := b.region(), b.store()
	if err := b.cluster.Lead(region, store); err != nil {
		return refused(err), nil
	}
	return fmt.Sprintf("store %d leads %d", store, region), nil
}

func storeRestart(ctx context.Context, b *blow) (string, error) {
	store, moved := b.store(), 0
	err := b.cluster.StopStore(ctx, store)
	if err == nil && b.coin() {
		b.last(ctx, 0.3)
		moved = b.evict(store)
	}
	b.last(ctx, 0.7)
	if err != nil && ctx.Err() != nil {
		err = nil
	}
	return fmt.Sprintf("store %d down for %v, %d leaders moved", store, b.lasts, moved), errors.Join(err, b.cluster.StartStore(store))
}

// storeTrouble holds bytes for a while, and has leaders move away perhaps.
func storeTrouble(how string, t Trouble) func(context.Context, *blow) (string, error) {
	return func(ctx context.Context, b *blow) (string, error) {
		store, moved := b.store(), 0
		if err := b.cluster.TroubleStore(store, t); err != nil {
			return "", err
		}
		if b.coin() {
			b.last(ctx, 0.5)
			moved = b.evict(store)
		}
		b.last(ctx, 0.5)
		return fmt.Sprintf("store %d %s for %v, %d leaders moved", store, how, b.lasts, moved), b.cluster.TroubleStore(store, Trouble{})
	}
}

func storeSlow(ctx context.Context, b *blow) (string, error) {
	store, by := b.store(), time.Duration(1+b.rng.IntN(40))*time.Millisecond
	if err := b.cluster.TroubleStore(store, Trouble{DelayIn: by, DelayOut: by}); err != nil {
		return "", err
	}
	b.last(ctx, 1)
	return fmt.Sprintf("store %d slower by %v for %v", store, by, b.lasts), b.cluster.TroubleStore(store, Trouble{})
}

func streamCut(_ context.Context, b *blow) (string, error) {
	store := b.store()
	return fmt.Sprintf("%d streams of store %d", b.cluster.Cut(store), store), nil
}

func feedError(ctx context.Context, b *blow) (string, error) {
	e := FeedError(1 + b.rng.IntN(int(Unexplained)))
	region := b.region()
	n := b.cluster.Fail(region, e)
	again := b.rng.IntN(3)
	b.cluster.Refuse(again, FeedError(1+b.rng.IntN(int(Unexplained))))
	// A subscriber that takes its time, as it should after an error, is not to meet
	// the refusals of all the storm one after the other.
	b.last(ctx, 0.5)
	b.cluster.accept()
	return fmt.Sprintf("error %d for %d registrations of region %d, %d refused", e, n, region, again), nil
}

func feedRefused(_ context.Context, b *blow) (string, error) {
	e := DuplicateRequest + FeedError(b.rng.IntN(3))
	region := b.region()
	n := b.cluster.Fail(region, e)
	return fmt.Sprintf("error %d for %d registrations of region %d", e, n, region), nil
}

func regionLag(_ context.Context, b *blow) (string, error) {
	region := b.region()
	b.cluster.Lag(region, b.lasts)
	return fmt.Sprintf("region %d for %v", region, b.lasts), nil
}

func pdLead(_ context.Context, b *blow) (string, error) {
	member := b.rng.IntN(len(b.cluster.pd.members))
	return fmt.Sprintf("member %d", member), b.cluster.LeadPD(member)
}

func pdRestart(ctx context.Context, b *blow) (string, error) {
	return b.pdDown(ctx, []int{b.rng.IntN(len(b.cluster.pd.members))})
}

func pdGone(ctx context.Context, b *blow) (string, error) {
	var all []int
	for i := range b.cluster.pd.members {
		all = append(all, i)
	}
	return b.pdDown(ctx, all)
}

// pdDown stops members of PD for a while; one of the others leads then.
func (b *blow) pdDown(ctx context.Context, members []int) (string, error) {
	c := b.cluster
	var errs []error
	for _, m := range members {
		if err := c.StopPD(ctx, m); err != nil && ctx.Err() == nil {
			errs = append(errs, err)
		}
	}
	b.last(ctx, 0.3)
	if leader := b.rng.IntN(len(c.pd.members)); c.pd.members[leader].net.isUp() {
		errs = append(errs, c.LeadPD(leader))
	}
	b.last(ctx, 0.7)
	for _, m := range members {
		errs = append(errs, c.StartPD(m))
	}
	return fmt.Sprintf("members %v down for %v, then %d leads", members, b.lasts, c.PDLeader()), errors.Join(errs...)
}

func pdLate(ctx context.Context, b *blow) (string, error) {
	b.cluster.SetPDLag(b.lasts / 2)
	b.last(ctx, 1)
	b.cluster.SetPDLag(0)
	return fmt.Sprintf("by %v for %v", b.lasts/2, b.lasts), nil
}

// broken breaks a promise, and waits for it to be broken.
func broken(p Break) func(context.Context, *blow) (string, error) {
	return func(ctx context.Context, b *blow) (string, error) {
		before := b.cluster.Broken(p)
		b.cluster.Break(p)
		b.last(ctx, 1)
		return fmt.Sprintf("%d times", b.cluster.Broken(p)-before), nil
	}
}

func wrongCluster(ctx context.Context, b *blow) (string, error) {
	b.cluster.Impersonate(b.cluster.ClusterID() + 1)
	for store := range b.cluster.stores {
		b.cluster.Cut(uint64(store) + 1)
	}
	b.last(ctx, 1)
	b.cluster.Impersonate(0)
	return fmt.Sprintf("for %v", b.lasts), nil
}

// refused is the word for a blow that met a region not fit for it, which is no
// error: a storm strikes blindly.
func refused(why error) string { return "nothing: " + why.Error() }
