package server

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/transport"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// meter is the registry, and what is read from the parts of the node when
// somebody asks. Names and labels are those that TiCDC's dashboards and alerts
// read.
type meter struct {
	registry      *prometheus.Registry
	version, hash string

	shared atomic.Pointer[agent.Capture]
	plane  atomic.Pointer[Plane]
	peers  atomic.Pointer[transport.Transport]

	mu    sync.Mutex
	owned time.Duration // guarded by mu: how long this node has been the owner
	asked time.Time     // guarded by mu: when somebody asked last, and it was the owner; zero otherwise
	now   func() time.Time
}

func newMeter(p Parts) *meter {
	m := &meter{registry: prometheus.NewRegistry(), now: time.Now}
	m.version, m.hash = p.Version, p.GitHash
	m.registry.MustRegister(m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *meter) follow(c *agent.Capture) { m.shared.Store(c) }

func (m *meter) join(p Plane) {
	if p == nil {
		m.plane.Store(nil)
		return
	}
	m.plane.Store(&p)
}

// Describe implements prometheus.Collector: what there is depends on the hour.
func (*meter) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *meter) Collect(out chan<- prometheus.Metric) {
	r := newReadout(out)
	r.put("ticdc_server_build_info", 1, "release_version", m.version, "git_hash", m.hash, "go_version", runtime.Version())
	r.put("ticdc_server_go_gc", gogc())
	r.put("ticdc_server_go_max_procs", float64(runtime.GOMAXPROCS(0)))
	if shared := m.shared.Load(); shared != nil {
		used := shared.Used()
		collectRows(r, float64(used.Memory+used.Lent), float64(used.Disk))
		collectUpstream(r, shared.Client.Counts(), shared.Client.Status())
	}
	if t := m.peers.Load(); t != nil {
		collectPeers(r, t.Counts())
	}
	if p := m.plane.Load(); p != nil {
		for _, w := range (*p).Work() {
			collectWork(r, &w)
		}
	}
	m.collectFeeds(r)
}

// collectWork is what this capture does for one changefeed.
func collectWork(r readout, w *api.Work) {
	labels := []string{"namespace", w.ID.Keyspace, "changefeed", w.ID.Name}
	r.put("ticdc_sink_execution_error", float64(w.Tally.SinkErrors), labels...)
	r.put("ticdc_sink_table_sink_total_rows_count", float64(w.Rows), labels...)
	r.put("ticdc_sink_dml_event_count", float64(w.Rows), labels...)
	r.spread("ticdc_sink_batch_row_count", &w.Tally.Batches, labels...)
	r.spread("ticdc_sink_ddl_exec_duration", &w.Tally.DDLs, labels...)
	r.put("ticdc_sink_ddl_exec_count", float64(w.Tally.DDLs.All), labels...)
	r.spread("ticdc_ddl_exec_duration", &w.Tally.DDLs, labels...)
	r.put("ticdc_ddl_exec_running", float64(w.Tally.DDLsRunning), labels...)
}

func gogc() float64 {
	if v, err := strconv.Atoi(os.Getenv("GOGC")); err == nil {
		return float64(v)
	}
	return 100
}

// collectRows is what waits, under the names of both of TiCDC's architectures.
func collectRows(r readout, memory, disk float64) {
	r.put("ticdc_sorter_in_memory_data_size_gauge", memory)
	r.put("ticdc_sorter_on_disk_data_size_gauge", disk)
	r.put("ticdc_event_store_in_memory_data_size", memory)
	r.put("ticdc_event_store_on_disk_data_size", disk)
}

// collectUpstream is how TiKV is followed.
func collectUpstream(r readout, c upstream.Counts, s upstream.Status) {
	for kind, n := range c.RegionErrors {
		r.put("ticdc_kvclient_event_feed_error_count", float64(n), "type", kind)
	}
	r.put("sluice_kvclient_broken_stream_count", float64(c.StreamsBroken))
	for _, stream := range s.Streams {
		store := strconv.FormatUint(stream.Store, 10)
		r.put("ticdc_kvclient_grpc_stream_count", 1, "store", store)
		r.put("ticdc_subscription_client_requested_region_count", float64(stream.Waiting), "store", store, "state", "pending")
		r.put("ticdc_subscription_client_requested_region_count", float64(stream.Scanning), "store", store, "state", "scanning")
	}
	r.put("ticdc_kvclient_event_feed_count", float64(len(s.Subscriptions)))
	regions := 0
	for i := range s.Subscriptions {
		regions += s.Subscriptions[i].Regions
	}
	r.put("ticdc_subscription_client_subscribed_region_count", float64(regions))
	r.put("ticdc_subscription_client_resolve_lock_count", float64(c.LockSearches))
	r.put("ticdc_subscription_client_resolve_lock_processed_lock_count", float64(c.LocksFound))
	r.put("ticdc_subscription_client_resolve_lock_task_drop_count", float64(c.LockSearchesRefused))
}

