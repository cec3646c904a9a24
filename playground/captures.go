package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/internal/freeport"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
)

// capturesMax bounds the servers in one process: each has a memory of its own for rows.
const capturesMax = 16

// sessionTTL is for how many seconds a capture that was killed is taken for alive: the
// least that a server takes.
const sessionTTL = 5

// clusterName and feedName are those of the playground's cluster and its changefeed.
const clusterName, feedName = "playground", "playground"

// captures are the servers of a run, with the etcd that they share.
type captures struct {
	dir  string
	pd   []string
	etcd *meta.Store
	work *errgroup.Group // the servers
	http *http.Client

	mu   sync.Mutex // guards what follows
	made int
	all  []*member // those that live, by number
}

// member is one server.
type member struct {
	number  int
	address string
	leave   context.CancelFunc // tells it to end
	cut     func()             // ends it where it stands
	over    chan struct{}      // closed when it has ended
}

func (m *member) String() string { return "capture " + strconv.Itoa(m.number) }

// openCaptures starts an etcd, and no server. What fails of a server ends the context.
func openCaptures(ctx context.Context, dir string, pd []string) (*captures, context.Context, error) {
	cfg := meta.Default()
	cfg.Backend, cfg.Embedded.DataDir = meta.BackendEmbedded, filepath.Join(dir, "etcd")
	etcd, err := meta.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	c := &captures{dir: dir, etcd: etcd, http: &http.Client{Timeout: askMax, Transport: &http.Transport{DisableKeepAlives: true}}}
	for _, at := range pd {
		c.pd = append(c.pd, "http://"+strings.TrimPrefix(at, "http://"))
	}
	c.work, ctx = errgroup.WithContext(ctx)
	return c, ctx, nil
}

// close tells all servers to end, waits for them, and ends etcd.
func (c *captures) close() error {
	for _, m := range c.living() {
		m.leave()
	}
	err := c.work.Wait()
	c.etcd.Close()
	return err
}

// join starts one more server.
func (c *captures) join(ctx context.Context) (*member, error) {
	address, err := freeport.PickAddress()
	if err != nil {
		return nil, err
	}
	m := &member{address: address, over: make(chan struct{})}
	c.mu.Lock()
	c.made++
	m.number = c.made
	c.all = append(c.all, m)
	c.mu.Unlock()
	ctx, m.leave = context.WithCancel(ctx)
	cut := make(chan struct{})
	m.cut = sync.OnceFunc(func() { close(cut) })
	parts := server.Parts{Version: cli.ReadBuild().Version, Cut: cut, Plane: cli.Plane(cli.ReadBuild().Version), Stderr: io.Discard}
	c.work.Go(func() error {
		defer m.leave()
		defer close(m.over)
		err := server.Run(ctx, c.config(m), parts)
		c.forget(m)
		switch {
		case err != nil:
			return fmt.Errorf("%v: %w", m, err)
		case ctx.Err() == nil && !closed(cut):
			return fmt.Errorf("%v has ended, and nobody had told it to", m)
		}
		return nil
	})
	return m, nil
}

// config is a server's: all but its addresses and its directory is the same for all.
func (c *captures) config(m *member) server.Config {
	cfg := server.Default()
	cfg.PD, cfg.ClusterID, cfg.CaptureSessionTTL = c.pd, clusterName, sessionTTL
	cfg.Addr, cfg.AdvertiseAddr = m.address, m.address
	cfg.DataDir, cfg.LogFile = filepath.Join(c.dir, "data-"+strconv.Itoa(m.number)), c.log(m)
	cfg.Meta.Backend, cfg.Meta.Endpoints = meta.BackendExternal, c.etcd.Endpoints()
	return cfg
}

func (c *captures) log(m *member) string {
	return filepath.Join(c.dir, "capture-"+strconv.Itoa(m.number)+".log")
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// forget takes a server from those that live: nobody is to ask it any more.
func (c *captures) forget(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(o *member) bool { return o == m })
}

func (c *captures) living() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// askMax is how long one answer may take: creating a changefeed tries the downstream.
const askMax = 30 * time.Second

// ask asks one server after the other, until one answers.
func (c *captures) ask(ctx context.Context, method, path string, in, out any) error {
	failed := errors.New("no capture is there")
	for i, m := range c.living() {
		err := c.askOne(ctx, m, method, path, in, out)
		if err == nil {
			return nil
		}
		if i == 0 {
			failed = err
		}
	}
	return failed
}

