package oracle_test

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/live"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
	"github.com/sluice-cdc/sluice/upstream/fake/oracle"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bank is a short run of the bank, and what a changefeed without a fault delivers
// of it: the rows of one commit after those of another.
func bank(t *testing.T) (w *workload.Workload, deliveries []oracle.Delivery, jobs []int64, end tso.TS) {
	t.Helper()
	c, err := fake.Start(fake.Config{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	w, err = workload.New(ctx, live.New(c), workload.Config{Kind: "bank", Seed: 1, Size: 20, Rate: 1000})
	must(t, err)
	must(t, w.Prepare(ctx))
	must(t, w.Run(ctx, 100*time.Millisecond))
	x, err := w.Server.Begin(ctx, live.Options{}, false)
	must(t, err)
	defer x.End()
	m := mount.New()
	for _, shape := range x.Tables(workload.BankDB) {
		from := span.RecordPrefix(shape.Table.ID)
		c.Snapshot().History(from, nil, 0, func(ch mvcc.Change) bool {
			if !bytes.HasPrefix(ch.Key, from) {
				return false
			}
			row, err := m.Row(&event.RawKV{Op: event.Put, StartTS: ch.StartTS, CommitTS: ch.CommitTS, Key: ch.Key, Value: ch.Value, Old: ch.Old}, shape.Table)
			must(t, err)
			deliveries = append(deliveries, oracle.Of(row))
			return true
		})
	}
	slices.SortFunc(deliveries, func(a, b oracle.Delivery) int { return cmp.Compare(a.CommitTS, b.CommitTS) })
	for _, j := range w.Server.Jobs() {
		jobs = append(jobs, j.ID)
	}
	return w, deliveries, jobs, c.TS()
}

func all(string, string) bool { return true }

// What is spoilt is found, each in its own way; what is not is equal, however
// often it comes.
func TestWhatIsSpoiltIsFound(t *testing.T) {
	w, deliveries, jobs, end := bank(t)
	n := len(deliveries)
	t.Logf("%d rows", n)
	last := deliveries[n-1]
	for _, c := range []struct {
		name    string
		deliver func(o *oracle.Oracle)
		jobs    []int64
		want    string // part of the first difference; empty for none
	}{
		{"nothing", func(o *oracle.Oracle) { each(o, deliveries) }, jobs, ""},
		{"several lives", func(o *oracle.Oracle) {
			each(o, deliveries[:n/2])
			o.Checkpoint(deliveries[n/4].CommitTS)
			each(o, deliveries[n/4:])
			each(o, deliveries[n/4+1:])
		}, jobs, ""},
		{"a lost row", func(o *oracle.Oracle) { each(o, deliveries[:n-1]) }, jobs, "got nothing"},
		{"a lost job", func(o *oracle.Oracle) { each(o, deliveries) }, jobs[1:], "CREATE DATABASE"},
		{"a row of nobody", func(o *oracle.Oracle) {
			stray := last
			stray.StartTS++
			each(o, append(slices.Clone(deliveries), stray))
		}, jobs, "one that nobody did"},
		{"another cell", func(o *oracle.Oracle) { each(o, append(slices.Clone(deliveries[:n-1]), other(last, false))) }, jobs, `owner: want "owner `},
		{"another old cell", func(o *oracle.Oracle) { each(o, append(slices.Clone(deliveries[:n-1]), other(last, true))) }, jobs, `old owner: want "owner `},
		{"no old row", func(o *oracle.Oracle) {
			bare := last
			bare.Before = nil
			each(o, append(slices.Clone(deliveries[:n-1]), bare))
		}, jobs, "an old row: true"},
		{"another kind", func(o *oracle.Oracle) {
			gone := last
			gone.Kind, gone.After = event.DeleteRow, nil
			each(o, append(slices.Clone(deliveries[:n-1]), gone))
		}, jobs, "deleted: false"},
		{"another commit", func(o *oracle.Oracle) {
			moved := last
			moved.CommitTS++
			each(o, append(slices.Clone(deliveries[:n-1]), moved))
		}, jobs, "want commit-ts"},
		{"behind a checkpoint", func(o *oracle.Oracle) {
			each(o, deliveries[:n-1])
			o.Checkpoint(last.CommitTS)
			o.Deliver(last)
		}, jobs, "delivered behind it"},
		{"a sum that is torn", func(o *oracle.Oracle) {
			each(o, deliveries[:n-1])
			o.Checkpoint(last.CommitTS)
		}, jobs, "20 that hold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := oracle.New(w, all)
			for _, id := range c.jobs {
				o.DDL(id)
			}
			c.deliver(o)
			v := o.Verdict(end)
			switch {
			case c.want == "" && !v.Equal():
				t.Errorf("%v", v.First)
			case c.want != "" && (v.Equal() || !slices.ContainsFunc(v.First, func(d verify.Difference) bool { return strings.Contains(d.String(), c.want) })):
				t.Errorf("want %q among %v", c.want, v.First)
			}
			t.Log(v.Notes)
		})
	}
}

func each(o *oracle.Oracle, all []oracle.Delivery) {
	for _, d := range all {
		o.Deliver(d)
	}
}

// other is a delivery whose owner, new or old, is somebody else.
func other(d oracle.Delivery, old bool) oracle.Delivery {
	d.Before, d.After = slices.Clone(d.Before), slices.Clone(d.After)
	into := d.After
	if old {
		into = d.Before
	}
	into[1].Text = verify.Text("nobody")
	return d
}

// What the store holds is what the accounts hold.
func TestTheStoreIsRead(t *testing.T) {
	w, _, _, end := bank(t)
	f, err := filter.New(filter.Config{})
	must(t, err)
	var got verify.Expected
	must(t, oracle.Store(w.Server.Cluster(), end, f, &got))
	rows := 0
	for _, table := range got.Tables {
		rows += len(table.Rows)
	}
	if rows != 20 || len(got.Tables) != 3 || !slices.Contains(got.Databases, workload.BankDB) {
		t.Errorf("%d rows in %d tables of %v", rows, len(got.Tables), got.Databases)
	}
}
