package coordinator

import (
	"context"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// MoveTable implements api.Node.
func (c *Coordinator) MoveTable(ctx context.Context, id api.FeedID, table int64, to capture.ID) error {
	return cdcerr.SchedulerRequest.New("x")
}

// Rebalance implements api.Node.
func (c *Coordinator) Rebalance(ctx context.Context, id api.FeedID) error {
	return nil
}
