package api

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

// moveWait is how long a request waits for a table to be where it was asked to be,
// moveLook how often it looks. A table that catches up takes longer, and moves on.
const (
	moveWait = 30 * time.Second
	moveLook = 50 * time.Millisecond
)

func (c *call) moveTable() (any, error) {
	q := c.URL.Query()
	table, err := strconv.ParseInt(q.Get("tableID"), 10, 64)
	if err != nil || table <= 0 {
		return nil, cdcerr.InvalidArgument.New("tableID: %q is no table's number", clip(q.Get("tableID")))
	}
	if mode := q.Get("mode"); mode != "" && mode != "0" {
		return nil, cdcerr.NotInRelease.New("mode: %q; the redo log is not written by table, so that only 0, the tables that rows are written of, can be moved", clip(mode))
	}
	wait := false
	if text := q.Get("wait"); text != "" {
		if wait, err = strconv.ParseBool(text); err != nil {
			return nil, cdcerr.InvalidArgument.New("wait: %q is neither true nor false", clip(text))
		}
	}
	to := q.Get("targetNodeID")
	if to == "" {
		return nil, cdcerr.InvalidArgument.New("targetNodeID: is missing")
	}
	shown, err := c.node().MoveTable(c.Context(), c.feed(), table, capture.ID(to))
	if err != nil || !wait {
		return Empty{}, err
	}
	return Empty{}, c.moved(shown, to)
}

// moved waits until a capture has a table.
func (c *call) moved(table int64, to string) error {
	ctx, cancel := context.WithTimeout(c.Context(), moveWait)
	defer cancel()
	look := time.NewTicker(moveLook)
	defer look.Stop()
	for {
		f, err := c.node().Get(ctx, c.feed())
		if err != nil {
			return err
		}
		if slices.ContainsFunc(f.Tasks, func(t TaskStatus) bool { return t.CaptureID == to && slices.Contains(t.TableIDs, table) }) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return cdcerr.SchedulerRequest.New("table %d is not on capture %s after %v; it is moved as soon as it can be, unless its capture or the owner goes: /tables shows where it is", table, clip(to), moveWait)
		}
	}
}

func (c *call) firstMove() (any, error) {
	var in FirstMove
	if err := c.read(&in); err != nil {
		return nil, err
	}
	switch {
	case in.CaptureID == "":
		return nil, cdcerr.InvalidArgument.New("capture_id: is missing")
	case in.TableID <= 0:
		return nil, cdcerr.InvalidArgument.New("table_id: %d is no table's number", in.TableID)
	}
	_, err := c.node().MoveTable(c.Context(), c.feed(), in.TableID, capture.ID(in.CaptureID))
	return Empty{}, err
}

func (c *call) rebalance() (any, error) { return Empty{}, c.node().Rebalance(c.Context(), c.feed()) }
