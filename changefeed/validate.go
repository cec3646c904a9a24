package changefeed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/filter"
)

// Limits are bounds that a server may set otherwise.
type Limits struct {
	// SyncPointIntervalMin is the shortest time between sync points; 0 is 30 s.
	SyncPointIntervalMin time.Duration
	// UpstreamLossGraceMin is the shortest consistent.upstream-loss-grace; 0 is 30 s.
	UpstreamLossGraceMin time.Duration
	// MetadataUpstream says that the cluster's metadata is in the upstream's own PD.
	MetadataUpstream bool
}

// Allow is an error if a changefeed of this configuration cannot be run here, though it
// may have been made.
func (l Limits) Allow(c *Config) error {
	if l.MetadataUpstream && c.Consistent.Applies() {
		return cdcerr.ConfigInvalid.New("consistent.on-upstream-loss = \"apply\": the metadata of this cluster is in the upstream's own PD, and is lost with it, so that nobody could lead the changefeed any more: " +
			"want meta.backend = \"external\" or \"embedded\" in the servers' files, with an etcd that outlives the upstream")
	}
	return nil
}

// Validate names the first key that cannot be used, and why. It says nothing of
// whether this release has what the key is for: Check does.
func (c *Config) Validate(l Limits) error {
	keys := keysByPath()
	for _, x := range leaves(c) {
		k := keys[x.path]
		switch {
		case k == nil:
			return cdcerr.Bug("key %s is in no list", x.path)
		case x.value == nil || k.bound.ok == nil:
		case x.path == "sync-point-interval" && l.SyncPointIntervalMin > 0:
			if c.SyncPointInterval < Duration(l.SyncPointIntervalMin) {
				return c.outside(x, "from "+short(l.SyncPointIntervalMin))
			}
		case x.path == "consistent.upstream-loss-grace" && l.UpstreamLossGraceMin > 0:
			if d := c.Consistent.UpstreamLossGrace; d != 0 && d < Duration(l.UpstreamLossGraceMin) {
				return c.outside(x, "nothing, or from "+short(l.UpstreamLossGraceMin))
			}
		case !k.bound.ok(x.value):
			return c.outside(x, k.bound.says)
		}
	}
	if _, err := filter.New(c.FilterConfig(nil)); err != nil {
		return err
	}
	if err := c.validateTogether(); err != nil {
		return err
	}
	return l.Allow(c)
}

func (c *Config) outside(x leaf, want string) error {
	if d, ok := x.value.(Duration); ok && d > 0 && d < Duration(time.Microsecond) {
		// The file's number is read as nanoseconds, which nobody means.
		return cdcerr.ConfigInvalid.New("%s = %d: it has no unit: want text such as \"%ds\", %s", x.place, int64(d), int64(d), want)
	}
	return cdcerr.ConfigInvalid.New("%s = %s: want %s", x.place, printValue(x.value), want)
}

// printValue is a value as TOML has it; a secret is masked.
func printValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case Duration, URI, Secret:
		return fmt.Sprintf("%q", fmt.Sprint(v))
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// partitionRules choose a partition in Kafka; Pulsar takes any word for a key.
var partitionRules = []string{"", "default", "table", "ts", "index-value", "rowid", "columns"}

// keepsNothing tells whether a storage is none.
func keepsNothing(u URI) bool {
	scheme, _, _ := strings.Cut(u.Reveal(), "://")
	return scheme == "noop" || scheme == "blackhole"
}

// redoQuota is the redo log's part of the memory quota, in bytes.
func (c *Config) redoQuota() int64 {
	quota, part := c.MemoryQuota, c.Consistent.MemoryUsage.MemoryQuotaPercentage
	if quota == 0 {
		quota = Default().MemoryQuota
	}
	if part == 0 {
		part = Default().Consistent.MemoryUsage.MemoryQuotaPercentage
	}
	return int64(min(quota/100*part, 1<<40)) // more than any machine has
}

// RedoQuota is how many bytes of rows may wait on a capture for their file of the redo
// log.
func (c *Config) RedoQuota() int64 { return c.redoQuota() }

