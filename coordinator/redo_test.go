package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// logOf is the redo log of a changefeed in a directory.
func logOf(t *testing.T, dir, life string, change func(*changefeed.Info)) *redoLog {
	t.Helper()
	info := changefeed.Info{Namespace: "default", Name: "orders", UpstreamID: 7, Config: changefeed.Default()}
	info.Config.Consistent.Level, info.Config.Consistent.Storage = "eventual", changefeed.URI("file://"+dir)
	if change != nil {
		change(&info)
	}
	r, err := openRedo(t.Context(), &info, "default", life, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		t.Cleanup(r.close)
	}
	return r
}

func TestARedoLogIsOneLifesAndOneFilters(t *testing.T) {
	dir := t.TempDir()
	if r := logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.Config.Consistent.Level = "none" }); r != nil {
		t.Errorf("without consistent.level there is %v", r.id)
	}
	one := logOf(t, dir, "2026/1", nil)
	if one.id.Life() != "2026/1" {
		t.Errorf("its life is %q", one.id.Life())
	}
	if same := logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.Config.SyncPointInterval *= 2 }); same.id != one.id {
		t.Errorf("%v and %v", same.id, one.id)
	}
	for what, other := range map[string]*redoLog{
		"another life":   logOf(t, dir, "2026/2", nil),
		"another filter": logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.Config.Filter.Rules = []string{"a.*"} }),
		"another turn":   logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.RedoTurns = 1 }),
		"keyless tables": logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.Config.ForceReplicate = true }),
	} {
		if other.id == one.id {
			t.Errorf("%s has the same log", what)
		}
	}
	set := logOf(t, dir, "2026/1", func(i *changefeed.Info) {
		i.Config.Consistent.MaxLogSize, i.Config.Consistent.FlushInterval, i.Config.Consistent.MetaFlushInterval = 2, 60, 70
		i.Config.Consistent.FlushWorkerNum, i.Config.Consistent.Compression, i.Config.MemoryQuota = 3, "none", 100<<20
	})
	c := set.cfg
	if c.MaxLogBytes != 2<<20 || c.FlushInterval != 60*time.Millisecond || c.FlushEvery != 60*time.Millisecond || c.MetaEvery != 70*time.Millisecond ||
		c.FlushWorkers != 3 || c.QuotaBytes != 50<<20 || c.Codec != record.Plain {
		t.Errorf("%+v", c)
	}
}

func TestAStorageIsLookedAtFirst(t *testing.T) {
	dir := t.TempDir()
	one := logOf(t, dir, "2026/1", nil)
	if err := one.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := logOf(t, dir, "2026/1", func(i *changefeed.Info) { i.UpstreamID = 8 })
	if err := foreign.probe(t.Context()); !cdcerr.RedoForeign.Is(err) {
		t.Errorf("another cluster's place: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info := changefeed.Info{Namespace: "default", Name: "orders", UpstreamID: 7, Config: changefeed.Default()}
	info.Config.Consistent.Level, info.Config.Consistent.Storage = "eventual", changefeed.URI("file://"+file)
	if _, err := openRedo(t.Context(), &info, "default", "2026/1", "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "consistent.storage: ") {
		t.Errorf("a file is taken for a directory: %v", err)
	}
}

// What an owner wants its meta to say is on the storage, until a later owner is there.
func TestARedoLogHasOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := logOf(t, t.TempDir(), "2026/1", nil)
		first, err := r.lead(t.Context(), 5, 100, nil, func(error) {})
		if err != nil || first.Limit() != 100 {
			t.Fatalf("%v, meta %d", err, first.Limit())
		}
		ran := make(chan error, 1)
		go func() { ran <- first.Run(t.Context()) }()
		d := &event.DDL{JobID: 1, Action: event.ActionCreateTable, Query: "CREATE TABLE t (id int)", Schema: "d", SwitchTS: 120, FinishedTS: 120}
		files, err := record.EncodeExtents(record.Extent{Writer: "r1", Kind: record.Rows, Files: 2, Max: 140})
		if err = errors.Join(err, first.DDLs(t.Context(), d), first.Advance(100, 150, [][]byte{files})); err != nil {
			t.Fatal(err)
		}
		for first.Limit() < 150 {
			<-first.Moved()
		}
		last, err := redo.LastMeta(t.Context(), r.bucket, r.id)
		if err != nil || first.Limit() != 150 || last.Resolved != 150 || last.Checkpoint != 100 || len(last.Writers) != 2 {
			t.Fatalf("%+v, %v; meta %d", last, err, first.Limit())
		}
		if err := first.Advance(100, 150, [][]byte{[]byte("what?")}); !cdcerr.RedoCorrupted.Is(err) {
			t.Errorf("extents of nobody: %v", err)
		}
		second, err := r.lead(t.Context(), 6, 100, nil, func(error) {})
		if err != nil || second.Limit() != 150 {
			t.Fatalf("%v, meta %d", err, second.Limit())
		}
		if err := first.Advance(100, 160, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-ran; !cdcerr.NotOwner.Is(err) {
			t.Errorf("the first ends with %v", err)
		}
	})
}

