package redo

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo/record"
)

// ownership is the object that says whose place a storage is.
const ownership = "sluice-redo.json"

// owned is its content.
type owned struct {
	Version int    `json:"version"`
	Cluster uint64 `json:"cluster"`
	Servers string `json:"servers"`
}

// ID names one log.
type ID struct {
	Cluster    uint64 // of the upstream
	Servers    string // the cluster-id of the servers that write it
	Namespace  string
	Changefeed string
	// Incarnation is another one each time the changefeed is created, or set to
	// another checkpoint: a log is never continued by what it does not belong to.
	Incarnation string
}

// dir is where the log is, in the storage.
func (id ID) dir() string {
	return id.Namespace + "/" + id.Changefeed + "/" + id.Incarnation + "/"
}

func (id ID) String() string { return id.Namespace + "/" + id.Changefeed + " (" + id.Incarnation + ")" }

// Incarnation is a changefeed's life, as its downstream knows it, as a folder's name.
// Wants tells logs apart that keep different rows of one life; empty for all.
func Incarnation(life, wants string) string {
	if wants != "" {
		life += wantsMark + wants
	}
	return strings.ToLower(lifeEncoding.EncodeToString([]byte(life)))
}

// wantsMark ends a life.
const wantsMark = "#"

// Life is what Incarnation was made of, empty where it was made of none.
func (id ID) Life() string {
	life, err := lifeEncoding.DecodeString(strings.ToUpper(id.Incarnation))
	if err != nil {
		return ""
	}
	out, _, _ := strings.Cut(string(life), wantsMark)
	return out
}

// lifeEncoding has letters and digits only, and orders as what it encodes.
var lifeEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// Validate refuses what cannot be a part of a name.
func (id ID) Validate() error {
	for what, part := range map[string]string{"namespace": id.Namespace, "changefeed": id.Changefeed, "incarnation": id.Incarnation} {
		if strings.Contains(part, "/") || part == "" {
			return cdcerr.InvalidArgument.New("redo log: the %s %q cannot be a folder's name", what, part)
		}
	}
	return objstore.CheckName(id.dir() + "x")
}

// Claim makes the storage a place of the redo logs that these servers keep of this
// upstream, or refuses one that is another's.
func Claim(ctx context.Context, cfg Config, b objstore.Bucket, id ID) error {
	return cfg.retry(ctx, "claiming the place", func() error { return claim(ctx, b, id) })
}

func claim(ctx context.Context, b objstore.Bucket, id ID) error {
	want, err := json.Marshal(owned{Version: record.Version, Cluster: id.Cluster, Servers: id.Servers})
	if err != nil {
		return fmt.Errorf("encoding whose place it is: %w", err)
	}
	err = b.PutNew(ctx, ownership, append(want, '\n'))
	if !cdcerr.ObjectExists.Is(err) {
		return err
	}
	got, err := owner(ctx, b)
	if cdcerr.RedoTorn.Is(err) {
		// Whoever claimed it first was cut off in the midst: nothing has been written here.
		return b.Put(ctx, ownership, append(want, '\n'))
	}
	if err != nil {
		return err
	}
	return got.check(b, id)
}

// Await returns once the storage holds the log, which its owner begins before anybody
// writes to it. A directory of another machine does not.
func Await(ctx context.Context, cfg Config, b objstore.Bucket, id ID) error {
	return cfg.retry(ctx, "looking for the log", func() error {
		_, err := LastMeta(ctx, b, id)
		if cdcerr.RedoMetaNotFound.Is(err) {
			return cdcerr.RedoElsewhere.New("consistent.storage %s, as this server sees it, has nothing of the redo log %v, which the owner has begun", b, id)
		}
		return err
	})
}

// check refuses a place that is not a log's.
func (o owned) check(b objstore.Bucket, id ID) error {
	switch {
	case o.Cluster != id.Cluster:
		return cdcerr.RedoForeign.New("%s holds the redo logs of the cluster %d, this one is %d", b, o.Cluster, id.Cluster)
	case o.Servers != id.Servers:
		return cdcerr.RedoForeign.New("%s holds the redo logs that servers with cluster-id %q keep, this is one of %q", b, o.Servers, id.Servers)
	}
	return nil
}

