package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/api/apitest"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/server"
)

// world is what one story is about: a server, and the files that an operator has.
type world struct {
	board  *apitest.Board
	url    string
	dir    string
	env    map[string]string
	reject bool // wrong users
}

func newWorld(t *testing.T) *world {
	w := &world{board: apitest.NewBoard(), dir: t.TempDir(), env: map[string]string{}}
	a := api.New(api.Config{Version: "1.0.0", GitHash: "abc", PID: 42, Self: w.board.Is, Missing: "PD has not answered yet",
		SetLogLevel: func(string) error { return nil }, Client: http.DefaultClient, Scheme: "http",
		Now: apitest.Present.Time, Log: slog.New(slog.DiscardHandler),
		Login: func(_ context.Context, user, password string) error {
			if w.reject && (user != "root" || password != "secret") {
				return cdcerr.Unauthorized.New("user %q", user)
			}
			return nil
		}})
	a.Connect(w.board)
	a.Join(w.board)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok && !w.reject {
			r.SetBasicAuth("anybody", "")
		}
		a.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// play carries a block out:
//
//	file NAME | line of it      a file of the operator's
//	types TEXT                  what the operator types
//	env KEY=VALUE
//	world WHAT                  what becomes of the server before
//	sluice ARGUMENTS            in single quotes where there is a space in one
func (w *world) play(t *testing.T, commands []string) string {
	var typed, line string
	for _, c := range commands {
		word, rest, _ := strings.Cut(c, " ")
		switch word {
		case "file":
			name, text, _ := strings.Cut(rest, " | ")
			w.write(t, name, text)
		case "types":
			typed += rest + "\n"
		case "env":
			key, value, _ := strings.Cut(rest, "=")
			w.env[key] = value
		case "world":
			w.become(t, rest)
		case "sluice":
			line = rest
		default:
			t.Fatalf("what is %q?", c)
		}
	}
	args := w.words(line)
	if len(args) > 0 && args[0] == "cli" && !strings.Contains(line, "--server") && !strings.Contains(line, "--pd") {
		args = append(args, "--server", w.url)
	}
	var out, errs bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	looks := 0
	status := cli.Main(ctx, args, cli.Env{In: strings.NewReader(typed), Out: &out, Err: &errs,
		Getenv: func(key string) string { return w.env[key] }, Home: w.dir, Now: apitest.Present.Time,
		After: func(time.Duration) <-chan time.Time {
			// The second look is the last one.
			if looks++; looks == 2 {
				stop()
				return nil
			}
			passed := make(chan time.Time, 1)
			passed <- time.Time{}
			return passed
		},
		Serve: func(_ context.Context, cfg server.Config) error { return serve(&out, cfg) },
		Build: cli.Build{Version: "1.0.0", GitHash: "abc", Go: "go1.26", OS: "linux/amd64"}})
	return w.mask(fmt.Sprintf("status %d\n%s%s", status, mark(out.String(), ""), mark(errs.String(), "! ")))
}

// serve says what a server would be started with.
func serve(out *bytes.Buffer, cfg server.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	fmt.Fprintf(out, "pd %v, addr %s, advertised %s, data-dir %s, gc-ttl %d, tz %s, cluster %s, level %s, meta %s, newarch %v\n", cfg.PD, cfg.Addr,
		cfg.AdvertiseAddr, cfg.DataDir, cfg.GCTTL, cfg.TZ, cfg.ClusterID, cfg.LogLevel, cfg.Meta.Backend, cfg.NewArch)
	for _, w := range cfg.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	return nil
}

// mark puts something before every line, and leaves empty ones out: they would
// end a block.
func mark(text, with string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n "); line != "" {
			b.WriteString(with + line + "\n")
		}
	}
	return b.String()
}

func (w *world) mask(s string) string {
	s = strings.ReplaceAll(s, w.url, "http://server")
	s = strings.ReplaceAll(s, strings.TrimPrefix(w.url, "http://"), "server")
	return strings.ReplaceAll(s, w.dir, "~")
}

func (w *world) write(t *testing.T, name, text string) {
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// words are the arguments of a line; ~ is the operator's folder.
func (w *world) words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		for _, word := range strings.Fields(part) {
			out = append(out, strings.ReplaceAll(strings.ReplaceAll(word, "~", w.dir), "http://server", w.url))
		}
	}
	return out
}

func (w *world) become(t *testing.T, what string) {
	b := w.board
	switch what {
	case "asks for users":
		w.reject = true
	case "has only tables with keys":
		b.Keyed = true
	case "has no owner":
		b.Leader, b.Is.Owner = nil, false
	case "has an owner":
		owner := b.Is.Info
		b.Leader, b.Is.Owner = &owner, true
	case "has no PD":
		b.Down = cdcerr.PDUnreachable.New("http://10.0.0.7:2379: connection refused")
	case "has lost its upstream":
		b.Lose()
	case "has PD":
		b.Down = nil
	case "takes everything":
		b.Refuse = nil
	case "has no sink":
		b.Refuse = cdcerr.MySQLConnection.New("mysql://db:3306/: dial tcp 10.0.0.9:3306: connection refused")
	case "has collected":
		b.Refuse = cdcerr.SnapshotLostByGC.New("start-ts 400 is at or below the GC safepoint 500")
	default:
		t.Fatalf("world %q", what)
	}
}

// What an operator types is answered as the stories in testdata say. Whoever
// changes a word of an answer sees it there.
func TestStories(t *testing.T) {
	script.Run(t, func(t *testing.T) func([]string) string {
		w := newWorld(t)
		return func(commands []string) string { return w.play(t, commands) }
	})
}

// Whoever is asked and goes away has not agreed.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{
		"cli changefeed create --sink-uri blackhole:/// --server " + w.url,
		"cli configure-credentials",
	} {
		typing, out := io.Pipe() // nobody types
		ctx, stop := context.WithCancel(t.Context())
		errs := &signalled{stop: stop, at: []string{"[Y/N] ", "TiDB user"}}
		status := cli.Main(ctx, strings.Fields(line), cli.Env{In: typing, Out: io.Discard, Err: errs, Home: w.dir, Getenv: func(string) string { return "" }})
		if status != cli.StatusAborted || !strings.Contains(errs.text.String(), "interrupted") {
			t.Errorf("%s: %d %s", line, status, errs.text.String())
		}
		out.Close()
	}
}

// signalled is where an operator presses Ctrl-C once a question stands there.
type signalled struct {
	text bytes.Buffer
	at   []string
	stop func()
}

func (s *signalled) Write(b []byte) (int, error) {
	n, err := s.text.Write(b)
	for _, question := range s.at {
		if strings.Contains(s.text.String(), question) {
			s.stop()
		}
	}
	return n, err
}
