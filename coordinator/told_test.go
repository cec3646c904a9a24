package coordinator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
)

// What is told of a changefeed is what is durable. Its life knows of a checkpoint before
// that is: when a run brings it to be saved, and when a run warns. The next owner begins
// with what is durable, and would tell less.
func TestOnlyWhatIsDurableIsTold(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ms := func(n int64) tso.TS { return tso.New(now.UnixMilli()+n, 0) }
	kept := meta.Status{CheckpointTS: ms(10), ResolvedTS: ms(20), State: string(changefeed.Normal)}
	info := changefeed.Info{Namespace: "default", Name: "bank", StartTS: ms(1), SinkURI: "blackhole://", Config: changefeed.Default()}
	life, err := changefeed.New(info, changefeed.Status{CheckpointTS: kept.CheckpointTS, ResolvedTS: kept.ResolvedTS, State: changefeed.Normal}, changefeed.Options{}, now)
	if err != nil {
		t.Fatal(err)
	}
	start := life.Tick(changefeed.View{Now: now, Safepoint: 1, Blocking: true}).Start
	if start == nil {
		t.Fatal("nothing runs")
	}
	f := &feed{
		reign: &reign{Coordinator: New(Config{})}, log: slog.New(slog.DiscardHandler), tally: newTally(), wake: make(chan struct{}, 1),
		life: life, kept: &meta.Changefeed{Status: kept},
	}
	for _, r := range []changefeed.Report{
		{Run: start.Run, CheckpointTS: ms(30), ResolvedTS: ms(40)},
		{Run: start.Run, CheckpointTS: ms(50), ResolvedTS: ms(60), Warning: &changefeed.Fault{Code: "CDC:ErrMySQLConnectionError", Time: now}},
	} {
		if !f.report(r) {
			t.Fatal("the report does not count")
		}
		if got := f.describe(true); got.Checkpoint != ms(10) || got.Resolved != ms(20) {
			t.Errorf("told %d and %d, durable are %d and %d", got.Checkpoint, got.Resolved, ms(10), ms(20))
		}
	}
	f.kept = &meta.Changefeed{Status: statusOf(life.Status())}
	if got := f.describe(true); got.Checkpoint != ms(50) || got.Resolved != ms(60) {
		t.Errorf("told %d and %d, which are durable now: %d and %d", got.Checkpoint, got.Resolved, ms(50), ms(60))
	}
}

// A key that a later release has written is warned of by its name, its value untold.
func TestLaterKeysAreWarnedOf(t *testing.T) {
	for text, want := range map[string]int{
		`{"namespace":"default","changefeed-id":"x","later":"hush","config":{"filter":{"later_too":"hush"}}}`: 1,
		`{"namespace":"default","changefeed-id":"x","config":{}}`:                                             0,
	} {
		info, err := changefeed.ParseInfo([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		warnLater(slog.New(slog.NewTextHandler(&out, nil)), info)
		if strings.Count(out.String(), `keys="[config.filter.later_too later]"`) != want || strings.Count(out.String(), "level=WARN") != want || strings.Contains(out.String(), "hush") {
			t.Errorf("%s: %s", text, out.String())
		}
	}
}
