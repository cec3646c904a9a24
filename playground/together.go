package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
	"github.com/sluice-cdc/sluice/verify"
)

// together is the run of a workload whose changefeed servers replicate, with what is
// to befall them. Rows go past nobody who could judge each: the end is judged.
func (s *scene) together(ctx context.Context) (v *verdicts, err error) {
	dir, err := os.MkdirTemp("", "sluice-playground-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && v.equal() || ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		fmt.Fprintf(s.player.words, "The captures' logs stay in %s.\n", dir)
	}()
	if err := s.serve(ctx, dir); err != nil {
		return nil, err
	}
	return s.judgeEnd(ctx)
}

// serve has servers replicate all of the workload, and ends them.
func (s *scene) serve(ctx context.Context, dir string) (err error) {
	c, life, err := openCaptures(ctx, dir, s.cluster.PD())
	if err != nil {
		return err
	}
	defer func() {
		if fell := c.close(); fell != nil {
			err = fell // the cause: err only says that everything was told to end
		}
	}()
	start := s.cluster.TS()
	s.tellPD(start)
	for range s.player.options.Captures {
		m, err := c.join(life)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.player.words, "%v at http://%s\n", m, m.address)
	}
	if err := s.create(life, c, start); err != nil {
		return err
	}
	if err := s.introduce(life, c); err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(life)
	following, done := context.WithCancel(ctx)
	tasks.Go(func() error { return s.follow(following, c) })
	tasks.Go(func() error {
		defer done()
		if err := s.act(ctx, func(ctx context.Context) error { return s.befall(ctx, life, c) }); err != nil {
			return err
		}
		if err := s.arrive(ctx, c, s.end); err != nil {
			return err
		}
		// With it goes what it keeps downstream.
		return c.until(ctx, "the changefeed is removed", func() error { return c.ask(ctx, http.MethodDelete, feedPath, nil, nil) })
	})
	return tasks.Wait()
}

// create creates the changefeed, as soon as somebody leads.
func (s *scene) create(ctx context.Context, c *captures, start tso.TS) error {
	config, err := json.Marshal(map[string]any{
		// What others have downstream is none of its business.
		"filter": map[string]any{"rules": rulesOf(s.workload.Databases())}, "force_replicate": true,
	})
	if err != nil {
		return err
	}
	in := api.CreateFeed{ID: feedName, StartTS: start, SinkURI: s.player.uri, ReplicaConfig: config}
	return c.until(ctx, "the changefeed is created", func() error {
		return final(c.ask(ctx, http.MethodPost, feedsPath, in, nil))
	})
}

// introduce says how to play.
func (s *scene) introduce(ctx context.Context, c *captures) error {
	d, ok := s.player.target.(*database)
	if !ok {
		return nil // refused by the options
	}
	fenced, err := d.fences(ctx)
	if err != nil {
		return err
	}
	fate := "go on elsewhere within about two seconds: the downstream refuses what it may still write"
	if !fenced {
		fate = fmt.Sprintf("wait until its session has run out, %d s: this downstream cannot refuse what it may still write", sessionTTL)
	}
	fmt.Fprintf(s.player.words, `Any of them answers:

  go run ./cmd/sluice cli capture list --server http://%s
  go run ./cmd/sluice cli changefeed query -c %s --server http://%[1]s

What happens: --script '%[3]s'.
The tables of a capture that is killed %[4]s.
`, c.living()[0].address, feedName, scriptText(s.player.options.Script), fate)
	return nil
}

// follow tells once a second how the captures are, until ctx ends.
func (s *scene) follow(ctx context.Context, c *captures) error {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.note(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if s.player.options.Verify {
			continue
		}
		look, cancel := context.WithTimeout(ctx, time.Second)
		seen, err := c.look(look)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.say(began, "%s", absent(err))
		default:
			s.say(began, "lag %.2f s  %v", max(0, s.cluster.TS().Sub(seen.feed.CheckpointTS)).Seconds(), seen)
		}
	}
}

// absent is why the cluster tells nothing of itself. Without an owner that is nothing bad.
func absent(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusServiceUnavailable {
		return "no owner answers; another is elected when its session has run out, and the others write meanwhile"
	}
	return "no capture answers: " + err.Error()
}