// A log of before goes once the next one has come to where it ended, and all with the
// changefeed.
func TestRedoLogsOfBeforeGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var forgotten []string // guarded by mu
		away := true           // the downstream, the first time that it is asked; guarded by mu
		gone := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(forgotten) }
		lead := func(life string, at, ahead tso.TS) (*redoLog, func(tso.TS)) {
			r := logOf(t, dir, life, nil)
			r.forget = func(_ context.Context, life string) error {
				mu.Lock()
				defer mu.Unlock()
				if away {
					away = false
					return cdcerr.MySQLConnection.New("it is away")
				}
				forgotten = append(forgotten, life)
				return nil
			}
			o, err := r.lead(ctx, 5, at, func(context.Context) (tso.TS, error) { return ahead, nil }, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = o.Run(ctx) }() // it ends with ctx
			return r, func(ts tso.TS) {
				if err := o.Advance(at, ts, nil); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute) // of the bubble's
			}
		}
		logs := func(r *redoLog) int {
			all, err := redo.Find(ctx, r.bucket)
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		_, to := lead("2026/1", 100, 100)
		to(200)
		next, to := lead("2026/2", 50, 210)
		to(199)
		if n := logs(next); n != 2 {
			t.Errorf("there are %d logs, and the last one has not come to where the first has ended", n)
		}
		to(209)
		if n := logs(next); n != 2 {
			t.Errorf("there are %d logs, and the last one makes no snapshot by itself yet", n)
		}
		if len(gone()) > 0 {
			t.Errorf("%q are forgotten, and their logs are there", gone())
		}
		to(210)
		if n := logs(next); n != 1 {
			t.Errorf("there are %d logs", n)
		}
		if !slices.Equal(gone(), []string{"2026/1"}) {
			t.Errorf("%q are forgotten", gone())
		}
		cancel()
		synctest.Wait()
		ctx = t.Context()
		if err := next.remove(ctx); err != nil || logs(next) != 0 {
			t.Errorf("%v, %d logs", err, logs(next))
		}
	})
}

// What a server has for a log bounds its writer, whose files are smaller then.
func TestALogWithinTheServersMemory(t *testing.T) {
	usual := redo.Default()
	for most, want := range map[int64][2]int64{
		0:         {usual.QuotaBytes, usual.MaxLogBytes},
		1 << 40:   {usual.QuotaBytes, usual.MaxLogBytes},
		320 << 20: {320 << 20, usual.MaxLogBytes},
		32 << 20:  {32 << 20, 8 << 20},
		1 << 10:   {redo.LogBytesMin, redo.LogBytesMin},
	} {
		cfg := within(usual, most)
		if cfg.QuotaBytes != want[0] || cfg.MaxLogBytes != want[1] || cfg.Validate() != nil {
			t.Errorf("%d: %d in files of %d, %v", most, cfg.QuotaBytes, cfg.MaxLogBytes, cfg.Validate())
		}
	}
}
