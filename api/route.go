package api

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/strict"
)

// bodyMax bounds a request's body. A changefeed with ten thousand rules is a
// tenth of it.
const bodyMax = 4 << 20

// route is one row of the API.
type route struct {
	method, path string
	summary      string
	in           any     // what the body is read into, nil for none: only its type counts
	empty        bool    // a request without a body is one with every field left out
	query        []param // beside keyspace and namespace
	out          any     // what is answered: only its type counts
	status       int     // of success; 0 is 200
	owner        bool    // only the owner can answer
	named        bool    // only the capture that the path names can
	guarded      bool    // asks for a user where users are asked for
	lacks        string  // what this release has instead; the row answers nothing else
	serve        func(c *call) (any, error)
}

// param is a key of a query.
type param struct{ name, meaning string }

// idMax is how long the name of a changefeed or a capture may be.
const idMax = 128

// clip is the begin of what is too long to be printed back.
func clip(s string) string {
	if len(s) <= idMax {
		return s
	}
	return strings.ToValidUTF8(s[:idMax/2], "") + "…"
}

// call is one request on its way.
type call struct {
	*API
	*http.Request
	body []byte
}

// read takes the body into a struct; one field too many is an error.
func (c *call) read(into any) error {
	if len(c.body) == 0 {
		return nil
	}
	if err := strict.JSON(c.body, into); err != nil {
		return cdcerr.InvalidArgument.Wrap(err, "request body")
	}
	return nil
}

// keyspace is the one that the query names.
func (c *call) keyspace() string {
	q := c.URL.Query()
	for _, key := range []string{"keyspace", "namespace"} {
		if v := q.Get(key); v != "" {
			return v
		}
	}
	return defaultKeyspace
}

const defaultKeyspace = "default"

// feed is the changefeed that the path names.
func (c *call) feed() FeedID {
	return FeedID{Keyspace: c.keyspace(), Name: c.PathValue("changefeed_id")}
}

// serveMux serves a table: one pattern a path, so that a wrong method is told from
// a wrong path.
func (a *API) serveMux(table []route) *http.ServeMux {
	byPath := map[string][]route{}
	for _, r := range table {
		byPath[r.path] = append(byPath[r.path], r)
	}
	mux := http.NewServeMux()
	for path, rows := range byPath {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			i := slices.IndexFunc(rows, func(r route) bool {
				return r.method == req.Method || r.method == http.MethodGet && req.Method == http.MethodHead
			})
			if i < 0 {
				var allowed []string
				for _, r := range rows {
					allowed = append(allowed, r.method)
				}
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				answerError(w, refused{cdcerr.UnknownPath.New("%s %s: the path takes %s", clip(req.Method), clip(req.URL.Path), strings.Join(allowed, ", ")),
					http.StatusMethodNotAllowed})
				return
			}
			a.serve(w, req, rows[i])
		})
	}
	paths := slices.Collect(maps.Keys(byPath))
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		near := ""
		if p := strict.Nearest(req.URL.Path, paths); p != "" {
			near = fmt.Sprintf(", did you mean %s?", p)
		}
		answerError(w, cdcerr.UnknownPath.New("%s %s%s", clip(req.Method), clip(req.URL.Path), near))
	})
	return mux
}

// serve is the way of every request.
func (a *API) serve(w http.ResponseWriter, req *http.Request, r route) {
	c := &call{API: a, Request: req}
	err := a.admit(c, r)
	if err == nil && r.lacks != "" {
		err = cdcerr.NotInRelease.New("%s %s: %s", r.method, r.path, r.lacks)
	}
	if err == nil {
		c.body, err = readBody(w, req, r)
	}
	if err == nil && (r.owner || r.named) {
		if a.node() == nil {
			err = cdcerr.ServerNotReady.New("%s", a.cfg.Missing)
		} else if c.elsewhere(r) {
			err = a.forward(w, c, r)
			if err == nil {
				return
			}
		}
	}
	var out any
	if err == nil {
		out, err = r.serve(c)
	}
	if err != nil {
		a.note(req, err)
		answerError(w, err)
		return
	}
	if raw, ok := out.(document); ok {
		w.Header().Set("Content-Type", raw.kind)
		_, _ = w.Write(raw.text) // the caller is gone
		return
	}
	status := r.status
	if status == 0 {
		status = http.StatusOK
	}
	answer(w, status, out)
}

// document is an answer that is not ours to write as JSON.
type document struct {
	kind string
	text []byte
}

// note writes down what failed for a reason that is not the caller's.
func (a *API) note(req *http.Request, err error) {
	if statusOf(cdcerr.Of(err)) == http.StatusInternalServerError {
		a.cfg.Log.Warn("request failed", "method", req.Method, "path", req.URL.Path, "error", err)
	}
}

// admit lets in who may ask, with a query that means something.
func (a *API) admit(c *call, r route) error {
	if r.guarded && a.cfg.Login != nil {
		user, password, ok := c.BasicAuth()
		if !ok {
			return cdcerr.CredentialMissing.New("%s %s asks for a TiDB user and password", c.Method, c.URL.Path)
		}
		if err := a.cfg.Login(c.Context(), user, password); err != nil {
			return err
		}
	}
	query, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return cdcerr.InvalidArgument.Wrap(err, "query")
	}
	for _, name := range []string{"changefeed_id", "capture_id"} {
		if v := c.PathValue(name); len(v) > idMax {
			return cdcerr.InvalidArgument.New("%s %q is longer than any, which are of %d bytes at most", name, clip(v), idMax)
		}
	}
	known := []string{"keyspace", "namespace"}
	for _, p := range r.query {
		known = append(known, p.name)
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(known, key) || strings.HasPrefix(key, "_") { // _=… is what browsers get past caches with
			continue
		}
		near := ""
		if n := strict.Nearest(key, known); n != "" {
			near = fmt.Sprintf(", did you mean %q?", n)
		}
		return cdcerr.InvalidArgument.New("query: unknown key %q%s", clip(key), near)
	}
	return nil
}

// readBody reads what a route takes, and nothing where it takes nothing.
func readBody(w http.ResponseWriter, req *http.Request, r route) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, cdcerr.RequestTooLarge.New("more than %d bytes", large.Limit)
	case err != nil:
		return nil, cdcerr.InvalidArgument.Wrap(err, "request body")
	case len(strings.TrimSpace(string(body))) == 0:
		if r.in != nil && !r.empty {
			return nil, cdcerr.InvalidArgument.New("request body: it is empty, a JSON object is wanted")
		}
		return nil, nil
	case r.in == nil:
		// TiCDC's own clients send {} or null where nothing is wanted.
		if t := strings.TrimSpace(string(body)); t != "{}" && t != "null" {
			return nil, cdcerr.InvalidArgument.New("request body: %s %s takes none", r.method, req.URL.Path)
		}
		return nil, nil
	}
	return body, nil
}
