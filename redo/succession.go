package redo

import (
	"context"
	"fmt"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
)

// overtaken is an error if the changefeed has gone on with another log since: what that
// has let through may stand downstream where this log puts what was before, or leaves it.
//
// A later log does no harm as long as this one writes all of it anew: it began within what
// this one applies, and reaches no further. In the same life not even that: what it has
// noted downstream of its DDLs is what applying this one would go by.
func (inv *Inventory) overtaken(ctx context.Context, b objstore.Bucket) error {
	all, err := Folders(ctx, b, inv.ID)
	if err != nil {
		return err
	}
	own := &inv.Meta
	for _, id := range all {
		if id.Namespace != inv.ID.Namespace || id.Changefeed != inv.ID.Changefeed || id == inv.ID {
			continue
		}
		m, err := LastMeta(ctx, b, id)
		if cdcerr.RedoMetaNotFound.Is(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("redo log %v, which may be a later one: %w", id, err)
		}
		if m.ExactFrom <= own.ExactFrom {
			continue // it was there before
		}
		idle := m.Resolved == m.Began
		if idle || id.Life() != inv.ID.Life() && m.Began >= own.Checkpoint && m.Resolved <= own.Resolved {
			continue
		}
		return cdcerr.RedoOvertaken.New("redo log %v, of commit-ts %d to %d: the changefeed went on from %d with the log %v, and what that has written up to %d may stand downstream",
			inv.ID, own.Checkpoint.Next(), own.Resolved, m.Began, id, m.Resolved)
	}
	return nil
}
