package playground

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// overInterval is how often it is looked whether the last job rows of a recording
// that is over have arrived.
const overInterval = 50 * time.Millisecond

// outcomeUnknown ends a run whose recording is over while a DDL job has switched
// and nothing says whether it was carried out. A changefeed has to wait there, and
// on a running cluster the answer comes; here none ever will. It is nil where there
// is no such job.
func outcomeUnknown(ctx context.Context, cluster *fake.Cluster, feed *schemafeed.Feed, end tso.TS) error {
	select {
	case <-cluster.Replayed():
	case <-ctx.Done():
		return nil
	}
	all := cluster.TS() // nothing that was recorded lies above
	tick := time.NewTicker(overInterval)
	defer tick.Stop()
	for {
		held, seen := feed.Held()
		if seen >= all {
			if held.Job == nil || held.SwitchTS > end {
				return nil
			}
			return cdcerr.RecordingInvalid.New("the recording ends (END %d) within DDL job %d (%s): since its switch-ts %d TiDB's writers use the new shape, and no row says whether the job was carried out or rolled back; record until the job has ended, or set END below %d and give the expected contents of then",
				end, held.Job.ID, held.Job.Named(), held.SwitchTS, held.SwitchTS)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
