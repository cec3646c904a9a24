package coordinator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/agent"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator/owner"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/redo"
	"github.com/sluice-cdc/sluice/redo/record"
	"github.com/sluice-cdc/sluice/sink/downstream"
	"github.com/sluice-cdc/sluice/tso"
)

// redoLog is the redo log of one changefeed in one life of it: where it is, and which of
// those there.
type redoLog struct {
	bucket objstore.Bucket
	id     redo.ID
	cfg    redo.Config
	log    *slog.Logger
	// forget removes what a life has noted downstream of its DDLs.
	forget func(ctx context.Context, life string) error
}

// openRedo finds a changefeed's redo log; nil where it has none. Servers and life are what
// the downstream knows it by. Nothing is asked of the storage yet. The log is to be closed.
func openRedo(ctx context.Context, info *changefeed.Info, servers, life, version string, log *slog.Logger) (*redoLog, error) {
	if !info.Config.Consistent.On() {
		return nil, nil
	}
	wants, err := wantsOf(&info.Config, info.RedoTurns)
	if err != nil {
		return nil, err
	}
	cfg, err := redoConfig(&info.Config)
	if err != nil {
		return nil, err
	}
	cfg.Log, cfg.Program = log, "sluice "+version
	bucket, err := objstore.Open(ctx, info.Config.Consistent.Storage.Reveal())
	if err != nil {
		return nil, fmt.Errorf("consistent.storage: %w", err)
	}
	id := redo.ID{Cluster: info.UpstreamID, Servers: servers, Namespace: info.Namespace, Changefeed: info.Name, Incarnation: redo.Incarnation(life, wants)}
	none := func(context.Context, string) error { return nil }
	return &redoLog{bucket: bucket, id: id, cfg: cfg, log: log, forget: none}, id.Validate()
}

// redoLog is a changefeed's redo log in an epoch, nil where it has none.
func (c *Coordinator) redoLog(ctx context.Context, info *changefeed.Info, epoch uint64, log *slog.Logger) (*redoLog, error) {
	down := c.downstream(info, epoch)
	r, err := openRedo(ctx, info, c.cfg.ClusterID, down.Life, c.cfg.Version, log)
	if r != nil {
		r.cfg = within(r.cfg, c.cfg.RedoBytes)
		r.forget = func(ctx context.Context, life string) error {
			uri, _, err := info.Config.Handed(info.SinkURI) // its notes are in the log since the run began
			if err != nil {
				return err
			}
			of := down
			of.Life = life
			return downstream.ForgetLife(ctx, uri.Reveal(), of)
		}
	}
	return r, err
}

func (r *redoLog) close() {
	if err := r.bucket.Close(); err != nil {
		r.log.Info("the redo log's storage was not given up in good order", "error", err)
	}
}

// redoConfig is what [consistent] says, in the log's own terms.
func redoConfig(c *changefeed.Config) (redo.Config, error) {
	k, cfg := &c.Consistent, redo.Default()
	cfg.MaxLogBytes = k.MaxLogSize << 20
	cfg.FlushInterval = time.Duration(k.FlushInterval) * time.Millisecond
	cfg.FlushEvery = min(cfg.FlushEvery, cfg.FlushInterval)
	cfg.MetaEvery = time.Duration(k.MetaFlushInterval) * time.Millisecond
	if k.FlushWorkerNum > 0 {
		cfg.FlushWorkers = k.FlushWorkerNum
	}
	cfg.QuotaBytes = c.RedoQuota()
	switch k.Compression {
	case "": // zstd
	case "none":
		cfg.Codec = record.Plain
	default:
		var err error
		if cfg.Codec, err = record.ParseCodec(k.Compression); err != nil {
			return cfg, err
		}
	}
	return cfg, cfg.Validate()
}

// logFiles is how many files a writer has at once at least, of which it fills one while
// others are put.
const logFiles = 4

// within bounds what a log's writer holds by what the server has for it, with files that
// are as much smaller.
func within(cfg redo.Config, most int64) redo.Config {
	if most <= 0 || most >= cfg.QuotaBytes {
		return cfg
	}
	cfg.QuotaBytes = max(most, redo.LogBytesMin)
	cfg.MaxLogBytes = min(cfg.MaxLogBytes, max(cfg.QuotaBytes/logFiles, redo.LogBytesMin))
	return cfg
}

// wantsOf is a word for what a configuration takes of the upstream. With another one the
// log has other rows in it than those that are wanted, so another log begins. So it does
// after each turn: what is written without the log is not in it.
func wantsOf(c *changefeed.Config, turns uint64) (string, error) {
	text, err := json.Marshal([]any{c.Filter, c.CaseSensitive, c.ForceReplicate, c.BDRMode, turns})
	if err != nil {
		return "", cdcerr.Bug("the filter's configuration is no JSON: %v", err)
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:6]), nil
}

// probeMax is how long a storage may take to show that it can be written to, when a
// changefeed is created.
const probeMax = 3 * time.Second

