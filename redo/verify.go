package redo

import (
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
)

// Report is what a log was found to be.
type Report struct {
	*Inventory
	Rows, DDLs uint64 // in the files that are needed, those written twice counted twice
}

// Verify reads the whole of a log, without a downstream: every checksum, every
// number, every file against its name. What is wrong is in the report's Problems;
// an error says that the storage did not answer.
func Verify(ctx context.Context, b objstore.Bucket, inv *Inventory, readers int) (*Report, error) {
	rep := &Report{Inventory: inv}
	problems := make([]*Problem, len(inv.Files))
	var mu sync.Mutex // of rep's counts
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, readers))
	for i, file := range inv.Files {
		g.Go(func() error {
			end, p, err := verifyFile(ctx, b, inv, file)
			if err != nil {
				return err
			}
			problems[i] = p
			mu.Lock()
			rep.Rows, rep.DDLs = rep.Rows+end.Rows, rep.DDLs+end.DDLs
			mu.Unlock()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p != nil {
			inv.Problems = append(inv.Problems, *p)
		}
	}
	return rep, nil
}

func verifyFile(ctx context.Context, b objstore.Bucket, inv *Inventory, file LogFile) (record.End, *Problem, error) {
	u, err := record.NewUnpacker()
	if err != nil {
		return record.End{}, nil, err
	}
	data, err := b.Get(ctx, file.Path, 0, objstore.ToEnd)
	if err != nil && !cdcerr.ObjectNotFound.Is(err) {
		return record.End{}, nil, err
	}
	r := run{files: []LogFile{file}}
	if err == nil {
		r.file, err = record.Open(file.Path, data, u)
	}
	if err == nil {
		err = checkHead(file, r.file.Head, inv.ID)
	}
	for err == nil && !r.done {
		err = r.next()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return record.End{}, &Problem{
			What: file.Path, From: max(file.Min, inv.Meta.Checkpoint.Next()), To: file.Max, Tables: tables(data, u), Err: err,
		}, nil
	}
	return r.file.End, nil, nil
}
