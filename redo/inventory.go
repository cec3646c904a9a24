package redo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/tso"
)

// LogFile is one file of a log.
type LogFile struct {
	record.Name
	Path string // in the storage
	Size int64
}

// Problem is something that should be in a log and is not, or cannot be read.
type Problem struct {
	What   string // the file, or the files that are missing
	From   tso.TS // the least commit-ts that it may be about
	To     tso.TS // the largest
	Tables []string
	Err    error
}

func (p Problem) String() string {
	tables := "any table"
	if len(p.Tables) > 0 {
		tables = strings.Join(p.Tables, ", ")
	}
	return fmt.Sprintf("%s: commit-ts %d to %d, of %s: %v", p.What, p.From, p.To, tables, p.Err)
}

// Inventory is a log as it lies on the storage.
type Inventory struct {
	ID    ID
	Meta  record.Meta
	Files []LogFile // those that are needed, by kind, writer and number
	// Beyond are files that nobody has counted on yet: they may be torn, and nothing
	// is only in them. Below are files that nobody needs any more.
	Beyond, Below int
	Problems      []Problem
}

// Bytes is how much there is to fetch.
func (inv *Inventory) Bytes() (sum int64) {
	for _, f := range inv.Files {
		sum += f.Size
	}
	return sum
}

// Recoverable is up to where the log has everything. A downstream that holds
// something above it already cannot be made a snapshot by this log.
func (inv *Inventory) Recoverable() tso.TS {
	ts := inv.Meta.Resolved
	for _, p := range inv.Problems {
		ts = min(ts, p.From.Prev())
	}
	return max(ts, inv.Meta.Checkpoint)
}

// Err is nil for a log that is whole.
func (inv *Inventory) Err() error {
	if len(inv.Problems) == 0 {
		return nil
	}
	texts := make([]string, len(inv.Problems))
	for i, p := range inv.Problems {
		texts[i] = p.String()
	}
	return cdcerr.RedoGap.New("redo log %v: %d of resolved-ts %d can be recovered: %s", inv.ID, inv.Recoverable(), inv.Meta.Resolved, strings.Join(texts, "; "))
}

// Open reads a log's meta and lists what belongs to it. Files that are missing are
// Problems, not errors.
func Open(ctx context.Context, b objstore.Bucket, id ID) (*Inventory, error) {
	o, err := owner(ctx, b)
	if err != nil {
		return nil, err
	}
	if o.Cluster != id.Cluster {
		return nil, cdcerr.RedoForeign.New("%s holds the redo logs of the cluster %d, asked for is one of %d", b, o.Cluster, id.Cluster)
	}
	for {
		meta, _, err := latest(ctx, b, id)
		if err != nil {
			return nil, err
		}
		inv, err := take(ctx, b, id, meta)
		if err != nil || len(inv.Problems) == 0 {
			return inv, err
		}
		// A log that is being written may have moved on, and what its old meta needed
		// may be removed since.
		now, _, err := latest(ctx, b, id)
		if err != nil {
			return nil, err
		}
		if now.Number == meta.Number {
			return inv, nil
		}
	}
}

// take lists what belongs to a meta.
func take(ctx context.Context, b objstore.Bucket, id ID, meta *record.Meta) (*Inventory, error) {
	inv := &Inventory{ID: id, Meta: *meta}
	counted := map[string][]LogFile{}
	for _, kind := range []record.Kind{record.Rows, record.DDLs} {
		err := b.List(ctx, id.dir()+kind.String()+"/", "", func(o objstore.Object) error {
			name, err := record.ParseName(o.Name[len(id.dir()):])
			if err != nil {
				return err
			}
			counted[name.Writer] = append(counted[name.Writer], LogFile{Name: name, Path: o.Name, Size: o.Size})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, e := range meta.Writers {
		files := counted[e.Writer]
		delete(counted, e.Writer)
		if err := inv.writer(ctx, b, e, files); err != nil {
			return nil, err
		}
	}
	for _, files := range counted { // of writers that the meta does not name
		for _, f := range files {
			if f.Max <= meta.Checkpoint {
				inv.Below++
			} else {
				inv.Beyond++
			}
		}
	}
	slices.SortFunc(inv.Files, func(a, b LogFile) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Writer, b.Writer), cmp.Compare(a.Number, b.Number))
	})
	return inv, nil
}

// writer takes one writer's files, and looks whether all are there.
func (inv *Inventory) writer(ctx context.Context, b objstore.Bucket, e record.Extent, files []LogFile) error {
	slices.SortFunc(files, func(a, b LogFile) int { return cmp.Compare(a.Number, b.Number) })
	next := uint64(1)  // the number that should come
	var reached tso.TS // the largest commit-ts of files seen
	for _, f := range files {
		if f.Number > e.Files {
			inv.Beyond++
			continue
		}
		if f.Number > next {
			if err := inv.missing(ctx, b, e, next, f); err != nil {
				return err
			}
		}
		next = f.Number + 1
		reached = max(reached, f.Max)
		switch {
		case f.Max <= inv.Meta.Checkpoint:
			inv.Below++
		case f.Min <= inv.Meta.Resolved:
			inv.Files = append(inv.Files, f)
		}
	}
	if next <= e.Files && e.Max > inv.Meta.Checkpoint && e.Max > reached {
		inv.gap(e, next, e.Files, e.Max)
	}
	return nil
}

// missing looks whether the files from number next up to that before f were removed
// because nobody needs them. The head of f tells.
func (inv *Inventory) missing(ctx context.Context, b objstore.Bucket, e record.Extent, next uint64, f LogFile) error {
	head, err := readHead(ctx, b, f)
	switch {
	case err != nil && cdcerr.Fate(err) == cdcerr.Retry:
		return err
	case err != nil:
		inv.gap(e, next, f.Number-1, e.Max) // f itself is a problem, and tells nothing
	case head.BeforeMax <= inv.Meta.Checkpoint, next == f.Number-1 && head.LastMax <= inv.Meta.Checkpoint:
	default:
		inv.gap(e, next, f.Number-1, head.BeforeMax)
	}
	return nil
}

// gap notes files that are missing. What may be in them is anything above the
// checkpoint, since what was below is gone by right.
func (inv *Inventory) gap(e record.Extent, from, to uint64, highest tso.TS) {
	inv.Problems = append(inv.Problems, Problem{
		What: fmt.Sprintf("%v of writer %s, files %d to %d", e.Kind, e.Writer, from, to),
		From: inv.Meta.Checkpoint.Next(), To: highest,
		Err: cdcerr.RedoGap.New("not on the storage"),
	})
}

// headBytes is enough for any head.
const headBytes = 4 << 10

// readHead reads what a file says of itself, without the rest of it.
func readHead(ctx context.Context, b objstore.Bucket, f LogFile) (record.Head, error) {
	data, err := b.Get(ctx, f.Path, 0, headBytes)
	if err != nil {
		return record.Head{}, err
	}
	u, err := record.NewUnpacker()
	if err != nil {
		return record.Head{}, err
	}
	file, err := record.Open(f.Path, data, u)
	if err != nil {
		return record.Head{}, err
	}
	return file.Head, nil
}
