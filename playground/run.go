package playground

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
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
	lines := &kept{Writer: stdout}
	status, err := play(ctx, o, lines, &turns{w: stderr})
	if err == nil && lines.err != nil {
		err = cdcerr.InvalidArgument.Wrap(lines.err, "a verdict could not be written to standard output; give it a place that takes it")
	}
	if err != nil {
		fmt.Fprintln(stderr, cdcerr.Explain(err))
		return couldNotRun
	}
	return status
}

// kept keeps the first error of a writer.
type kept struct {
	io.Writer
	err error
}

// Write passes on.
func (k *kept) Write(b []byte) (int, error) {
	n, err := k.Writer.Write(b)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// turns lets several goroutines write, one after the other.
type turns struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// Write passes on.
func (t *turns) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
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
	p.uri = uri
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
	uri      string        // the target's
	embedded string        // address of the database in this process, if it is the target
	out      io.Writer     // a line a recording
	words    io.Writer     // everything else
	every    time.Duration // between two words of a run that takes long; 0: pulseEvery
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
	rows *verify.Verdict // nil: nobody has seen them on their way
	end  *verify.Verdict
	took time.Duration
}

func (v *verdicts) equal() bool { return (v.rows == nil || v.rows.Equal()) && v.end.Equal() }

// one runs a recording, and says now and then that it is alive: reading what is
// large, and writing a large transaction, take long and move no checkpoint.
func (p *player) one(ctx context.Context, r recording) (*verdicts, error) {
	beating, stop := context.WithCancel(ctx)
	var beats errgroup.Group
	var alive pulse
	alive.do("reading the recording")
	beats.Go(func() error {
		alive.beat(beating, r.name, cmp.Or(p.every, pulseEvery), p.words)
		return nil
	})
	defer func() {
		stop()
		_ = beats.Wait() // it only prints
	}()
	return p.judged(ctx, r, &alive)
}

// judged runs a recording to its verdicts.
func (p *player) judged(ctx context.Context, r recording, alive *pulse) (*verdicts, error) {
	began := time.Now()
	o, err := r.outcome(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := fake.ReadRecording(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	if o.expected.EndTS != loaded.EndTS {
		return nil, cdcerr.RecordingInvalid.New("%s holds the contents at end_ts %d, but %s ends at END %d: contents of another moment cannot be compared; take them at END",
			r.expected, o.expected.EndTS, r.stream, loaded.EndTS)
	}
	alive.do("making room downstream")
	if err := p.target.claim(ctx, o.databases); err != nil {
		return nil, err
	}
	c := &capture{recording: loaded, outcome: o, target: p.target, speed: p.options.Speed, pulse: alive, log: p.log}
	if !p.options.Verify {
		c.progress = p.watch
	}
	alive.do("replaying")
	judge, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	alive.do("comparing")
	v := &verdicts{rows: judge.Rows()}
	if v.end, err = p.target.end(ctx, judge, o); err != nil {
		return nil, err
	}
	v.took = time.Since(began)
	return v, nil
}
