package origin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// Serve is the process: an upstream that answers until in ends.
func Serve(ctx context.Context, cfg Config, in io.Reader, out io.Writer) (failed error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	of := fake.Config{Stores: cfg.Stores, ResolvedInterval: cfg.ResolvedInterval, Seed: cfg.Seed, StoreAddrs: cfg.StoreAddrs}
	if cfg.Journal != "" {
		journal, err := os.OpenFile(filepath.Clean(cfg.Journal), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, journal.Close()) }()
		of.Journal = journal
	}
	cluster, err := fake.Start(of)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var services errgroup.Group
	services.Go(func() error { return cluster.Run(ctx) })
	s := &serving{cfg: cfg, cluster: cluster}
	if s.load, err = newLoad(ctx, cfg, cluster); err == nil {
		err = s.talk(ctx, in, out)
	}
	stop()
	if s.load != nil {
		_, over := s.load.end()
		err = errors.Join(err, over)
	}
	err = errors.Join(err, services.Wait())
	if errors.Is(err, context.Canceled) {
		return nil // it was told to end in the middle of its load
	}
	return err
}

// serving is an upstream that is asked.
type serving struct {
	cfg     Config
	cluster *fake.Cluster
	load    *load
}

// requestMax bounds a line of input: a day's sync points fit in.
const requestMax = 16 << 20

func (s *serving) talk(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), requestMax)
	to := json.NewEncoder(out)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("a request: %w", err)
		}
		var a answer
		body, err := s.answer(ctx, q)
		if err == nil {
			a.Body, err = json.Marshal(body)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := to.Encode(a); err != nil {
			return fmt.Errorf("an answer: %w", err)
		}
	}
	return lines.Err()
}

func (s *serving) answer(ctx context.Context, q request) (any, error) {
	switch q.Ask {
	case askPlace:
		p := Place{TS: s.cluster.TS(), Stores: s.cluster.Stores()}
		for _, url := range s.cluster.PD() {
			p.PD = append(p.PD, "http://"+strings.TrimPrefix(url, "http://"))
		}
		return p, nil
	case askBegin:
		return nil, s.load.begin(ctx)
	case askEnd:
		return s.load.end()
	case askStatements:
		return s.load.statements(), nil
	case askTables:
		return s.load.tables(ctx)
	case askDatabases:
		return s.databases(), nil
	case askBalances:
		var at []tso.TS
		if err := json.Unmarshal(q.With, &at); err != nil {
			return nil, err
		}
		return s.balances(at)
	case askCompare:
		var d Downstream
		if err := json.Unmarshal(q.With, &d); err != nil {
			return nil, err
		}
		return s.compare(ctx, d)
	}
	return nil, cdcerr.InvalidArgument.New("nobody knows what %q asks", q.Ask)
}
