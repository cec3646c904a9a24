package agent

import (
	"context"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

// Snapshot reads rows that no event carries from the upstream: those of tables
// that came back.
type Snapshot struct{ client *upstream.Client }

// Rows hands fn every row of t as of at, as inserts, in the order of keys.
func (s *Snapshot) Rows(ctx context.Context, t *event.Table, at tso.TS, fn func(*event.Row) error) error {
	m := mount.New()
	for _, id := range t.PhysicalIDs() {
		start := span.RecordPrefix(id)
		end := append(start[:len(start)-1:len(start)-1], start[len(start)-1]+1)
		err := s.client.Scan(ctx, start, end, at, func(key, value []byte) error {
			row, err := m.Row(&event.RawKV{Op: event.Put, StartTS: at.Prev(), CommitTS: at, Key: key, Value: value}, t)
			if err != nil || row == nil {
				return err
			}
			return fn(row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