// owner reads whose place a storage is.
func owner(ctx context.Context, b objstore.Bucket) (owned, error) {
	var got owned
	text, err := b.Get(ctx, ownership, 0, objstore.ToEnd)
	switch {
	case cdcerr.ObjectNotFound.Is(err):
		return got, cdcerr.RedoMetaNotFound.New("%s is no place of redo logs: it has no %s", b, ownership)
	case err != nil:
		return got, fmt.Errorf("asking whose place it is: %w", err)
	case !strings.HasSuffix(string(text), "\n"):
		return got, cdcerr.RedoTorn.New("%s: %s ends too soon", b, ownership)
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Version < 1 {
		return got, cdcerr.RedoForeign.New("%s: what stands in %s was not written by Sluice: %.80q", b, ownership, text)
	}
	if got.Version > record.Version {
		return got, cdcerr.RedoVersion.New("%s: version %d of the format, this release knows %d", b, got.Version, record.Version)
	}
	return got, nil
}

// Find lists the logs of a storage that have a meta. Where it does not say whose place
// it is, the metas do.
func Find(ctx context.Context, b objstore.Bucket) ([]ID, error) {
	o, lost := owner(ctx, b)
	if lost != nil && !cdcerr.RedoMetaNotFound.Is(lost) {
		return nil, lost
	}
	all, err := Folders(ctx, b, ID{Cluster: o.Cluster, Servers: o.Servers})
	if err != nil {
		return nil, err
	}
	var ids []ID
	for _, id := range all {
		if lost == nil {
			metas, err := objstore.All(ctx, b, id.dir()+"meta/", "")
			if err != nil {
				return nil, err
			}
			if len(metas) > 0 {
				ids = append(ids, id)
			}
			continue
		}
		m, _, err := latest(ctx, b, id)
		switch {
		case err == nil:
			id.Cluster, id.Servers = m.Cluster, m.Servers
			ids = append(ids, id)
		case !cdcerr.RedoMetaNotFound.Is(err):
			return nil, err
		}
	}
	if len(ids) == 0 && lost != nil {
		return nil, lost
	}
	return ids, nil
}

// Folders are a storage's logs, those too of which only a removal that was cut off has
// left something, or a writer that ended later. Whose they are is as in of.
func Folders(ctx context.Context, b objstore.Bucket, of ID) ([]ID, error) {
	var ids []ID
	// One question a log: the listing goes on behind the last entry of its folder.
	for after := ""; ; {
		var next string
		err := b.List(ctx, "", after, func(o objstore.Object) error {
			next = o.Name
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) {
			return nil, err
		}
		if next == "" {
			return ids, nil
		}
		parts := strings.Split(next, "/")
		if len(parts) < 5 {
			after = next
			continue
		}
		id := ID{Cluster: of.Cluster, Servers: of.Servers, Namespace: parts[0], Changefeed: parts[1], Incarnation: parts[2]}
		ids = append(ids, id)
		after = strings.TrimSuffix(id.dir(), "/") + "0" // '0' comes after '/'
	}
}

// errFound ends a listing of which the first entry was wanted.
var errFound = fmt.Errorf("found")

// Remove removes a log whose changefeed is gone: first what makes it one, the
// oldest first, so that a removal that is cut off leaves no log that looks whole. What
// it leaves is one of Folders.
func Remove(ctx context.Context, b objstore.Bucket, id ID) error {
	metas, err := objstore.All(ctx, b, id.dir()+"meta/", "")
	if err != nil {
		return err
	}
	for _, o := range metas {
		if err := b.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	rest, err := objstore.All(ctx, b, id.dir(), "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removers)
	for _, o := range rest {
		g.Go(func() error { return b.Delete(ctx, o.Name) })
	}
	return g.Wait()
}
