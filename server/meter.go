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
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// meter is the registry, and what is read from the parts of the node when
// somebody asks. Names and labels are those that TiCDC's dashboards and alerts
// read.
type meter struct {
	registry *prometheus.Registry

	shared atomic.Pointer[agent.Capture]
	plane  atomic.Pointer[Plane]

	mu    sync.Mutex
	owned time.Duration // guarded by mu: how long this node has been the owner
	asked time.Time     // guarded by mu: when somebody asked last, and it was the owner; zero otherwise
	now   func() time.Time
}

func newMeter(p Parts) *meter {
	m := &meter{registry: prometheus.NewRegistry(), now: time.Now}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "ticdc", Subsystem: "server", Name: "build_info",
		Help: "1, with what was built as labels.", ConstLabels: prometheus.Labels{"release_version": p.Version, "git_hash": p.GitHash, "go_version": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(build, m,
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

// readout is what one collection writes to.
type readout struct{ out chan<- prometheus.Metric }

func (r readout) value(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
	var keys, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		keys, values = append(keys, labels[i]), append(values, labels[i+1])
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, keys, nil), kind, v, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, keys, nil), err)
	}
	r.out <- m
}

func (r readout) gauge(name, help string, v float64, labels ...string) {
	r.value(prometheus.GaugeValue, name, help, v, labels...)
}

func (r readout) counter(name, help string, v uint64, labels ...string) {
	r.value(prometheus.CounterValue, name, help, float64(v), labels...)
}

// Collect implements prometheus.Collector.
func (m *meter) Collect(out chan<- prometheus.Metric) {
	r := readout{out}
	r.gauge("ticdc_server_go_gc", "GOGC as it was set.", gogc())
	r.gauge("ticdc_server_go_max_procs", "Threads that run Go code at once.", float64(runtime.GOMAXPROCS(0)))
	if shared := m.shared.Load(); shared != nil {
		used := shared.Used()
		r.gauge("ticdc_sorter_in_memory_data_size_gauge", "Bytes of rows that wait in memory.", float64(used.Memory+used.Lent))
		r.gauge("ticdc_sorter_on_disk_data_size_gauge", "Bytes of rows that wait on disk.", float64(used.Disk))
		collectUpstream(r, shared.Client.Counts(), shared.Client.Status())
	}
	m.collectFeeds(r)
}

func gogc() float64 {
	if v, err := strconv.Atoi(os.Getenv("GOGC")); err == nil {
		return float64(v)
	}
	return 100
}

// collectUpstream is how TiKV is followed.
func collectUpstream(r readout, c upstream.Counts, s upstream.Status) {
	for kind, n := range c.RegionErrors {
		r.counter("ticdc_kvclient_event_feed_error_count", "Registrations that stores ended.", n, "type", kind)
	}
	r.counter("sluice_kvclient_broken_stream_count", "Streams to stores that broke.", c.StreamsBroken)
	for _, stream := range s.Streams {
		store := strconv.FormatUint(stream.Store, 10)
		r.gauge("ticdc_kvclient_grpc_stream_count", "Change streams that are open.", 1, "store", store)
		r.gauge("ticdc_subscription_client_requested_region_count", "Regions asked for and not yet scanned.", float64(stream.Waiting), "store", store, "state", "pending")
		r.gauge("ticdc_subscription_client_requested_region_count", "Regions asked for and not yet scanned.", float64(stream.Scanning), "store", store, "state", "scanning")
	}
	regions := 0
	for i := range s.Subscriptions {
		regions += s.Subscriptions[i].Regions
	}
	r.gauge("ticdc_subscription_client_subscribed_region_count", "Regions that are followed.", float64(regions))
	r.counter("ticdc_subscription_client_resolve_lock_count", "Searches of regions for locks that hold them back.", c.LockSearches)
	r.counter("ticdc_subscription_client_resolve_lock_processed_lock_count", "Locks that were found.", c.LocksFound)
	r.counter("ticdc_subscription_client_resolve_lock_task_drop_count", "Searches that were turned away.", c.LockSearchesRefused)
}

// collectFeeds is what only the owner knows.
func (m *meter) collectFeeds(r readout) {
	p := m.plane.Load()
	owner := p != nil && (*p).Self().Owner
	r.value(prometheus.CounterValue, "ticdc_owner_ownership_counter", "Seconds for which this capture has been the owner.", m.ownedFor(owner).Seconds())
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
	r.gauge("ticdc_owner_current_pd_ts", "PD's present, in milliseconds.", float64(now.Physical()))
	for i := range feeds {
		f := &feeds[i]
		labels := []string{"namespace", f.ID.Keyspace, "changefeed", f.ID.Name}
		r.gauge("ticdc_owner_status", "State of the changefeed: "+stateNumbers, stateNumber(f.State), labels...)
		if f.State == "removed" || f.Checkpoint == 0 {
			continue
		}
		r.gauge("ticdc_owner_checkpoint_ts", "Up to where everything is downstream, in milliseconds.", float64(f.Checkpoint.Physical()), labels...)
		r.gauge("ticdc_owner_checkpoint_ts_lag", "How far that is behind PD's present, in seconds.", now.Sub(f.Checkpoint).Seconds(), labels...)
		r.gauge("ticdc_owner_resolved_ts", "Up to where everything has come from upstream, in milliseconds.", float64(f.Resolved.Physical()), labels...)
		r.gauge("ticdc_owner_resolved_ts_lag", "How far that is behind PD's present, in seconds.", now.Sub(f.Resolved).Seconds(), labels...)
		for _, t := range f.Tasks {
			r.gauge("ticdc_processor_num_of_tables", "Tables that a capture replicates.", float64(t.Tables), append(labels, "capture", t.CaptureID)...)
		}
	}
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