// note writes down which tables stand downstream by now, so that a next run knows them
// for the playground's also where this one is killed.
func (s *scene) note(ctx context.Context) error {
	d, ok := s.player.target.(*database)
	if !ok || d.own {
		return nil
	}
	for _, name := range d.ours {
		tables, err := d.tables(ctx, name)
		if err != nil {
			return err
		}
		var stand []tableName
		for _, t := range tables {
			stand = append(stand, tableName{name, t})
		}
		if err := d.record(ctx, stand); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) say(began time.Time, format string, args ...any) {
	fmt.Fprintf(s.player.words, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// befall plays the script. Each event is over before the next one begins.
func (s *scene) befall(ctx, life context.Context, c *captures) error {
	began := time.Now()
	for _, e := range s.player.options.Script {
		timer := time.NewTimer(time.Until(began.Add(e.at)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if err := s.happen(ctx, life, c, e); err != nil {
			return fmt.Errorf("%v: %w", e, err)
		}
	}
	return nil
}

// happen is one event, and how long it is felt.
func (s *scene) happen(ctx, life context.Context, c *captures, e incident) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(s.player.words, "— %s: %s\n", e.what, fmt.Sprintf(format, args...))
	}
	if e.what == joinEvent {
		m, err := c.join(life)
		if err != nil {
			return err
		}
		say("%v comes, at http://%s", m, m.address)
		got, err := c.settled(ctx, m)
		if err == nil {
			say("%v is there, with %d tables, %.1f s later", m, got.tables, time.Since(began).Seconds())
		}
		return err
	}
	one, err := c.victim(ctx, e.leader)
	if err != nil {
		return err
	}
	now := s.cluster.TS()
	if e.what == killEvent {
		say("%v is killed with %d tables", one, one.tables)
		one.cut()
	} else {
		say("%v is to give away its %d tables", one, one.tables)
		if err := c.drain(ctx, one); err != nil {
			return err
		}
		say("%v has no table %.1f s later, and is told to end", one, time.Since(began).Seconds())
		one.leave()
	}
	select {
	case <-one.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.arrive(ctx, c, now); err != nil {
		return err
	}
	say("without %v everything of that moment is downstream, %.1f s later", one, time.Since(began).Seconds())
	return nil
}

// arrive waits until the checkpoint has reached a moment.
func (s *scene) arrive(ctx context.Context, c *captures, ts tso.TS) error {
	return c.until(ctx, fmt.Sprintf("the checkpoint reaches %d", ts), func() error {
		seen, err := c.look(ctx)
		if err != nil {
			return err
		}
		if f := seen.feed; f.State == "failed" {
			why := "failed"
			if f.Error != nil {
				why = f.Error.Code + ": " + f.Error.Message
			}
			return forGood{errors.New("the changefeed: " + why)}
		}
		if at := seen.feed.CheckpointTS; at < ts {
			return fmt.Errorf("it is %v behind, the changefeed is %s", ts.Sub(at), seen.feed.State)
		}
		return nil
	})
}

// judgeEnd compares what the downstream holds with what the cluster holds.
func (s *scene) judgeEnd(ctx context.Context) (*verdicts, error) {
	d, ok := s.player.target.(*database)
	if !ok {
		return nil, errors.New("the downstream keeps nothing")
	}
	end, contents, err := Compare(ctx, d.db, s.cluster.Snapshot(), s.end, s.workload.Databases())
	if err != nil {
		return nil, err
	}
	if want := s.workload.Money(); want != 0 {
		got, err := money(contents)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.player.words, "%s: the accounts hold %d together, as they should hold %d\n", s.options.Kind, got, want)
		if got != want {
			end.Differences++
			end.First = append(end.First, verify.Difference{Table: workload.BankDB, Column: "sum of balance", Want: strconv.FormatInt(want, 10), Got: strconv.FormatInt(got, 10)})
		}
	}
	return &verdicts{end: end}, nil
}

// money is what all accounts of a bank hold.
func money(c *verify.Contents) (sum int64, err error) {
	for _, t := range c.Tables {
		if t.DB != workload.BankDB {
			continue
		}
		for i, name := range t.Columns {
			if name != "balance" {
				continue
			}
			for _, row := range t.Rows {
				n, err := strconv.ParseInt(row[i].Text, 10, 64)
				if err != nil {
					return 0, fmt.Errorf("%s.%s: %w", t.DB, t.Name, err)
				}
				sum += n
			}
		}
	}
	return sum, nil
}