func (c *captures) askOne(ctx context.Context, m *member, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 != 2:
		r := &refusal{status: res.StatusCode, text: res.Status}
		var said api.ErrorBody
		if json.Unmarshal(text, &said) == nil && said.Message != "" {
			r.text = said.Message
		}
		return r
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// refusal is an answer that says why it is none.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// forGood is an error that waiting does not mend.
type forGood struct{ error }

func (e forGood) Unwrap() error { return e.error }

// final is an error that stays where the request itself was refused.
func final(err error) error {
	if r, refused := errors.AsType[*refusal](err); refused && r.status/100 == 4 {
		return forGood{err}
	}
	return err
}

// lookEvery is how often the cluster is asked whether it has come to something.
const lookEvery = 50 * time.Millisecond

// until tries until it works.
func (c *captures) until(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := do()
		if _, lasts := errors.AsType[forGood](err); lasts || err == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not after %v: %s: %w", catchUp, what, err)
		}
	}
}

// settled waits until a server is a capture and has tables, where there are enough for all.
func (c *captures) settled(ctx context.Context, m *member) (got share, err error) {
	return got, c.until(ctx, m.String()+" has tables", func() error {
		s, err := c.look(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.shares, func(one share) bool { return one.member == m })
		switch {
		case i < 0:
			return fmt.Errorf("%v is no capture yet", m)
		case s.shares[i].tables == 0 && s.tables >= len(s.shares)+s.others:
			return fmt.Errorf("it has none; %v", s)
		}
		got = s.shares[i]
		return nil
	})
}

// victim waits for a capture that can be taken away.
func (c *captures) victim(ctx context.Context, leader bool) (one share, err error) {
	return one, c.until(ctx, "there is a capture to take away", func() error {
		s, err := c.look(ctx)
		if err != nil {
			return err
		}
		ok := false
		if one, ok = s.pick(leader); !ok {
			return errors.New("nobody leads")
		}
		return nil
	})
}

// drainEvery is how often a drain is asked for again, as it has to be.
const drainEvery = 200 * time.Millisecond

// drain takes a capture's tables away, and waits until it has none.
func (c *captures) drain(ctx context.Context, one share) error {
	again := time.NewTicker(drainEvery)
	defer again.Stop()
	return c.until(ctx, one.String()+" has no table", func() error {
		var left api.Drained
		if err := c.ask(ctx, http.MethodPost, "/api/v2/captures/"+one.id+"/drain", nil, &left); err != nil {
			return final(err)
		}
		if left.CurrentTableCount > 0 {
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			return fmt.Errorf("%d are left", left.CurrentTableCount)
		}
		return nil
	})
}

// share is a server's part of the changefeed.
type share struct {
	*member
	id     string
	leads  bool
	tables int
}

// sight is what the cluster tells of itself.
type sight struct {
	feed   api.FeedInfo
	shares []share // of the servers that are captures, by number
	others int     // captures whose servers have ended, and of which the cluster does not know
	tables int     // that somebody writes
}

// look asks for all of it.
func (c *captures) look(ctx context.Context) (s sight, err error) {
	var all api.List[api.Capture]
	if err := c.ask(ctx, http.MethodGet, "/api/v2/captures", nil, &all); err != nil {
		return s, err
	}
	if err := c.ask(ctx, http.MethodGet, feedPath, nil, &s.feed); err != nil {
		return s, err
	}
	living := c.living()
	for _, one := range all.Items {
		i := slices.IndexFunc(living, func(m *member) bool { return m.address == one.Address })
		if i < 0 {
			s.others++
			continue
		}
		s.shares = append(s.shares, share{member: living[i], id: one.ID, leads: one.IsOwner})
	}
	for _, t := range s.feed.TaskStatus {
		s.tables += len(t.TableIDs)
		for i := range s.shares {
			if s.shares[i].id == t.CaptureID {
				s.shares[i].tables = len(t.TableIDs)
			}
		}
	}
	slices.SortFunc(s.shares, func(a, b share) int { return a.number - b.number })
	return s, nil
}

// String is who leads, and how many tables each writes.
func (s sight) String() string {
	var out []string
	for _, one := range s.shares {
		leads := ""
		if one.leads {
			leads = " (leads)"
		}
		out = append(out, fmt.Sprintf("%d%s: %d", one.number, leads, one.tables))
	}
	text := "tables of captures " + strings.Join(out, ", ")
	if s.others > 0 {
		text += fmt.Sprintf("; %d whose session has not run out", s.others)
	}
	return text
}

// pick is the capture that is to be taken away: the leader, or of the others the one
// with the most tables, the youngest of them.
func (s sight) pick(leader bool) (share, bool) {
	best := -1
	for i, one := range s.shares {
		switch {
		case leader && one.leads:
			return one, true
		case leader || one.leads && len(s.shares) > 1:
		case best < 0 || one.tables >= s.shares[best].tables:
			best = i
		}
	}
	if best < 0 {
		return share{}, false
	}
	return s.shares[best], true
}

const (
	feedsPath = "/api/v2/changefeeds"
	feedPath  = feedsPath + "/" + feedName
)
