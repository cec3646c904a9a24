package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-cdc/sluice/api"
)

// metric is one name that is read from the parts of the node.
type metric struct {
	name string
	kind prometheus.ValueType // UntypedValue stands for a histogram
	help string
}

const (
	gauge     = prometheus.GaugeValue
	counter   = prometheus.CounterValue
	histogram = prometheus.UntypedValue
)

// metrics are all names, in the order in which docs/compatibility.md has them. Names
// that begin with ticdc are those that TiCDC's dashboards and alerts read.
func metrics() []metric {
	return []metric{
		{"ticdc_server_build_info", gauge, "1, with what was built as labels."},
		{"ticdc_server_go_gc", gauge, "GOGC as it was set."},
		{"ticdc_server_go_max_procs", gauge, "Threads that run Go code at once."},

		{"ticdc_owner_ownership_counter", counter, "Seconds for which this capture has been the owner."},
		{"ticdc_owner_current_pd_ts", gauge, "PD's present, in milliseconds."},
		{"ticdc_owner_status", gauge, "State of the changefeed: " + stateNumbers},
		{"ticdc_coordinator_changefeed_state", gauge, "State of the changefeed: " + stateNumbers},
		{"ticdc_owner_changefeed_error_info", gauge, "1 while the changefeed shows an error or a warning, with its code."},
		{"ticdc_owner_checkpoint_ts", gauge, "Up to where everything is downstream, in milliseconds."},
		{"ticdc_owner_checkpoint_ts_lag", gauge, "How far that is behind PD's present, in seconds."},
		{"ticdc_owner_resolved_ts", gauge, "Up to where everything has come from upstream, in milliseconds."},
		{"ticdc_owner_resolved_ts_lag", gauge, "How far that is behind PD's present, in seconds."},
		{"ticdc_maintainer_checkpoint_ts_lag", gauge, "As ticdc_owner_checkpoint_ts_lag."},
		{"ticdc_maintainer_resolved_ts_lag", gauge, "As ticdc_owner_resolved_ts_lag."},
		{"ticdc_changefeed_maintainer_counter", gauge, "Changefeeds that run, as their owner counts them."},
		{"ticdc_processor_num_of_tables", gauge, "Tables that a capture replicates."},
		{"ticdc_scheduler_table_count", gauge, "Tables of the changefeed that are replicated."},
		{"ticdc_processor_exit_with_error_count", counter, "Runs of the changefeed that ended with an error, as this capture has counted them as their owner."},
		{"ticdc_gc_cdc_gc_safepoint", gauge, "From where on the owner keeps what is upstream, in milliseconds; absent while it keeps nothing."},

		{"ticdc_sink_execution_error", counter, "Errors of the downstream that this capture met, also those that it rode out."},
		{"ticdc_sink_table_sink_total_rows_count", counter, "Rows that the sink of this capture has taken in this run."},
		{"ticdc_sink_dml_event_count", counter, "Rows that the sink of this capture has taken in this run."},
		{"ticdc_sink_batch_row_count", histogram, "Rows of the batches that the sink of this capture was given."},
		{"ticdc_sink_ddl_exec_duration", histogram, "Seconds that DDLs took downstream."},
		{"ticdc_sink_ddl_exec_count", counter, "DDLs that were carried out."},
		{"ticdc_ddl_exec_duration", histogram, "Seconds that DDLs took downstream."},
		{"ticdc_ddl_exec_running", gauge, "DDLs that are under way."},

		{"ticdc_sorter_in_memory_data_size_gauge", gauge, "Bytes of rows that wait in memory."},
		{"ticdc_sorter_on_disk_data_size_gauge", gauge, "Bytes of rows that wait on disk."},
		{"ticdc_event_store_in_memory_data_size", gauge, "Bytes of rows that wait in memory."},
		{"ticdc_event_store_on_disk_data_size", gauge, "Bytes of rows that wait on disk."},

		{"ticdc_kvclient_event_feed_count", gauge, "Spans that are followed."},
		{"ticdc_kvclient_event_feed_error_count", counter, "Registrations that stores ended."},
		{"sluice_kvclient_broken_stream_count", counter, "Streams to stores that broke."},
		{"ticdc_kvclient_grpc_stream_count", gauge, "Change streams that are open."},
		{"ticdc_subscription_client_requested_region_count", gauge, "Regions asked for and not yet scanned."},
		{"ticdc_subscription_client_subscribed_region_count", gauge, "Regions that are followed."},
		{"ticdc_subscription_client_resolve_lock_count", counter, "Searches of regions for locks that hold them back."},
		{"ticdc_subscription_client_resolve_lock_processed_lock_count", counter, "Locks that were found."},
		{"ticdc_subscription_client_resolve_lock_task_drop_count", counter, "Searches that were turned away."},

		{"sluice_transport_message_count", counter, "Messages between captures."},
		{"sluice_transport_byte_count", counter, "Bytes of these."},
		{"sluice_transport_waiting_message_count", gauge, "Messages that wait for a stream to another capture."},
		{"sluice_transport_stream_count", gauge, "Streams to and from other captures that are open."},
		{"sluice_transport_broken_stream_count", counter, "Streams to other captures that broke, and are tried again."},
		{"sluice_transport_failed_stream_count", counter, "Attempts at a stream to another capture that failed."},
		{"sluice_transport_dropped_message_count", counter, "Messages that gave way to newer ones (replaced), that nobody here takes (unclaimed), that a peer said so of once a stream (refused), that this version does not understand (strange), or that are too large (oversize)."},
	}
}

// readout is what one collection writes to.
type readout struct {
	out   chan<- prometheus.Metric
	known map[string]metric
}

func newReadout(out chan<- prometheus.Metric) readout {
	r := readout{out: out, known: map[string]metric{}}
	for _, m := range metrics() {
		r.known[m.name] = m
	}
	return r
}

// desc is a name with the keys of its labels, which come as key, value, key, value.
func (r readout) desc(name string, labels []string) (desc *prometheus.Desc, kind prometheus.ValueType, values []string) {
	m, ok := r.known[name]
	if !ok {
		return prometheus.NewInvalidDesc(fmt.Errorf("metric %s is none of those that are listed", name)), gauge, nil
	}
	var keys []string
	for i := 0; i+1 < len(labels); i += 2 {
		keys, values = append(keys, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, m.help, keys, nil), m.kind, values
}

func (r readout) put(name string, v float64, labels ...string) {
	desc, kind, values := r.desc(name, labels)
	m, err := prometheus.NewConstMetric(desc, kind, v, values...)
	r.send(desc, m, err)
}

func (r readout) spread(name string, s *api.Spread, labels ...string) {
	desc, _, values := r.desc(name, labels)
	m, err := prometheus.NewConstHistogram(desc, s.All, s.Sum, s.Cumulated(), values...)
	r.send(desc, m, err)
}

func (r readout) send(desc *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	r.out <- m
}
