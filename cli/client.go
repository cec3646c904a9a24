package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/api"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/strict"
)

// answerMax bounds what is read of an answer: a hundred thousand tables are a
// tenth of it.
const answerMax = 256 << 20

// client asks one server.
type client struct {
	base           string // http://host:port
	http           *http.Client
	user, password string
	// after waits, and say tells what is waited for.
	after func(time.Duration) <-chan time.Time
	say   func(format string, args ...any)
}

// credentials are who asks, and with which certificate. The file's names are
// TiCDC's.
type credentials struct {
	User     string `toml:"ticdc_user"`
	Password string `toml:"ticdc_password"`
	CA       string `toml:"ca_path"`
	Cert     string `toml:"cert_path"`
	Key      string `toml:"key_path"`
}

// credentials are those of flags, then of the environment, then of the file in
// the operator's home.
func (t *terminal) credentials(c *cobra.Command) (credentials, error) {
	var out credentials
	if path := t.credentialsFile(); path != "" {
		text, err := server.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return out, cdcerr.InvalidArgument.Wrap(err, "credentials")
		default:
			if err := strict.TOML(text, &out); err != nil {
				return out, cdcerr.InvalidArgument.Wrap(err, "%s", path)
			}
		}
	}
	for _, x := range []struct {
		to        *string
		env, flag string
	}{
		{&out.User, "TICDC_USER", "user"}, {&out.Password, "TICDC_PASSWORD", "password"}, {&out.CA, "TICDC_CA_PATH", "ca"},
		{&out.Cert, "TICDC_CERT_PATH", "cert"}, {&out.Key, "TICDC_KEY_PATH", "key"},
	} {
		if v := t.Getenv(x.env); v != "" {
			*x.to = v
		}
		if v := str(c, x.flag); v != "" {
			*x.to = v
		}
	}
	return out, nil
}

// text is the file, TOML.
func (w credentials) text() ([]byte, error) {
	var b bytes.Buffer
	for _, x := range []struct{ key, value string }{
		{"ticdc_user", w.User}, {"ticdc_password", w.Password}, {"ca_path", w.CA}, {"cert_path", w.Cert}, {"key_path", w.Key},
	} {
		if x.value == "" {
			continue
		}
		if strings.ContainsFunc(x.value, unicode.IsControl) || !utf8.ValidString(x.value) {
			return nil, cdcerr.InvalidArgument.New("%s: holds characters that no file of credentials can", x.key)
		}
		fmt.Fprintf(&b, "%s = \"%s\"\n", x.key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(x.value))
	}
	return b.Bytes(), nil
}

func (t *terminal) credentialsFile() string {
	if t.Home == "" {
		return ""
	}
	return filepath.Join(t.Home, ".ticdc", "credentials")
}

// client is for the server that the flags name.
func (t *terminal) client(c *cobra.Command) (*client, error) {
	who, err := t.credentials(c)
	if err != nil {
		return nil, err
	}
	if str(c, "pd") != "" && !c.Flag("server").Changed {
		return nil, cdcerr.InvalidArgument.New("--pd: no longer leads to a server; give one by --server http://host:8300, any will do")
	}
	return t.connect(c, who)
}

// connect is client for a command to which --pd says something else.
func (t *terminal) connect(c *cobra.Command, who credentials) (*client, error) {
	base, err := serverURL(str(c, "server"), who.CA != "")
	if err != nil {
		return nil, err
	}
	secure, err := server.Security{CA: who.CA, Cert: who.Cert, Key: who.Key}.Client()
	if err != nil {
		return nil, err
	}
	if (who.Cert == "") != (who.Key == "") {
		return nil, cdcerr.InvalidArgument.New("--cert and --key go together")
	}
	return &client{base: base, user: who.User, password: who.Password, after: t.After, say: t.warn,
		// Creating a changefeed waits for a downstream that is being tried.
		http: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}}, nil
}