// validateTogether checks what depends on several keys.
func (c *Config) validateTogether() error {
	refuse := cdcerr.ConfigInvalid.New
	isSet := func(b *bool) bool { return b != nil && *b }
	for i, d := range c.Sink.Dispatchers {
		place := fmt.Sprintf("sink.dispatchers[%d]", i)
		rule := strings.ToLower(d.Partition)
		switch {
		case d.Partition != "" && d.Dispatcher != "" && d.Partition != d.Dispatcher:
			return refuse("%s: partition and dispatcher are two words for one thing, and say %q and %q", place, d.Partition, d.Dispatcher)
		case d.Index != "" && rule != "index-value" && rule != "rowid":
			return refuse("%s.index = %q: want partition = \"index-value\" with it", place, d.Index)
		case len(d.Columns) > 0 && rule != "columns":
			return refuse("%s.columns: want partition = \"columns\" with it", place)
		case rule == "columns" && len(d.Columns) == 0:
			return refuse("%s.partition = \"columns\": want columns with it", place)
		case c.Sink.Pulsar == nil && !slices.Contains(partitionRules, rule):
			return refuse("%s.partition = %q: want %s", place, d.Partition, strings.Join(partitionRules[1:], ", "))
		}
	}
	s := &c.Scheduler
	switch {
	case c.SyncPointRetention < c.SyncPointInterval:
		return refuse("sync-point-retention = %q: want at least sync-point-interval, which is %q", c.SyncPointRetention, c.SyncPointInterval)
	case s.EnableTableAcrossNodes && s.RegionCountPerSpan > s.RegionThreshold && s.RegionThreshold > 0:
		return refuse("scheduler.region-count-per-span = %d: want at most scheduler.region-threshold, which is %d", s.RegionCountPerSpan, s.RegionThreshold)
	case isSet(c.Sink.DeleteOnlyOutputHandleKeyColumns) && c.ForceReplicate:
		return refuse("sink.delete-only-output-handle-key-columns and force-replicate: want one of them, since tables without a key have no key columns")
	case isSet(c.Sink.DeleteOnlyOutputHandleKeyColumns) && c.Sink.Protocol == "csv":
		return refuse("sink.delete-only-output-handle-key-columns: CSV has no form for it")
	case c.Integrity.CheckLevel != "none" && len(c.Sink.ColumnSelectors) > 0:
		return refuse("integrity.integrity-check-level = %q: a checksum is over all columns, and sink.column-selectors leave some out", c.Integrity.CheckLevel)
	case c.EnableActiveActive && c.Consistent.Level != "none":
		return refuse("enable-active-active and consistent.level = %q: want one of them", c.Consistent.Level)
	case c.Consistent.On() && c.Consistent.Storage == "":
		return refuse("consistent.storage is empty: want where the redo log is kept")
	case c.Consistent.On() && keepsNothing(c.Consistent.Storage):
		return refuse("consistent.storage = %q: it keeps nothing, and consistent.level = \"eventual\" promises that rows can be read from there: want a place, or level \"none\"", c.Consistent.Storage)
	case c.Consistent.On() && c.redoQuota() < c.Consistent.MaxLogSize<<20:
		return refuse("consistent.memory-usage.memory-quota-percentage = %d of memory-quota = %d is less than one file of consistent.max-log-size = %d MiB: want a smaller file, or more memory",
			c.Consistent.MemoryUsage.MemoryQuotaPercentage, c.MemoryQuota, c.Consistent.MaxLogSize)
	case c.Consistent.OnUpstreamLoss == "apply" && !c.Consistent.On():
		return refuse("consistent.on-upstream-loss = \"apply\": there is no redo log to apply: want consistent.level = \"eventual\" with it")
	case c.Sink.SchemaRegistry != "" && c.Sink.Kafka != nil && c.Sink.Kafka.GlueSchemaRegistry != nil:
		return refuse("sink.schema-registry and sink.kafka-config.glue-schema-registry-config: want one of them")
	}
	return nil
}
