package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/api/apitest"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/script"
)

// world is what one story is about: a server with its board, and, behind it, the
// owner that it hands requests on to.
type world struct {
	board *apitest.Board
	api   *api.API
	logs  bytes.Buffer
	level string
}

func newWorld(t *testing.T) *world {
	w := &world{board: apitest.NewBoard()}
	ownerBoard := apitest.NewBoard()
	owner := w.serve(ownerBoard)
	server := httptest.NewServer(owner)
	t.Cleanup(server.Close)
	w.api = w.serve(w.board)
	w.board.Leader.Address = strings.TrimPrefix(server.URL, "http://")
	return w
}

func (w *world) serve(b *apitest.Board) *api.API {
	a := api.New(api.Config{
		Version: "1.0.0", GitHash: "abc", PID: 42, Self: b.Is, Missing: "PD has not answered yet",
		SetLogLevel: func(name string) error {
			if name != "debug" {
				return cdcerr.InvalidArgument.New("log_level: %q is none of debug, info, warn, error", name)
			}
			w.level = name
			return nil
		},
		Client: http.DefaultClient, Scheme: "http",
		Now: func() time.Time { return apitest.Present.Time() },
		Log: slog.New(slog.NewTextHandler(&w.logs, nil)),
		Login: func(_ context.Context, user, password string) error {
			if user != "root" || password != "secret" {
				return cdcerr.Unauthorized.New("user %q", user)
			}
			return nil
		},
	})
	a.Connect(b)
	a.Join(b)
	return a
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// play carries a block out:
//
//	METHOD path          the request; the lines after it are its body
//	nobody | wrong       without a user, with a wrong one; otherwise with the right one
//	huge N               a body of N bytes
//	standby, reachable, no owner, no node, no pd, sick    what becomes of the world before
func (w *world) play(t *testing.T, doc *document, commands []string) string {
	user, password, body := "root", "secret", ""
	var method, path string
	for i, line := range commands {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "standby":
			w.board.Is.Owner, w.board.Is.ID = false, "capture-2"
		case line == "no owner":
			w.board.Leader, w.board.Is.Owner = nil, false
		case line == "reachable":
			w.board.Reachable = true
		case line == "no node":
			w.api.Join(nil)
		case line == "no pd":
			w.board.Down = cdcerr.PDUnreachable.New("http://pd:2379: connection refused")
		case line == "sick":
			w.board.Sick = cdcerr.ClusterUnhealthy.Wrap(errors.New("etcd: no leader"), "metadata")
		case line == "nobody":
			user = ""
		case line == "wrong":
			password = "guess"
		case word == "huge":
			n, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatal(err)
			}
			body = strings.Repeat("x", n)
		default:
			method, path = word, rest
			body += strings.Join(commands[i+1:], "\n")
		}
		if method != "" {
			break
		}
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, req)
	doc.check(t, method, path, rec)
	return uuid.ReplaceAllString(show(rec), "<uuid>")
}

func show(rec *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", rec.Code)
	for _, key := range []string{"Allow", "Retry-After", "WWW-Authenticate"} {
		if v := rec.Header().Get(key); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, v)
		}
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(rec.Body.Bytes()), "", "  "); err == nil {
		return b.String() + indented.String() + "\n"
	}
	return b.String() + strings.TrimSpace(rec.Body.String()) + "\n"
}

// Every path answers as the stories in testdata say, and as the OpenAPI document
// says; none is left out.
func TestStories(t *testing.T) {
	doc := readDocument(t)
	script.Run(t, func(t *testing.T) func([]string) string {
		w := newWorld(t)
		return func(commands []string) string { return w.play(t, doc, commands) }
	})
	for _, op := range doc.untried() {
		if op == "GET /api/v2/openapi.json" {
			continue // TestDocumentIsCurrent
		}
		t.Errorf("no story tries %s", op)
	}
}

// The document in docs is the one that is served.
func TestDocumentIsCurrent(t *testing.T) {
	rec := httptest.NewRecorder()
	newWorld(t).api.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/v2/openapi.json", nil))
	const path = "../docs/openapi.json"
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, rec.Body.Bytes()) {
		if os.Getenv("SLUICE_REWRITE") == "" {
			t.Fatalf("%s is not what is served (%v): run this test with SLUICE_REWRITE=1", path, err)
		}
		if err := os.WriteFile(path, rec.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