// serverURL is where a server answers.
func serverURL(given string, secure bool) (string, error) {
	text := given
	if !strings.Contains(text, "://") {
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", cdcerr.InvalidArgument.New("--server %q is not host:port, http://host:port or https://host:port", given)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return "", cdcerr.InvalidArgument.New("--server %q: only host and port are wanted", given)
	case u.Scheme == "https" && !secure:
		return "", cdcerr.InvalidArgument.New("--server %q speaks TLS: give --ca, and --cert and --key where the server asks for them", given)
	case u.Scheme == "http" && secure:
		return "", cdcerr.InvalidArgument.New("--server %q does not speak TLS, and --ca is given", given)
	}
	return u.Scheme + "://" + u.Host, nil
}

// For how long a question is asked again while nobody leads: a session that runs out, and
// an election. Between two is what the answer says, within bounds.
const (
	leaderless = 15 * time.Second
	againMin   = 500 * time.Millisecond
	againMax   = 5 * time.Second
)

// ask sends a request and reads its answer; in and out may be nil. What only reads is asked
// again while there is no owner who could answer; what changes something is its caller's to
// repeat.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	for waited := time.Duration(0); ; {
		later, err := c.askOnce(ctx, method, path, query, in, out)
		if later = min(max(later, againMin), againMax); method != http.MethodGet || !nobodyLeads(err) || waited+later > leaderless {
			return err
		}
		if waited == 0 {
			c.say("%v; asking again", err)
		}
		select {
		case <-c.after(later):
			waited += later
		case <-ctx.Done():
			return err
		}
	}
}

// nobodyLeads tells whether an error is over when an owner is elected.
func nobodyLeads(err error) bool {
	return slices.Contains([]*cdcerr.Code{cdcerr.OwnerNotFound, cdcerr.NotOwner, cdcerr.RequestForward, cdcerr.ServerNotReady}, cdcerr.Of(err))
}

// askOnce is one request, and after how long the answer says that it may be asked again.
func (c *client) askOnce(ctx context.Context, method, path string, query url.Values, in, out any) (later time.Duration, err error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, cdcerr.InvalidArgument.Wrap(err, "request")
		}
		body = bytes.NewReader(text)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return 0, cdcerr.InvalidArgument.Wrap(err, "request")
	}
	if c.user != "" {
		req.SetBasicAuth(c.user, c.password)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, cdcerr.ServerUnreachable.Wrap(dialed(err), "%s", c.base)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return 0, cdcerr.ServerUnreachable.Wrap(err, "%s", c.base)
	}
	if res.StatusCode >= http.StatusBadRequest {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0: it says nothing
		return time.Duration(seconds) * time.Second, c.refusal(res.StatusCode, text)
	}
	if out == nil {
		return 0, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return 0, cdcerr.ServerUnreachable.New("%s answers %s %s with what is no answer of Sluice", c.base, method, path)
	}
	return 0, nil
}

// dialed is a failed request without the request in its text.
func dialed(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op.Err
	}
	return err
}

// refusal is the error that a server answered with its code.
func (c *client) refusal(status int, text []byte) error {
	var body api.ErrorBody
	if err := json.Unmarshal(text, &body); err != nil || body.Message == "" {
		return cdcerr.ServerUnreachable.New("%s answers with HTTP status %d and no error of Sluice's", c.base, status)
	}
	detail := strings.Replace(body.Message, "["+body.Code+"] ", "", 1)
	for _, code := range cdcerr.All() {
		if code.ID == body.Code {
			return code.New("%s", detail)
		}
	}
	// A newer server's code explains itself.
	code := &cdcerr.Code{ID: body.Code, Meaning: body.Meaning, Remedy: body.Remedy, Class: cdcerr.Retry}
	if code.Meaning == "" {
		code.Meaning, code.Remedy = fmt.Sprintf("the server failed (HTTP status %d)", status), "read the server's log"
	}
	return code.New("%s", detail)
}
