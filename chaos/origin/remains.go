package origin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// Remains is what is left of an upstream whose process is gone: its journal.
type Remains struct {
	store     mvcc.Snapshot
	databases []string
}

// Remember reads the journal of Config.Journal. The databases are what the upstream has
// said that its load writes to.
func Remember(journal string, databases []string) (r *Remains, err error) {
	f, err := os.Open(filepath.Clean(journal))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r = &Remains{databases: databases}
	if r.store, err = fake.ReadJournal(f); err != nil {
		return nil, fmt.Errorf("%s: %w", journal, err)
	}
	return r, nil
}

// Compare tells where a downstream differs from what stood upstream at a moment. It is
// empty where nothing does.
func (r *Remains) Compare(ctx context.Context, d Downstream) (differences []string, err error) {
	return compare(ctx, r.store, r.databases, d)
}

// Balances are what the accounts held at moments.
func (r *Remains) Balances(at []tso.TS) ([]Accounts, error) { return balances(r.store, at) }
