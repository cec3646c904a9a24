package redo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	Highest       tso.TS // the largest commit-ts in files beyond
	Problems      []Problem
	Overtaken     error    // by a later log of the changefeed; nil where it is not
	Notes         []string // what is strange there, and no loss
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

// Err is nil for a log that is whole, and that makes a snapshot.
func (inv *Inventory) Err() error {
	if inv.Overtaken != nil {
		return inv.Overtaken
	}
	if m := &inv.Meta; len(inv.Problems) == 0 && m.Resolved < m.ExactFrom {
		return cdcerr.RedoTooYoung.New("redo log %v: it began at %d, where the downstream may have held what is committed up to %d, and its resolved-ts is %d: it makes a snapshot from %d on",
			inv.ID, m.Checkpoint, m.ExactFrom, m.Resolved, m.ExactFrom)
	}
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
	var notes []string
	o, err := owner(ctx, b)
	switch {
	case cdcerr.RedoMetaNotFound.Is(err):
		notes = append(notes, fmt.Sprintf("%s has no %s: whose log this is its meta says", b, ownership))
	case err != nil:
		return nil, err
	default:
		if err := o.check(b, id); err != nil {
			return nil, err
		}
	}
	for {
		meta, _, err := latest(ctx, b, id)
		if err != nil {
			return nil, err
		}
		if err := (owned{Cluster: meta.Cluster, Servers: meta.Servers}).check(b, id); err != nil {
			return nil, err
		}
		inv, err := take(ctx, b, id, meta)
		if err != nil {
			return nil, err
		}
		inv.Notes = append(slices.Clone(notes), inv.Notes...)
		if inv.Overtaken = inv.overtaken(ctx, b); inv.Overtaken != nil && !cdcerr.RedoOvertaken.Is(inv.Overtaken) {
			return nil, inv.Overtaken
		}
		if len(inv.Problems) == 0 {
			return inv, nil
		}
		// A log that is being written may have moved on, and what its old meta needed
		// may be removed since: what reaches above the checkpoint of now is not.
		now, _, err := latest(ctx, b, id)
		if err != nil {
			return nil, err
		}
		if inv.lost(now.Checkpoint) {
			return inv, nil
		}
	}
}

// take lists what belongs to a meta.
func take(ctx context.Context, b objstore.Bucket, id ID, meta *record.Meta) (*Inventory, error) {
	inv := &Inventory{ID: id, Meta: *meta}
	counted, strays, err := files(ctx, b, id)
	if err != nil {
		return nil, err
	}
	for _, name := range strays {
		inv.Notes = append(inv.Notes, name+" is no file of a redo log: it is passed over")
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
				inv.beyond(f)
			}
		}
	}
	inv.ahead()
	slices.SortFunc(inv.Files, func(a, b LogFile) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Writer, b.Writer), cmp.Compare(a.Number, b.Number))
	})
	return inv, nil
}

// aheadMax is how far files may reach above the resolved-ts before it is worth a word.
const aheadMax = time.Minute

// beyond counts a file that the meta does not count on.
func (inv *Inventory) beyond(f LogFile) {
	inv.Beyond++
	inv.Highest = max(inv.Highest, f.Max)
}

// ahead says what a meta looks like that is not the newest that there was: a tool that
// keeps a storage small may have removed that one. It may also be that one capture was
// late, and the others were not.
func (inv *Inventory) ahead() {
	if by := inv.Highest.Sub(inv.Meta.Resolved); inv.Beyond > 0 && by > aheadMax {
		inv.Notes = append(inv.Notes, fmt.Sprintf(
			"%d files reach up to %d, %v above the meta's resolved-ts: a capture was as late as that when the log ended, or the newest meta was removed from the storage, in which case the downstream is ahead of this one",
			inv.Beyond, inv.Highest, by.Round(time.Second)))
	}
}

// writer takes one writer's files, and looks whether all are there.
func (inv *Inventory) writer(ctx context.Context, b objstore.Bucket, e record.Extent, files []LogFile) error {
	next := uint64(1) // the number that should come
	for _, f := range files {
		if f.Number > e.Files {
			inv.beyond(f)
			continue
		}
		if f.Number > next {
			if err := inv.missing(ctx, b, e, next, f); err != nil {
				return err
			}
		}
		next = f.Number + 1
		switch {
		case f.Max <= inv.Meta.Checkpoint:
			inv.Below++
		case f.Min <= inv.Meta.Resolved:
			inv.Files = append(inv.Files, f)
		}
	}
	// The file that Max is of is needed, and GC removes none behind one that is.
	if next <= e.Files && e.Max > inv.Meta.Checkpoint {
		inv.gap(e, next, e.Files, e.Max)
	}
	return nil
}

// missing looks whether the files from number next up to that before f were removed
// because nobody needs them. The head of f tells.
func (inv *Inventory) missing(ctx context.Context, b objstore.Bucket, e record.Extent, next uint64, f LogFile) error {
	head, err := readHead(ctx, b, f)
	switch {
	case cdcerr.ObjectNotFound.Is(err) && f.Max <= inv.Meta.Checkpoint: // removed since it was listed, and those before it earlier
	case cdcerr.ObjectNotFound.Is(err):
		inv.gap(e, next, f.Number, f.Max)
	case err != nil && cdcerr.Fate(err) == cdcerr.Retry:
		return err
	case err != nil:
		inv.gap(e, next, f.Number-1, e.Max) // f itself is a problem, and tells nothing
	case head.BeforeMax <= inv.Meta.Checkpoint:
	default:
		inv.gap(e, next, f.Number-1, head.BeforeMax)
	}
	return nil
}

// lost tells whether a problem is one for a later checkpoint too.
func (inv *Inventory) lost(checkpoint tso.TS) bool {
	return checkpoint == inv.Meta.Checkpoint || slices.ContainsFunc(inv.Problems, func(p Problem) bool { return p.To > checkpoint })
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