// collectFeeds is what only the owner knows.
func (m *meter) collectFeeds(r readout) {
	p := m.plane.Load()
	owner := p != nil && (*p).Self().Owner
	r.put("ticdc_owner_ownership_counter", m.ownedFor(owner).Seconds())
	if !owner {
		return
	}
	// A scrape waits for no more than this; Prometheus gives it ten seconds.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	feeds, err := (*p).List(ctx)
	if err != nil {
		return // the API shows why
	}
	now := tso.At(m.now())
	if shared := m.shared.Load(); shared != nil {
		if ts, err := shared.Client.TS(ctx); err == nil {
			now = ts
		}
	}
	r.put("ticdc_owner_current_pd_ts", float64(now.Physical()))
	if at := (*p).Self().GCHold; at != 0 {
		r.put("ticdc_gc_cdc_gc_safepoint", float64(at.Physical()))
	}
	running := 0
	for i := range feeds {
		if feeds[i].Writer != "" {
			running++
		}
		collectFeed(r, &feeds[i], now)
	}
	r.put("ticdc_changefeed_maintainer_counter", float64(running))
}

// collectFeed is one changefeed as its owner knows it.
func collectFeed(r readout, f *api.Feed, now tso.TS) {
	labels := []string{"namespace", f.ID.Keyspace, "changefeed", f.ID.Name}
	r.put("ticdc_owner_status", stateNumber(f.State), labels...)
	r.put("ticdc_coordinator_changefeed_state", stateNumber(f.State), labels...)
	for _, fault := range []*api.Fault{f.Error, f.Warning} {
		if fault != nil {
			r.put("ticdc_owner_changefeed_error_info", 1, append(labels, "code", fault.Code)...)
			break // of the two there is one
		}
	}
	if f.State == "removed" || f.Checkpoint == 0 {
		return
	}
	checkpointLag, resolvedLag := now.Sub(f.Checkpoint).Seconds(), now.Sub(f.Resolved).Seconds()
	r.put("ticdc_owner_checkpoint_ts", float64(f.Checkpoint.Physical()), labels...)
	r.put("ticdc_owner_checkpoint_ts_lag", checkpointLag, labels...)
	r.put("ticdc_owner_resolved_ts", float64(f.Resolved.Physical()), labels...)
	r.put("ticdc_owner_resolved_ts_lag", resolvedLag, labels...)
	r.put("ticdc_maintainer_checkpoint_ts_lag", checkpointLag, labels...)
	r.put("ticdc_maintainer_resolved_ts_lag", resolvedLag, labels...)
	tables := 0
	for _, t := range f.Tasks {
		tables += t.Tables
		r.put("ticdc_processor_num_of_tables", float64(t.Tables), append(labels, "capture", t.CaptureID)...)
	}
	r.put("ticdc_scheduler_table_count", float64(tables), labels...)
	r.put("ticdc_processor_exit_with_error_count", float64(f.Tally.RunErrors), labels...)
}

// ownedFor counts from one question to the next: alerts read its rate, which is
// one a second for as long as there is one owner.
func (m *meter) ownedFor(owner bool) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if owner && !m.asked.IsZero() {
		m.owned += now.Sub(m.asked)
	}
	m.asked = time.Time{}
	if owner {
		m.asked = now
	}
	return m.owned
}

const stateNumbers = "0 normal, 1 pending, 2 failed, 3 stopped, 4 finished, 5 removed, 6 warning."

// stateNumber is a state as alerts know it.
func stateNumber(state string) float64 {
	for i, s := range []string{"normal", "pending", "failed", "stopped", "finished", "removed", "warning"} {
		if s == state {
			return float64(i)
		}
	}
	return 7 // not known yet
}
