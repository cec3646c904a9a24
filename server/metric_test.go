package server

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// The document lists the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Metric | Kind | What |\n|---|---|---|\n")
	kinds := map[prometheus.ValueType]string{gauge: "gauge", counter: "counter", histogram: "histogram"}
	for _, m := range metrics() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.name, kinds[m.kind], m.help)
	}
	const file, begin, end = "../docs/compatibility.md", "<!-- metrics: from package server -->\n", "<!-- /metrics -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	have, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the table", file)
	case have == table.String():
	case os.Getenv("SLUICE_REWRITE") == "":
		t.Fatalf("%s is behind: run this test with SLUICE_REWRITE=1", file)
	default:
		if err := os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// owned is a control plane that has one changefeed of everything.
type owned struct {
	Plane
	feeds []api.Feed
	work  []api.Work
}

func (o owned) Work() []api.Work { return o.work }

func (o owned) Self() api.Self {
	return api.Self{Owner: true, GCHold: tso.At(time.Unix(1700000000, 0))}
}

func (o owned) List(context.Context) ([]api.Feed, error) { return o.feeds, nil }

// Every metric that is listed is there, and none beside, also while changefeeds of
// every state stand side by side.
func TestMetricsAreThere(t *testing.T) {
	at := tso.At(time.Now())
	busy := api.Feed{ID: api.FeedID{Keyspace: "default", Name: "busy"}, State: "warning", Checkpoint: at, Resolved: at, Rows: 7,
		Warning: &api.Fault{Code: "CDC:ErrX", Message: "secret"}, Tasks: []api.TaskStatus{{CaptureID: "c", Tables: 2}}}
	busy.Tally.RunErrors = 3
	work := api.Work{ID: busy.ID, Rows: 7, Tally: api.Tally{SinkErrors: 4, Batches: api.Spread{Upto: []float64{1, 10}}, DDLs: api.Spread{Upto: []float64{1}}}}
	for _, rows := range []float64{1, 2, 10, 11} {
		work.Tally.Batches.Add(rows)
	}
	failed := busy
	failed.ID.Name, failed.State, failed.Warning, failed.Error, failed.Tasks = "failed", "failed", nil, &api.Fault{Code: "CDC:ErrY"}, nil
	m := newMeter(Parts{Version: "1.0.0"})
	m.join(owned{feeds: []api.Feed{busy, failed}, work: []api.Work{work}})
	out := make(chan prometheus.Metric, 256)
	m.Collect(out)
	r := newReadout(out)
	collectRows(r, 1, 2)
	collectUpstream(r, upstream.Counts{RegionErrors: map[string]uint64{"not_leader": 1}}, upstream.Status{Streams: make([]upstream.StreamStatus, 1)})
	collectPeers(r, transport.Counts{})
	close(out)
	registry, there := prometheus.NewPedanticRegistry(), collected{}
	for one := range out {
		there = append(there, one)
	}
	registry.MustRegister(there)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, f := range families {
		seen[f.GetName()] = fmt.Sprint(f.GetMetric())
	}
	for _, want := range metrics() {
		if seen[want.name] == "" {
			t.Errorf("%s is listed, and not there", want.name)
		}
	}
	if len(seen) != len(metrics()) {
		t.Errorf("%d are there, %d are listed", len(seen), len(metrics()))
	}
	if got := seen["ticdc_sink_batch_row_count"]; !strings.Contains(got, "sample_count:4") || !strings.Contains(got, "cumulative_count:1") || !strings.Contains(got, "cumulative_count:3") {
		t.Errorf("the batches are %s", got)
	}
	if got := seen["ticdc_owner_changefeed_error_info"]; !strings.Contains(got, "CDC:ErrX") || !strings.Contains(got, "CDC:ErrY") || strings.Contains(got, "secret") {
		t.Errorf("the errors are %s", got)
	}
}

// collected are metrics that were read before.
type collected []prometheus.Metric

func (collected) Describe(chan<- *prometheus.Desc) {}

func (c collected) Collect(out chan<- prometheus.Metric) {
	for _, m := range c {
		out <- m
	}
}