// probe tells whether the storage can be written to, and whether it is this cluster's.
// It makes it so where it is nobody's.
func (r *redoLog) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	err := objstore.Probe(ctx, r.bucket, "sluice-probe-"+strings.ToLower(rand.Text()))
	if err == nil {
		err = redo.Claim(ctx, r.cfg, r.bucket, r.id)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return cdcerr.RedoConfigInvalid.New("consistent.storage %s cannot be written to within %v: %v", r.bucket, probeMax, err)
	default:
		return fmt.Errorf("consistent.storage: %w", err)
	}
}

// lead takes the log over for an owner of this revision. A log of which nothing is there
// yet begins at the checkpoint, on a downstream that may hold rows of up to now.
func (r *redoLog) lead(ctx context.Context, revision int64, checkpoint tso.TS, now func(context.Context) (tso.TS, error), trouble func(error)) (owner.Redo, error) {
	cfg := r.cfg
	cfg.Trouble, cfg.Ahead = trouble, now
	l, err := redo.TakeOver(ctx, cfg, r.bucket, r.id, revision, checkpoint)
	if err != nil {
		return nil, err
	}
	return &redoOwner{Lead: l, log: r}, nil
}

// redoOwner implements owner.Redo: beside the log it sees to those of before.
type redoOwner struct {
	*redo.Lead
	log *redoLog
}

// Run implements owner.Redo.
func (o *redoOwner) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.Lead.Run(ctx) })
	g.Go(func() error { return o.sweep(ctx) })
	return g.Wait()
}

// sweepEvery is how often logs that are to go are looked at.
const sweepEvery = 10 * time.Second

// sweep removes the logs that the changefeed had in earlier lives, or with another filter,
// each once this one makes a snapshot by itself and has come to where that ended: until then
// that one is what makes the downstream whole.
func (o *redoOwner) sweep(ctx context.Context) error {
	var left []redo.ID
	listed := false // what comes to be there later is not of before
	for timer := time.NewTimer(0); !listed || len(left) > 0; timer.Reset(sweepEvery) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		var err error
		if !listed {
			left, err = o.log.others(ctx)
			listed = err == nil
		}
		if listed && o.Exact() {
			left, err = o.log.removeThose(ctx, left, o.Limit())
		}
		if err != nil && ctx.Err() == nil {
			o.log.log.Info("redo logs of before stay for now", "error", err)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// others are the changefeed's logs but this.
func (r *redoLog) others(ctx context.Context) (out []redo.ID, err error) {
	all, err := redo.Folders(ctx, r.bucket, r.id)
	for _, id := range all {
		if id.Namespace == r.id.Namespace && id.Changefeed == r.id.Changefeed && id != r.id {
			out = append(out, id)
		}
	}
	return out, err
}

// removeThose removes those that end at or below a timestamp, and tells which are left. With
// the last log of a life goes what that has noted downstream of its DDLs.
func (r *redoLog) removeThose(ctx context.Context, those []redo.ID, resolved tso.TS) (left []redo.ID, err error) {
	for i, id := range those {
		last, err := redo.LastMeta(ctx, r.bucket, id)
		switch {
		case cdcerr.RedoMetaNotFound.Is(err): // it was removed before, as far as it counts
		case err != nil:
			return append(left, those[i:]...), err
		case last.Resolved > resolved:
			left = append(left, id)
			continue
		}
		if err := redo.Remove(ctx, r.bucket, id); err != nil {
			return append(left, those[i:]...), err
		}
		r.log.Info("a redo log of before was removed", "log", id.String())
		shares := func(other redo.ID) bool { return other.Life() == id.Life() }
		if shares(r.id) || slices.ContainsFunc(left, shares) || slices.ContainsFunc(those[i+1:], shares) {
			continue
		}
		if err := r.forget(ctx, id.Life()); err != nil {
			return append(left, those[i:]...), fmt.Errorf("what the life of %s has noted downstream: %w", id, err)
		}
	}
	return left, nil
}

// remove removes all logs of the changefeed.
func (r *redoLog) remove(ctx context.Context) error {
	others, err := r.others(ctx)
	if err != nil {
		return err
	}
	for _, id := range append(others, r.id) {
		err = errors.Join(err, redo.Remove(ctx, r.bucket, id))
	}
	return err
}

// writer makes a writer for a capture.
func (r *redoLog) writer(trouble func(error)) agent.RedoWriter {
	cfg := r.cfg
	cfg.Trouble = trouble
	return redoWriter{redo.NewWriter(cfg, r.bucket, r.id, 0), func(ctx context.Context) error { return redo.Await(ctx, cfg, r.bucket, r.id) }}
}

// redoWriter implements agent.RedoWriter. What it writes where the owner's log is not
// would be missed only when it is needed.
type redoWriter struct {
	*redo.Writer
	await func(context.Context) error
}

func (w redoWriter) Run(ctx context.Context) error {
	if err := w.await(ctx); err != nil {
		return err
	}
	return w.Writer.Run(ctx)
}

func (w redoWriter) Durable() (upto tso.TS, extents []byte, err error) {
	d := w.Writer.Durable()
	if d.Extent.Files == 0 {
		return d.TS, nil, nil
	}
	extents, err = record.EncodeExtents(d.Extent)
	return d.TS, extents, err
}
