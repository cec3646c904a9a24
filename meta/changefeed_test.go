package meta_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// A changefeed is written, read, changed and removed, and what was read before a
// change opens nothing any more.
func TestChangefeed(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	_, err := s.Changefeed(ctx, feed)
	refused(t, err, cdcerr.ChangefeedNotFound, "default/orders")
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(10, 10))
	must(t, err)
	_, err = s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(99, 99))
	refused(t, err, cdcerr.ChangefeedExists, "default/orders")

	moved, err := s.PutStatus(ctx, meta.Fence{}, made, at(20, 25))
	must(t, err)
	_, err = s.PutStatus(ctx, meta.Fence{}, made, at(30, 35)) // by what was read before
	refused(t, err, cdcerr.MetaConflict, "default/orders")
	_, err = s.Put(ctx, meta.Fence{}, made, json.RawMessage(`{"paused":true}`), at(30, 35)) // neither is written
	refused(t, err, cdcerr.MetaConflict, "default/orders")
	next, err := s.Put(ctx, meta.Fence{}, moved, json.RawMessage(`{"paused":true}`), moved.Status)
	must(t, err)
	read, err := s.Changefeed(ctx, feed)
	must(t, err)
	if read.Status != at(20, 25) || string(read.Info) != `{"paused":true}` || read.Err != nil || read.Revision() != next.Revision() {
		t.Fatalf("%+v", read)
	}
	refused(t, s.RemoveChangefeed(ctx, meta.Fence{}, moved), cdcerr.MetaConflict, "removing")
	must(t, s.RemoveChangefeed(ctx, meta.Fence{}, read))
	all, err := s.Changefeeds(ctx)
	must(t, err)
	if len(all) != 0 {
		t.Fatalf("%+v", all)
	}
	_, err = s.PutStatus(ctx, meta.Fence{}, read, at(40, 40)) // nothing comes back from the dead
	refused(t, err, cdcerr.MetaConflict, "default/orders")
}

// P3: within an epoch nothing goes back, whatever the caller does to what it read.
func TestCheckpointNeverGoesBack(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	began := at(20, 30)
	began.Run = 7
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, began)
	must(t, err)
	ran := func(st meta.Status, run uint64) meta.Status { st.Run = run; return st }
	for _, bad := range []meta.Status{ran(at(19, 30), 7), ran(at(20, 29), 7), ran(at(31, 30), 7), {CheckpointTS: 20, ResolvedTS: 30, Run: 7}, {Epoch: 1, Run: 7}, ran(at(20, 30), 6)} {
		made.Status = bad // changed in place: it is what was read that counts
		if _, err := s.PutStatus(ctx, meta.Fence{}, made, bad); !cdcerr.Unexpected.Is(err) {
			t.Errorf("%+v was taken: %v", bad, err)
		}
	}
	overwritten := meta.Status{CheckpointTS: 5, ResolvedTS: 5, Epoch: 2, Run: 8}
	back, err := s.PutStatus(ctx, meta.Fence{}, made, overwritten)
	must(t, err)
	if back.Status != overwritten {
		t.Fatalf("%+v", back)
	}
	_, err = s.CreateChangefeed(ctx, meta.Fence{}, meta.ChangefeedID{Namespace: "default", Name: "b"}, info, at(3, 2))
	refused(t, err, cdcerr.Unexpected, "P3")
}

