package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/internal/script"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
)

// What an operator meets at a server that runs, between a cluster and a database:
// the stories of testdata/live. A word NOW is the upstream's present, SINK the
// database, PORT its port; numbers that differ from run to run are masked.
//
//	file NAME | line of it
//	upstream DATABASE | statement
//	downstream statement
//	settles NAME STATE             wait until a changefeed is in a state, and caught up where that is normal
//	collects                       GC goes as far as it may
//	sluice ARGUMENTS
func TestLive(t *testing.T) {
	script.RunIn(t, "testdata/live", func(t *testing.T) func([]string) string {
		s := newSite(t)
		must(t, s.bank.Prepare(t.Context()))
		s.serve("")
		return s.play
	})
}

func (s *site) play(commands []string) string {
	s.Helper()
	var out strings.Builder
	for _, c := range commands {
		word, rest, _ := strings.Cut(c, " ")
		switch word {
		case "file":
			name, text, _ := strings.Cut(rest, " | ")
			s.append(name, text)
		case "upstream":
			db, sql, _ := strings.Cut(rest, " | ")
			err := s.bank.Server.Exec(s.Context(), sql, catalog.Session{DB: db}, nil)
			must(s.T, err)
		case "downstream":
			s.downstream(rest)
		case "settles":
			name, state, _ := strings.Cut(rest, " ")
			now := s.cluster.TS()
			s.until(name+" is "+state, func() bool {
				f := s.feed(name)
				return f.State == state && (state != "normal" || f.CheckpointTS >= now)
			})
		case "collects":
			s.collect()
		case "sluice":
			out.WriteString(s.types(rest))
		default:
			s.Fatalf("what is %q?", c)
		}
	}
	return s.mask(out.String())
}

// downstream has the database carry out a statement.
func (s *site) downstream(sql string) {
	s.Helper()
	db := s.down.DB()
	_, err := db.ExecContext(s.Context(), sql)
	must(s.T, errors.Join(err, db.Close()))
}

func (s *site) append(name, text string) {
	s.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.T, err)
	_, err = f.WriteString(text + "\n")
	must(s.T, errors.Join(err, f.Close()))
}

// types is one command, with what it prints.
func (s *site) types(line string) string {
	s.Helper()
	port := s.down.Addr()[strings.LastIndexByte(s.down.Addr(), ':')+1:]
	line = strings.NewReplacer("NOW", fmt.Sprint(uint64(s.cluster.TS())), "SINK", s.down.URI(), "PORT", port, "~", s.dir).Replace(line)
	var stdout, stderr bytes.Buffer
	args := (&world{dir: s.dir, url: "http://" + s.address}).words(line)
	if args[0] == "cli" && !strings.Contains(line, "--server") {
		args = append(args, "--server", s.address)
	}
	status := cli.Main(s.Context(), args, cli.Env{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" },
		Home: s.dir, Now: time.Now, After: time.After})
	return fmt.Sprintf("status %d\n%s%s", status, mark(stdout.String(), ""), mark(stderr.String(), "! "))
}

// What differs from run to run.
var (
	timestamps = regexp.MustCompile(`\b\d{18}\b`)
	moments    = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( ?\+0000 UTC|Z)?`)
	identities = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b`)
	clusters   = regexp.MustCompile(`\b\d{19}\b`)
	behind     = regexp.MustCompile(`\S+ behind`)
)

func (s *site) mask(text string) string {
	text = strings.ReplaceAll(text, s.address, "SERVER")
	text = strings.ReplaceAll(text, s.down.Addr(), "DATABASE")
	text = strings.ReplaceAll(text, s.dir, "~")
	text = identities.ReplaceAllString(text, "UUID")
	text = clusters.ReplaceAllString(text, "CLUSTER")
	text = timestamps.ReplaceAllStringFunc(text, func(n string) string {
		if ts, err := tso.Parse(n); err == nil && ts.Time().Year() > 2060 {
			return n // as it was typed
		}
		return "TS"
	})
	text = behind.ReplaceAllString(text, "AGES behind")
	return moments.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "1970") || m > "2060" {
			return m
		}
		return "TIME"
	})
}
