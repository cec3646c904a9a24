// Package blackhole owns the downstream that takes everything and keeps only
// count: for measuring what comes before it, and for trying a changefeed out.
//
// It is reached as blackhole://, without host, path or parameters, and starts no
// goroutine.
package blackhole

import (
	"context"
	"net/url"
	"sync"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/tso"
)

// Scheme is that of its URIs.
const Scheme = "blackhole"

// Sink counts and discards.
type Sink struct {
	mu     sync.Mutex
	counts Counts // guarded by mu
}

// Counts is what was discarded so far.
type Counts struct {
	Rows       uint64
	Txns       uint64
	Bytes      uint64 // of keys and values, before and after, as they came
	DDLs       uint64
	SyncPoints uint64
	Checkpoint tso.TS
}

// Open makes a sink for a URI.
func Open(uri string) (*Sink, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != Scheme {
		return nil, cdcerr.SinkURIInvalid.New("a blackhole is written %s://", Scheme)
	}
	if u.Host != "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return nil, cdcerr.SinkURIInvalid.New("%s:// takes no host, path or parameter", Scheme)
	}
	return new(Sink), nil
}

// Write implements sink.Sink.
func (s *Sink) Write(ctx context.Context, _ sink.Leave, txns []event.Txn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var rows, bytes uint64
	for i := range txns {
		rows += uint64(len(txns[i].Rows))
		for _, r := range txns[i].Rows {
			bytes += uint64(len(r.Raw.Key) + len(r.Raw.Value) + len(r.Raw.Old))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Rows += rows
	for i := range txns {
		if !txns[i].More {
			s.counts.Txns++
		}
	}
	s.counts.Bytes += bytes
	return nil
}

// Flush implements sink.Sink.
func (s *Sink) Flush(context.Context) error { return nil }

// Whole implements sink.Sink.
func (s *Sink) Whole() bool { return false }

// DDL implements sink.Sink.
func (s *Sink) DDL(ctx context.Context, _ sink.Leave, _ *event.DDL) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.DDLs++
	return nil
}

// SyncPoint implements sink.Sink.
func (s *Sink) SyncPoint(ctx context.Context, _ sink.Leave, _ event.SyncPoint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.SyncPoints++
	return nil
}

// Checkpoint implements sink.Sink.
func (s *Sink) Checkpoint(_ context.Context, ts tso.TS) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Checkpoint = ts
	return nil
}

// Close implements sink.Sink.
func (s *Sink) Close() error { return nil }

// Counts is a snapshot.
func (s *Sink) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
