package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// Draw makes up the row of a number, and its key: that follows from the number,
// so that writers meet on rows.
func (x *Session) Draw(shape *catalog.Shape, id int, rng *rand.Rand) (*Record, []byte, error) {
	r := &Record{RowID: int64(id) + 1}
	for i := range shape.Table.Columns {
		c := &shape.Table.Columns[i]
		var cell Cell
		var err error
		switch {
		case c.Generated == event.Virtual: // no row holds it; all of them say id + 1
			cell, err = textCell(c, strconv.Itoa(id+1))
		case identifies(shape, i):
			cell, err = keyCell(c, id)
		default:
			cell, err = draw(rng, c)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s.%s: %w", shape.Table.FullName(), c.Name, err)
		}
		r.Cells = append(r.Cells, cell)
	}
	key, err := x.Key(shape, r)
	return r, key, err
}

// Exists locks a key, as a statement that writes does, and looks whether it is there.
func (x *Session) Exists(ctx context.Context, key []byte) (bool, error) {
	values, err := x.Lock(ctx, key)
	if err != nil {
		return false, err
	}
	if values != nil {
		return values[0] != nil, nil
	}
	v, err := x.Get(ctx, key)
	return v != nil, err
}