// Two who write the same changefeed: each step is taken by one of them, and the
// other one knows.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	_, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	const each = 40
	var wg sync.WaitGroup
	conflicts := make([]int, 2)
	for who := range conflicts {
		store := beside(t, s, nil)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for done := 0; done < each; {
				was, err := store.Changefeed(ctx, feed)
				if err != nil {
					t.Error(err)
					return
				}
				next := was.Status
				next.CheckpointTS, next.ResolvedTS = next.CheckpointTS+1, next.CheckpointTS+1
				switch _, err := store.PutStatus(ctx, meta.Fence{}, was, next); {
				case err == nil:
					done++
				case cdcerr.MetaConflict.Is(err):
					conflicts[who]++
				default:
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	end, err := s.Changefeed(ctx, feed)
	must(t, err)
	if want := tso.TS(1 + 2*each); end.Status.CheckpointTS != want {
		t.Fatalf("%d steps, want %d", end.Status.CheckpointTS, want)
	}
	t.Logf("conflicts %v", conflicts)
}

// One value that nobody can read does not take the others with it, and names its key.
func TestCorruptedValue(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx, etcd := t.Context(), raw(t, s)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		_, err := s.CreateChangefeed(ctx, meta.Fence{}, meta.ChangefeedID{Namespace: "default", Name: name}, info, at(1, 2))
		must(t, err)
	}
	root := "/sluice/default/changefeed/default/"
	for key, value := range map[string]string{
		"a/status": "\x00\xff", "b/info": "{", "c/status": `{"checkpoint-ts":9,"resolved-ts":3}`, "g/info": "{}", "f/task": "of a later version",
	} {
		_, err := etcd.Put(ctx, root+key, value)
		must(t, err)
	}
	_, err := etcd.Delete(ctx, root+"d/status")
	must(t, err)
	all, err := s.Changefeeds(ctx)
	must(t, err)
	bad := ""
	for _, c := range all {
		if c.Err != nil {
			bad += c.ID.Name
			refused(t, c.Err, cdcerr.MetaCorrupted, c.ID.Name)
		}
	}
	if bad != "abcdg" || len(all) != 7 {
		t.Fatalf("cannot be read: %q of %d", bad, len(all))
	}
}

func TestNamesThatAreNoKeys(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	for _, id := range []meta.ChangefeedID{{}, {Namespace: "default"}, {Namespace: "default", Name: "a/b"}, {Namespace: "..", Name: "a"}, {Namespace: "d", Name: "a b"}} {
		_, err := s.CreateChangefeed(t.Context(), meta.Fence{}, id, info, at(1, 1))
		refused(t, err, cdcerr.InvalidArgument, "want up to")
	}
	_, err := s.CreateChangefeed(t.Context(), meta.Fence{}, feed, make([]byte, 1<<20), at(1, 1))
	refused(t, err, cdcerr.InvalidArgument, "1048576 bytes")
}

// Whoever tracks a changefeed keeps what an operator writes beside it, does not take
// a lost answer for a lost write, and does not write into another epoch.
func TestTrack(t *testing.T) {
	t.Parallel()
	s := open(t, embedded(t.TempDir()))
	ctx := t.Context()
	made, err := s.CreateChangefeed(ctx, meta.Fence{}, feed, info, at(10, 50))
	must(t, err)
	track := s.Track(meta.Fence{}, made)
	must(t, track.Advance(ctx, 20, 20))
	read, err := s.Changefeed(ctx, feed)
	must(t, err)
	if read.Status != at(20, 50) {
		t.Fatalf("%+v", read.Status)
	}
	paused := read.Status
	paused.State = "stopped"
	_, err = s.PutStatus(ctx, meta.Fence{}, read, paused)
	must(t, err)
	must(t, track.Advance(ctx, 30, 60))
	must(t, track.Advance(ctx, 30, 60)) // as after an answer that was lost
	if read, err = s.Changefeed(ctx, feed); err != nil || read.Status.State != "stopped" || read.Status.CheckpointTS != 30 {
		t.Fatalf("%+v, %v", read.Status, err)
	}
	refused(t, track.Advance(ctx, 29, 60), cdcerr.Unexpected, "P3")
	_, err = s.PutStatus(ctx, meta.Fence{}, read, meta.Status{CheckpointTS: 5, ResolvedTS: 5, Epoch: 2})
	must(t, err)
	refused(t, track.Advance(ctx, 40, 60), cdcerr.EpochChanged, "epoch 2")
	refused(t, track.Advance(ctx, 40, 60), cdcerr.EpochChanged, "epoch 2")
}
