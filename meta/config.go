package meta

import (
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// The backends.
const (
	BackendPD       = "pd"       // the etcd that PD runs: nothing more to install
	BackendExternal = "external" // an etcd of one's own: metadata outlives PD
	BackendEmbedded = "embedded" // an etcd in this process, one member for each capture
)

// TLS are PEM files; all empty means that nothing is encrypted.
type TLS struct {
	CA, Cert, Key string
}

// Config says where metadata is kept.
type Config struct {
	Backend string
	// Endpoints are those of PD or of the external etcd: host:port or
	// http(s)://host:port. One that answers is enough.
	Endpoints []string
	TLS       TLS
	// Prefix stands before every key, Cluster after it: clusters of Sluice with
	// different names share an etcd and know nothing of each other.
	Prefix  string
	Cluster string
	// RequestTimeout is how long one request is waited for.
	RequestTimeout time.Duration
	// Embedded is what the backend of that name needs.
	Embedded Embedded
	// Log gets what an operator may want to know; nil keeps it quiet.
	Log *slog.Logger
}

// Embedded is the member of an etcd cluster that runs in this process.
type Embedded struct {
	// Name is the member's, as InitialCluster spells it.
	Name string
	// DataDir is the member's own; everything that Sluice must not lose is in it.
	DataDir string
	// ClientAddr and PeerAddr are host:port to listen on and to be reached at. Port 0
	// takes a free one, which only a cluster of one member can do with.
	ClientAddr string
	PeerAddr   string
	// InitialCluster is name=host:port of every member, this one too, comma between;
	// empty for a cluster of one.
	InitialCluster string
	// Tick is the heartbeat; elections take ten of them. The shortest session that
	// the cluster grants is fifteen.
	Tick time.Duration
}

// Default is a Config on PD's etcd that lacks its endpoints.
func Default() Config {
	return Config{
		Backend: BackendPD,
		Prefix:  "/sluice", Cluster: "default",
		// Etcd elects a leader in one to two seconds; who waits longer waits in vain.
		RequestTimeout: 5 * time.Second,
		Embedded:       Embedded{Name: "default", ClientAddr: "127.0.0.1:0", PeerAddr: "127.0.0.1:0", Tick: 100 * time.Millisecond},
	}
}

// word is what a cluster, a namespace, a changefeed or a capture may be called:
// nothing that could be taken for a part of a key.
var word = regexp.MustCompile(`^[a-zA-Z0-9]+([-_.:][a-zA-Z0-9]+)*$`)

// longest is how long such a name may be.
const longest = 128

func checkWord(what, s string) error {
	if len(s) > longest || !word.MatchString(s) {
		return cdcerr.InvalidArgument.New("%s %q: want up to %d letters, digits, and - _ . : between them", what, s, longest)
	}
	return nil
}

// Validate names the first key that cannot be used.
func (c *Config) Validate() error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case !slices.Contains([]string{BackendPD, BackendExternal, BackendEmbedded}, c.Backend):
		return bad("Backend %q: want pd, external or embedded", c.Backend)
	case !strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/") || strings.Contains(c.Prefix, "//"):
		return bad("Prefix %q: must begin with a slash and must not end with one", c.Prefix)
	case c.Prefix == "/tidb" || strings.HasPrefix(c.Prefix+"/", "/tidb/cdc/"):
		return bad("Prefix %q: belongs to TiDB and TiCDC", c.Prefix)
	case c.RequestTimeout <= 0:
		return bad("RequestTimeout %v: must be positive", c.RequestTimeout)
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return bad("TLS.Cert, TLS.Key: give both or neither")
	case c.TLS.Cert != "" && c.TLS.CA == "":
		return bad("TLS.CA: missing beside TLS.Cert")
	}
	if err := checkWord("Cluster", c.Cluster); err != nil {
		return err
	}
	if c.Backend == BackendEmbedded {
		return c.Embedded.validate(c.TLS)
	}
	if len(c.Endpoints) == 0 {
		return bad("Endpoints: missing")
	}
	for _, e := range c.Endpoints {
		u, err := url.Parse(c.endpoint(e))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return bad("Endpoints: %q is neither host:port nor http(s)://host:port", e)
		}
		if u.Scheme == "https" && c.TLS.CA == "" {
			return bad("TLS.CA: missing, endpoint %s speaks TLS", e)
		}
	}
	return nil
}

func (e *Embedded) validate(t TLS) error {
	bad := cdcerr.InvalidArgument.New
	switch {
	case e.DataDir == "":
		return bad("Embedded.DataDir: missing")
	case e.Name == "" || strings.ContainsAny(e.Name, ",="):
		return bad("Embedded.Name %q: want a name without comma and =", e.Name)
	case e.Tick < time.Millisecond:
		return bad("Embedded.Tick %v: want at least 1ms", e.Tick)
	case t.CA != "" && t.Cert == "":
		return bad("TLS.Cert: missing, an embedded etcd has to show one")
	}
	for key, addr := range map[string]string{"ClientAddr": e.ClientAddr, "PeerAddr": e.PeerAddr} {
		if u, err := url.Parse("http://" + addr); err != nil || u.Port() == "" || u.Host != addr {
			return bad("Embedded.%s %q: want host:port", key, addr)
		}
	}
	for _, m := range e.members() {
		if name, addr, ok := strings.Cut(m, "="); !ok || name == "" || addr == "" {
			return bad("Embedded.InitialCluster: %q is not name=host:port", m)
		}
	}
	return nil
}

func (e *Embedded) members() []string {
	if e.InitialCluster == "" {
		return nil
	}
	return strings.Split(e.InitialCluster, ",")
}

// endpoint is an endpoint with its scheme.
func (c *Config) endpoint(e string) string {
	if strings.Contains(e, "://") {
		return e
	}
	return c.scheme() + "://" + e
}

func (c *Config) scheme() string {
	if c.TLS.CA != "" {
		return "https"
	}
	return "http"
}
