package coordinator

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// Where the owners of these tests begin, and where the log of before has ended.
const (
	redoBegins = tso.TS(80)
	redoBefore = tso.TS(90)
)

func logIn(b objstore.Bucket, life string) *redoLog {
	return &redoLog{
		forget: func(context.Context, string) error { return nil },
		bucket: b, id: redo.ID{Cluster: 7, Namespace: "default", Changefeed: "orders", Incarnation: redo.Incarnation(life, "x")},
		cfg: redo.Default(), log: slog.New(slog.DiscardHandler),
	}
}

// ownerLife is one owner's hand on the log.
type ownerLife struct {
	of   owner.Redo
	ran  chan error
	seen tso.TS // up to where its gate was open
}

// leadTo has an owner lead a log up to a timestamp, DDLs of jobs before it included, and
// sweep; it goes on when that is over.
func leadTo(ctx context.Context, r *redoLog, revision int64, upto tso.TS, jobs ...int64) (l *ownerLife, err error) {
	l = &ownerLife{ran: make(chan error, 1)}
	if l.of, err = r.lead(ctx, revision, redoBegins, nil, func(error) {}); err != nil {
		l.ran <- err
		return l, err
	}
	l.seen = l.of.Limit()
	go func() { l.ran <- l.of.Run(ctx) }()
	for _, job := range jobs {
		at := redoBegins + tso.TS(20*job)
		if err := l.of.DDLs(ctx, &event.DDL{JobID: job, Action: event.ActionCreateTable, Query: "CREATE TABLE t (id int)", Schema: "d", SwitchTS: at, FinishedTS: at}); err != nil {
			return l, err
		}
	}
	if err := l.of.Advance(redoBegins, upto, nil); err != nil {
		return l, err
	}
	for l.of.Limit() < upto {
		select {
		case <-l.of.Moved():
		case err := <-l.ran:
			l.ran <- err
			return l, err
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
	l.seen = l.of.Limit()
	select {
	case <-time.After(time.Minute): // of the bubble's: it has swept
	case <-ctx.Done():
	}
	return l, ctx.Err()
}

// inLog are the jobs that a log has up to its resolved-ts, every file of it read.
func inLog(t *testing.T, r *redoLog) (jobs []int64, resolved tso.TS) {
	t.Helper()
	inv, err := redo.Open(t.Context(), r.bucket, r.id)
	if cdcerr.RedoMetaNotFound.Is(err) || cdcerr.RedoTorn.Is(err) {
		return nil, 0
	}
	if err == nil {
		err = inv.Err()
	}
	if err == nil {
		err = redo.Merge(t.Context(), r.bucket, inv, redo.DefaultMerge(inv), func(e record.Entry) error {
			jobs = append(jobs, e.DDL.JobID)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return jobs, inv.Meta.Resolved
}

// ownersCrash lets operation number n of an owner's be as fault says, has another owner
// lead while the first one goes on, and looks at what became of the log and of the one
// of before. It tells whether there was such an operation.
func ownersCrash(t *testing.T, n int, fault objstoretest.Fault) bool {
	bucket := objstore.NewMemory()
	before := logIn(bucket, "2026/0")
	old, err := leadTo(cancelled(t), before, 4, redoBefore)
	if old.seen != redoBefore {
		t.Fatal(old.seen, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	decide, met := objstoretest.At(n, fault, cancel)
	faulty := &objstoretest.Faulty{Bucket: bucket, Decide: decide}
	first, err := leadTo(ctx, logIn(faulty, "2026/1"), 5, 110, 1)
	if err != nil && fault != objstoretest.Kill && fault != objstoretest.Tear {
		t.Fatal(err)
	}
	log := logIn(bucket, "2026/1")
	jobs, resolved := inLog(t, log)
	if resolved < first.seen || resolved >= 100 && len(jobs) != 1 {
		t.Fatalf("P5: the gate was open to %d, the log has %v up to %d", first.seen, jobs, resolved)
	}
	if _, old := inLog(t, before); old == 0 && resolved < redoBefore {
		t.Fatalf("the log of before is gone, and the next has come to %d", resolved)
	}
	again := []int64{1, 2} // what lies above the gate is put once more
	if resolved >= 100 {
		again = again[1:]
	}
	second, err := leadTo(cancelled(t), log, 6, 200, again...)
	if second.seen != 200 {
		t.Fatalf("the second has come to %d, %v", second.seen, err)
	}
	if first.of != nil && !faulty.Killed() {
		if err := first.of.Advance(redoBegins, 300, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-first.ran; err == nil || !cdcerr.NotOwner.Is(err) && fault != objstoretest.Tear && !faulty.Killed() || first.of.Limit() > 200 {
			t.Fatalf("P1: the first ends with %v, its gate at %d", err, first.of.Limit())
		}
	}
	if jobs, resolved := inLog(t, log); resolved != 200 || len(jobs) != 2 {
		t.Fatalf("the log has %v up to %d", jobs, resolved)
	}
	if all, err := redo.Folders(t.Context(), bucket, log.id); err != nil || len(all) != 1 || all[0] != log.id {
		t.Fatalf("of the log of before something is there still: %v, %v", all, err)
	}
	return met.Load()
}

// An owner that was cut off, and sweeps on, leaves the log alone that is begun after it.
func TestASweepLeavesWhatIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := objstore.NewMemory()
		for i, upto := range []tso.TS{500, 200, 150} { // the first keeps the second sweeping
			if l, err := leadTo(cancelled(t), logIn(bucket, []string{"2026/0", "2026/1", "2026/2"}[i]), int64(4+i), upto); l.seen != upto {
				t.Fatal(l.seen, err)
			}
		}
		if all, err := redo.Find(t.Context(), bucket); err != nil || len(all) != 3 {
			t.Errorf("there are %v, %v", all, err)
		}
	})
}

// cancelled is a context that ends an hour later, of the bubble's.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// For every operation of an owner, of its Claim, its meta, its DDLs and its sweep: it
// fails, it is torn, its answer is lost, the process dies right after it. The next owner
// goes on from a whole log, and the first one, which lives on, is told.
func TestOwnersCrash(t *testing.T) {
	points := 0
	for _, fault := range objstoretest.Faults() {
		for n, met := 1, true; met; n++ {
			synctest.Test(t, func(t *testing.T) { met = ownersCrash(t, n, fault) })
			if t.Failed() {
				t.Fatalf("operation %d, %v", n, fault)
			}
			if met {
				points++
			}
		}
	}
	t.Logf("%d points", points)
	if points < 40 {
		t.Errorf("%d points: an owner does more", points)
	}
}

// A changefeed's logs go, whatever operation of the removal failed before: it is done
// again.
func TestRemovalCrashes(t *testing.T) {
	points := 0
	for _, fault := range objstoretest.Faults() {
		for n, met := 1, true; met; n++ {
			met = false
			synctest.Test(t, func(t *testing.T) {
				bucket := objstore.NewMemory()
				for i, life := range []string{"2026/0", "2026/1"} {
					ctx, cancel := context.WithCancel(t.Context())
					l, err := leadTo(ctx, logIn(bucket, life), int64(4+i), redoBefore-tso.TS(i), int64(1))
					cancel()
					if l.seen == 0 {
						t.Fatal(err)
					}
				}
				faulty := &objstoretest.Faulty{Bucket: bucket, Decide: func(_ context.Context, c objstoretest.Call) objstoretest.Fault {
					if c.Number == n {
						met = true
						return fault
					}
					return objstoretest.None
				}}
				err := logIn(faulty, "2026/1").remove(t.Context())
				if err != nil && !met {
					t.Errorf("operation %d, %v: %v", n, fault, err)
				}
				if err != nil {
					err = logIn(bucket, "2026/1").remove(t.Context())
				}
				if all, listErr := objstore.All(t.Context(), bucket, "default/", ""); err != nil || listErr != nil || len(all) != 0 {
					t.Errorf("operation %d, %v: %d objects are left, %v, %v", n, fault, len(all), err, listErr)
				}
			})
			if t.Failed() {
				return
			}
			if met {
				points++
			}
		}
	}
	t.Logf("%d points", points)
	if points < 20 {
		t.Errorf("%d points: a removal does more", points)
	}
}
