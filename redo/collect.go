package redo

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// removers remove objects at the same time: a round trip each, and nothing waits for them.
const removers = 8

// files lists a log's files by their writers, those of each by number, and what lies
// among them and is none.
func files(ctx context.Context, b objstore.Bucket, id ID) (byWriter map[string][]LogFile, strays []string, err error) {
	byWriter = map[string][]LogFile{}
	for _, kind := range []record.Kind{record.Rows, record.DDLs} {
		err := b.List(ctx, id.dir()+kind.String()+"/", "", func(o objstore.Object) error {
			if name, err := record.ParseName(o.Name[len(id.dir()):]); err == nil {
				byWriter[name.Writer] = append(byWriter[name.Writer], LogFile{Name: name, Path: o.Name, Size: o.Size})
			} else {
				strays = append(strays, o.Name)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, all := range byWriter {
		slices.SortFunc(all, func(a, b LogFile) int { return cmp.Compare(a.Number, b.Number) })
	}
	return byWriter, strays, nil
}

// collect removes the files that nobody needs, and tells how many. A file goes when it,
// and all that its writer has numbered before it, lies at or below the checkpoint: so
// what goes is a prefix, however the order of commit-ts goes back in it, and every
// number that is missing behind one that is needed was lost.
func collect(ctx context.Context, b objstore.Bucket, id ID, checkpoint tso.TS) (int, error) {
	byWriter, _, err := files(ctx, b, id)
	if err != nil {
		return 0, err
	}
	var removed atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removers)
	for _, all := range byWriter {
		prefix, err := needless(ctx, b, all, checkpoint)
		if err != nil {
			return int(removed.Load()), cmp.Or(g.Wait(), err)
		}
		for _, f := range prefix {
			g.Go(func() error {
				err := b.Delete(ctx, f.Path)
				if err == nil {
					removed.Add(1)
				}
				return err
			})
		}
	}
	err = g.Wait()
	return int(removed.Load()), err
}

// needless are the first of one writer's files that nobody needs.
func needless(ctx context.Context, b objstore.Bucket, all []LogFile, checkpoint tso.TS) ([]LogFile, error) {
	next := uint64(1)
	for i, f := range all {
		if f.Max > checkpoint {
			return all[:i], nil
		}
		if f.Number != next {
			passed, err := passed(ctx, b, f, checkpoint)
			if err != nil {
				return nil, err
			}
			if !passed {
				return all[:i], nil
			}
		}
		next = f.Number + 1
	}
	return all, nil
}

// passed tells whether all that a file's writer has numbered before it lies at or below
// the checkpoint, removed or still on its way to the storage. A file that cannot be read
// tells nothing, and stays.
func passed(ctx context.Context, b objstore.Bucket, f LogFile, checkpoint tso.TS) (bool, error) {
	head, err := readHead(ctx, b, f)
	if err != nil && cdcerr.Fate(err) == cdcerr.Retry && !cdcerr.ObjectNotFound.Is(err) {
		return false, err
	}
	return err == nil && head.BeforeMax <= checkpoint, nil
}
