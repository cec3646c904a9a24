package coordinator

import (
	"math"
	"time"

	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/event"
)

// trafficMin is the least traffic, in bytes a second, because of which a table is cut:
// one capture does that for several. Older files of TiCDC count keys a minute, and say less.
const trafficMin = 10 << 20

// split has large tables cut, as the changefeed's configuration says.
func (c *Coordinator) split(info *changefeed.Info, out *owner.Config) {
	s := &info.Config.Scheduler
	if !s.EnableTableAcrossNodes {
		return
	}
	to := &out.Scheduler.Split
	to.Regions = uint32(min(s.RegionThreshold, math.MaxInt32))
	to.Each = min(uint32(min(s.RegionCountPerSpan, math.MaxInt32)), to.Regions)
	if s.WriteKeyThreshold > 0 {
		to.Traffic = uint64(max(s.WriteKeyThreshold, trafficMin))
	}
	out.Borders = c.cfg.Capture.Borders
	if info.OneKeyOnly() {
		out.Divisible = (*event.Table).OneKey
	}
}

// countEvery is how often the regions of spans are counted; 0: never.
func countEvery(s *changefeed.Scheduler) time.Duration {
	if !s.EnableTableAcrossNodes {
		return 0
	}
	return time.Duration(s.RegionCountRefreshInterval)
}
