package workload_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seed = flag.Uint64("seed", 0, "seed of the workloads; 0 draws one")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) *live.Client {
	t.Helper()
	c, err := fake.Start(fake.Config{PDs: 2, ResolvedInterval: 5 * time.Millisecond})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return live.New(c)
}

func seedOf(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return s
}

// run lets a workload write in a storm, for a second and until there is enough.
func run(t *testing.T, cfg workload.Config, enough func(mvcc.Snapshot) bool) (*live.Client, *workload.Workload) {
	t.Helper()
	client := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	w, err := workload.New(ctx, client, cfg)
	must(t, err)
	must(t, w.Prepare(ctx))
	bad, calm := context.WithCancel(ctx)
	var tasks errgroup.Group
	tasks.Go(func() error {
		return client.Cluster().Storm(bad, fake.Storm{Seed: cfg.Seed, For: 100 * time.Millisecond})
	})
	until, stop := context.WithCancel(ctx)
	tasks.Go(func() error {
		defer stop()
		<-time.After(time.Second)
		for until.Err() == nil && !enough(client.Cluster().Snapshot()) {
			<-time.After(20 * time.Millisecond)
		}
		return nil
	})
	err = w.RunUntil(ctx, until)
	stop()
	calm()
	must(t, tasks.Wait())
	must(t, err)
	must(t, ctx.Err())
	return client, w
}

// Whatever is in the store of a table is remembered as written.
func TestEveryRowIsRemembered(t *testing.T) {
	for _, kind := range workload.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			few := kind == "bank" || kind == "drill"
			client, w := run(t, workload.Config{Kind: kind, Seed: seedOf(t), Rate: 500, Abandon: 0.05}, func(s mvcc.Snapshot) bool {
				rows, deleted := 0, 0
				eachRow(s, func(ch mvcc.Change) bool {
					if rows++; ch.Op == mvcc.Delete {
						deleted++
					}
					return true
				})
				return rows >= 150 && (few || deleted >= 5)
			})
			rows, deleted := 0, 0
			eachRow(client.Cluster().Snapshot(), func(ch mvcc.Change) bool {
				wrote, ok := w.Server.Wrote(ch.Key, ch.StartTS)
				if !ok || (wrote.Row == nil) != (ch.Op == mvcc.Delete) {
					t.Errorf("%X of %d: remembered %v, %v", ch.Key, ch.StartTS, ok, wrote)
				}
				if rows++; wrote.Row == nil {
					deleted++
				}
				return !t.Failed()
			})
			t.Logf("%d rows, %d of them deletes", rows, deleted)
			if rows < 150 || !few && deleted < 5 {
				t.Errorf("only %d rows, %d deletes", rows, deleted)
			}
		})
	}
}

// eachRow shows what was committed to the rows of all tables of users.
func eachRow(s mvcc.Snapshot, show func(mvcc.Change) bool) {
	s.History([]byte("t"), []byte("u"), 0, func(ch mvcc.Change) bool {
		if ch.Kind != mvcc.Committed || bytes.Compare(ch.Key, []byte("t\x80\x00\xff")) > 0 || string(ch.Key[9:11]) != "_r" {
			return true
		}
		return show(ch)
	})
}

// The sum over all accounts is the same in every snapshot.
func TestTheBankLosesNothing(t *testing.T) {
	cfg := workload.Config{Kind: "bank", Seed: seedOf(t), Rate: 1000, Size: 30, Abandon: 0.1}
	client, w := run(t, cfg, func(s mvcc.Snapshot) bool {
		rows := 0
		eachRow(s, func(mvcc.Change) bool { rows++; return true })
		return rows > 2*cfg.Size
	})
	ctx := t.Context()
	sums := map[int64]int{}
	var commits []tso.TS
	client.Cluster().Snapshot().History([]byte("t"), []byte("u"), 0, func(ch mvcc.Change) bool {
		commits = append(commits, ch.CommitTS)
		return true
	})
	for i := 0; i < len(commits); i += 1 + len(commits)/50 {
		x, err := w.Server.Begin(ctx, live.Options{}, false)
		must(t, err)
		sum, n := int64(0), 0
		for _, shape := range x.Tables(workload.BankDB) {
			from := fmt.Appendf(nil, "t%s_r", tableKey(shape))
			must(t, client.Scan(ctx, commits[i], from, append(from, 0xff), func(p live.Pair) bool {
				row, ok, err := w.Server.Newest(p.Key, commits[i])
				must(t, err)
				if !ok {
					t.Errorf("%X is not there", p.Key)
				}
				var v int64
				_, err = fmt.Sscan(row[3].Text, &v)
				must(t, err)
				sum += v
				n++
				return true
			}))
		}
		x.End()
		if n > 0 {
			sums[sum]++
			if n != cfg.Size || sum != int64(cfg.Size)*workload.Opening {
				t.Errorf("at %d: %d accounts hold %d", commits[i], n, sum)
			}
		}
	}
	if len(sums) != 1 {
		t.Errorf("sums %v", sums)
	}
}

func tableKey(s *catalog.Shape) []byte {
	id := uint64(s.Table.ID) ^ 1<<63
	var b []byte
	for i := 7; i >= 0; i-- {
		b = append(b, byte(id>>(8*i)))
	}
	return b
}

func TestConfigsThatAreRefused(t *testing.T) {
	for _, cfg := range []workload.Config{
		{}, {Kind: "tpcc"}, {Kind: "bank", Rate: -1}, {Kind: "bank", Writers: 65}, {Kind: "bank", Size: 1},
		{Kind: "bank", Tables: 101}, {Kind: "bank", Abandon: 0.6},
	} {
		if _, err := workload.New(t.Context(), nil, cfg); !cdcerr.InvalidArgument.Is(err) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Two versions of a schema are in use after a step, and no more.
func TestWritersAreOneVersionApart(t *testing.T) {
	client := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := workload.NewServer(ctx, client)
	must(t, err)
	must(t, s.Exec(ctx, "CREATE TABLE t (id int PRIMARY KEY)", catalog.Session{DB: "test"}, nil))
	columns := func(late bool) int {
		x, err := s.Begin(ctx, live.Options{}, late)
		must(t, err)
		defer x.End()
		return len(x.Table("test", "t").Table.Columns)
	}
	var old *workload.Session
	var seen []string
	var waiting errgroup.Group
	must(t, s.Exec(ctx, "ALTER TABLE t ADD COLUMN a int", catalog.Session{DB: "test"}, func(_ context.Context, step *catalog.Step) error {
		seen = append(seen, fmt.Sprintf("%d: %d or %d", step.Job.SchemaState, columns(false), columns(true)))
		if step.Job.SchemaState == catalog.StateWriteOnly {
			// The next step waits for this one.
			if old, err = s.Begin(ctx, live.Options{}, true); err != nil {
				return err
			}
			waiting.Go(func() error {
				timer := time.NewTimer(30 * time.Millisecond)
				defer timer.Stop()
				<-timer.C
				seen = append(seen, "the old one ends")
				old.End()
				return nil
			})
		}
		return nil
	}))
	must(t, waiting.Wait())
	want := "[0: 1 or 1 1: 1 or 1 2: 1 or 1 the old one ends 3: 1 or 1 5: 2 or 1 5: 2 or 2]"
	if got := fmt.Sprint(seen); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := s.Begin(ctx, live.Options{}, true); err != nil {
		t.Error(err)
	}
}
