package playground

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/verify"
)

// The exit status.
const (
	allEqual    = 0
	differs     = 1
	couldNotRun = 2
)

// Main is the command: it returns the exit status. A ctx that ends stops it.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := ParseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return allEqual
	case err != nil:
		return couldNotRun
	}
	status, err := play(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, cdcerr.Explain(err))
		return couldNotRun
	}
	return status
}

// play opens the downstream, runs every recording and, without --verify, stays
// up until ctx ends.
func play(ctx context.Context, o *Options, stdout, stderr io.Writer) (int, error) {
	var recordings []recording
	if len(o.PD) == 0 && o.Workload.Kind == "" {
		var err error
		if recordings, err = findRecordings(o.Recordings); err != nil {
			return couldNotRun, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	services, ctx := errgroup.WithContext(ctx)
	p := &player{options: o, out: stdout, words: stderr, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	uri := o.SinkURI
	if uri == "" {
		embedded, err := OpenEmbedded(o.Port)
		if err != nil {
			return couldNotRun, err
		}
		services.Go(func() error { return embedded.Run(ctx) })
		uri, p.embedded = embedded.URI(), embedded.Addr()
	}
	status := couldNotRun
	services.Go(func() error {
		defer stop()
		var err error
		if p.target, err = openTarget(ctx, uri, o.DropExisting, p.log); err != nil {
			return err
		}
		if d, ok := p.target.(*database); ok {
			d.own = o.SinkURI == ""
		}
		switch {
		case len(o.PD) > 0:
			err = p.follow(ctx)
			status = allEqual
		case o.Workload.Kind != "":
			status = p.perform(ctx)
		default:
			status = p.replay(ctx, recordings)
		}
		return errors.Join(err, p.target.close(ctx))
	})
	if err := services.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return couldNotRun, err
	}
	return status, nil
}

// player runs recordings one after the other.
type player struct {
	options  *Options
	target   target
	embedded string    // address of the database in this process, if it is the target
	out      io.Writer // a line a recording
	words    io.Writer // everything else
	log      *slog.Logger
}

// replay is the whole of a run over recordings.
func (p *player) replay(ctx context.Context, recordings []recording) int {
	if !p.options.Verify {
		p.greet(recordings)
	}
	status := p.all(ctx, recordings)
	p.excuse(ctx, status)
	if !p.options.Verify {
		p.stay(ctx)
	}
	return status
}

// excuse tells the limits of the database in this process where they may have
// been met.
func (p *player) excuse(ctx context.Context, status int) {
	if p.embedded != "" && status != allEqual && ctx.Err() == nil {
		fmt.Fprintf(p.words, "\nNot all of this need be Sluice's doing. %s", embeddedLimits)
	}
}

// all runs every recording; one that cannot run does not stop the next.
func (p *player) all(ctx context.Context, recordings []recording) int {
	status := allEqual
	for _, r := range recordings {
		if ctx.Err() != nil {
			return couldNotRun
		}
		v, err := p.one(ctx, r)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintf(p.words, "%s: interrupted\n", r.name)
			return couldNotRun
		case err != nil:
			fmt.Fprintf(p.words, "%s: could not run: %s\n", r.name, cdcerr.Explain(err))
			status = couldNotRun
		default:
			p.report(r.name, v)
			if !v.equal() {
				status = max(status, differs)
			}
		}
	}
	return status
}

// verdicts are both verdicts on one recording.
type verdicts struct {
	rows, end *verify.Verdict
	took      time.Duration
}

func (v *verdicts) equal() bool { return v.rows.Equal() && v.end.Equal() }

func (p *player) one(ctx context.Context, r recording) (*verdicts, error) {
	began := time.Now()
	o, err := r.outcome()
	if err != nil {
		return nil, err
	}
	loaded, err := fake.LoadRecording(r.stream)
	if err != nil {
		return nil, err
	}
	if o.expected.EndTS != loaded.EndTS {
		return nil, cdcerr.RecordingInvalid.New("%s holds the contents at end_ts %d, but %s ends at END %d: contents of another moment cannot be compared; take them at END",
			r.expected, o.expected.EndTS, r.stream, loaded.EndTS)
	}
	if err := p.target.claim(ctx, o.databases); err != nil {
		return nil, err
	}
	c := &capture{recording: loaded, outcome: o, target: p.target, speed: p.options.Speed, log: p.log}
	if !p.options.Verify {
		c.progress = p.watch
	}
	judge, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	v := &verdicts{rows: judge.Rows()}
	if v.end, err = p.target.end(ctx, judge, o); err != nil {
		return nil, err
	}
	v.took = time.Since(began)
	return v, nil
}
