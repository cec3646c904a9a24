package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
	"github.com/sluice-cdc/sluice/strict"
	"github.com/sluice-cdc/sluice/tso"
)

// Config says which database to write to, and how.
type Config struct {
	Scheme   string // mysql, mysql+ssl, tidb, tidb+ssl
	User     string
	Password Secret
	Host     string
	Port     int

	// CA, Cert and Key are PEM files. TLS is used if the scheme ends in +ssl or
	// one of them is set; without CA the system's roots are trusted.
	CA, Cert, Key string

	// Role is what of a changefeed the sink is for. Leave is an Owner's, asked when the
	// sink is opened.
	Role  sink.Role  `json:"-"`
	Leave sink.Leave `json:"-"`

	// Cluster and Changefeed are what the control tables downstream call the writer.
	Cluster, Changefeed string
	// Notes name parameters of the URI that change nothing, and why.
	Notes []string
	// Warn is told, with a code, of what the sink rides out: a downstream that went
	// away, a lock that is not given. What it is told of is over when Flush, DDL or
	// SyncPoint return. Several goroutines may call it at once; nil: nobody asks.
	Warn func(error) `json:"-"`
	// Upstream is the id of the upstream's cluster: changefeeds of several may have
	// one name.
	Upstream uint64
	// Life tells a changefeed from another one that had its name, and from itself
	// before an operator set its checkpoint. What was noted downstream about DDLs in
	// another life does not count. Empty: nothing is noted.
	Life string
	// KeepLives leaves what earlier lives have noted until ForgetLife: there may be redo
	// logs of theirs, which are applied with it.
	KeepLives bool
	// NoDDLRecord keeps DDLs from being noted downstream.
	NoDDLRecord bool
	// Capture is whose place at the fence is taken; Raise fences it off. Empty: whoever
	// owns the changefeed.
	Capture string
	// NoFence has nothing compared before it is written.
	NoFence bool
	// NoVerify leaves it at what the downstream makes of a column's old values when a
	// DDL rewrites them.
	NoVerify bool
	// Spared tells of a table whether its rows may stand downstream otherwise on
	// purpose, because a filter leaves updates out: they are not held to upstream's.
	// Nil: of none.
	Spared func(*event.Table) bool `json:"-"`
	// SyncPointRetention is how long rows of sync points are kept; 0 for ever.
	SyncPointRetention time.Duration

	// Atomicity says whether an upstream transaction that is too large to be held
	// may be written in pieces.
	Atomicity Atomicity
	// Workers is how many downstream transactions are under way at once, each on a
	// connection of its own; 0: by the dialect.
	Workers int
	// MaxTxnRows bounds the rows of a downstream transaction. An upstream transaction
	// that has more is cut where its rows have no key in common, or is written as
	// one where Atomicity says so.
	MaxTxnRows int
	// MaxTxnBytes bounds their raw bytes likewise.
	MaxTxnBytes int64
	// Batch puts several rows into a statement, Multi several statements into a packet.
	Batch, Multi bool
	// MaxPacketBytes is how many bytes of statements go together, beside what the
	// server itself takes.
	MaxPacketBytes int
	// MaxStatementBytes is where a statement of many rows is cut. A row that is
	// longer makes a statement of its own.
	MaxStatementBytes int

	// BDR has everything that is written marked as a changefeed's, or nothing
	// written: the downstream is replicated back, and what is not marked would come
	// round for ever. Only TiDB can.
	BDR bool
	// Safe writes rows so that a second delivery changes nothing, always. Without it
	// a row is written as what happened to it, INSERT, UPDATE or DELETE, where it cannot
	// have been written before: in a transaction above Replayed, at the first attempt.
	Safe bool
	// Replayed is up to where transactions may have been written by an earlier run, and
	// asked at each Write; 0 or nil: all may have been.
	Replayed func() tso.TS `json:"-"`
	// MultiUpdateRows is how many rows an UPDATE may change at once, MultiUpdateBytes
	// how many bytes these may have on average.
	MultiUpdateRows, MultiUpdateBytes int

	// TxnMode is TiDB's tidb_txn_mode. NoVector makes LONGTEXT of VECTOR on TiDB too,
	// for a version that has no such type.
	TxnMode  string
	NoVector bool

	DialTimeout  time.Duration // to connect and set the session up
	ReadTimeout  time.Duration // until a statement on rows answers
	WriteTimeout time.Duration // until a packet is on the wire
	// AsyncDDLTimeout is how long an ADD INDEX is waited for that TiDB goes on with by
	// itself. Every other DDL is waited for without end.
	AsyncDDLTimeout time.Duration
	// Absence is how long a database is waited for that has been connected and
	// went away. The first connection is not waited for.
	Absence time.Duration
}

// Atomicity is what a reader of the downstream may see of a transaction.
type Atomicity string

// The levels: PerTable shows all of a transaction or nothing, Pieces may show a
// part of one that is too large to be held.
const (
	Pieces   Atomicity = "none"
	PerTable Atomicity = "table"
)

// Default is a config without an address.
func Default() Config {
	return Config{
		Scheme: "mysql",
		User:   "root",
		Port:   4000,

		Cluster:            "default",
		Changefeed:         "default",
		SyncPointRetention: 24 * time.Hour,

		// Many rows a commit and a statement pay for the round trips, and still
		// end well within a second, so that the checkpoint moves.
		MaxTxnRows:        256,
		Batch:             true,
		Safe:              true,
		MultiUpdateRows:   40,
		MultiUpdateBytes:  1024,
		Multi:             true,
		MaxPacketBytes:    2 << 20,
		TxnMode:           "optimistic",
		Atomicity:         Pieces,
		MaxTxnBytes:       8 << 20,
		MaxStatementBytes: 1 << 20,
		DialTimeout:       10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		WriteTimeout:      2 * time.Minute,
		AsyncDDLTimeout:   2 * time.Minute,
		// A restart, or a failover that somebody has automated. What takes longer
		// is for the changefeed to show, and for its own backoff.
		Absence: 30 * time.Second,
	}
}

// The workers where nobody says how many: TiCDC's numbers. TiDB answers later
// than others, and takes more at once.
const (
	workersByDefault = 16
	workersOnTiDB    = 64
)

// workersOn is how many workers write to a database. One that may not keep
// transactions apart gets one, whatever it calls itself.
func (c *Config) workersOn(d Dialect) int {
	switch {
	case c.Workers > 0:
		return c.Workers
	case d.Kind == TiDB:
		return workersOnTiDB
	case d.Kind == Other:
		return 1
	}
	return workersByDefault
}

// schemes are those that this sink answers to.
var schemes = []string{"mysql", "mysql+ssl", "tidb", "tidb+ssl"}

// Handles tells whether a sink URI's scheme is one of this package's.
func Handles(scheme string) bool { return slices.Contains(schemes, scheme) }

// A param is one key of a sink URI.
type param struct {
	name string
	set  func(c *Config, value string) error // the error says what is wanted
	idle string                              // why it changes nothing
}

const notPrepared = "nothing is prepared: values are in the statements"

// params are TiCDC's, with its defaults and bounds, and reconnect-timeout.
var params = []param{
	{"async-ddl-timeout", func(c *Config, v string) error { return setDuration(&c.AsyncDDLTimeout, v) }, ""},
	{"batch-dml-enable", func(c *Config, v string) error { return setBool(&c.Batch, v) }, ""},
	{"cache-prep-stmts", func(_ *Config, v string) error { return setBool(new(bool), v) }, notPrepared},
	{"enable-ddl-ts", func(c *Config, v string) error {
		var noted bool
		err := setBool(&noted, v)
		c.NoDDLRecord = !noted
		return err
	}, ""},
	{"enable-fence", func(c *Config, v string) error {
		var fenced bool
		err := setBool(&fenced, v)
		c.NoFence = !fenced
		return err
	}, ""},
	{"has-vector-type", func(c *Config, v string) error {
		var has bool
		err := setBool(&has, v)
		c.NoVector = !has
		return err
	}, ""},
	{"max-multi-update-row", func(c *Config, v string) error { return setInt(&c.MultiUpdateRows, v, 1, 256) }, ""},
	{"max-multi-update-row-size", func(c *Config, v string) error { return setInt(&c.MultiUpdateBytes, v, 0, 8192) }, ""},
	{"max-txn-row", func(c *Config, v string) error { return setInt(&c.MaxTxnRows, v, 1, 2048) }, ""},
	{"multi-stmt-enable", func(c *Config, v string) error { return setBool(&c.Multi, v) }, ""},
	{"prep-stmt-cache-size", func(_ *Config, v string) error { return setInt(new(int), v, 0, 1<<20) }, notPrepared},
	{"read-timeout", func(c *Config, v string) error { return setDuration(&c.ReadTimeout, v) }, ""},
	{"reconnect-timeout", func(c *Config, v string) error { return setDuration(&c.Absence, v) }, ""},
	{"safe-mode", func(c *Config, v string) error { return setBool(&c.Safe, v) }, ""},
	{"ssl-ca", func(c *Config, v string) error { c.CA = v; return nil }, ""},
	{"ssl-cert", func(c *Config, v string) error { c.Cert = v; return nil }, ""},
	{"ssl-key", func(c *Config, v string) error { c.Key = v; return nil }, ""},
	{"tidb-txn-mode", func(c *Config, v string) error {
		if c.TxnMode = v; v != "optimistic" && v != "pessimistic" {
			return errText("optimistic or pessimistic")
		}
		return nil
	}, ""},
	{"time-zone", setTimeZone, "moments are written in UTC over sessions in UTC, which no zone changes"},
	{"timeout", func(c *Config, v string) error { return setDuration(&c.DialTimeout, v) }, ""},
	{"transaction-atomicity", func(c *Config, v string) error {
		if c.Atomicity = Atomicity(v); c.Atomicity != Pieces && c.Atomicity != PerTable {
			return errText("none or table")
		}
		return nil
	}, ""},
	{"verify-rewriting-ddl", func(c *Config, v string) error {
		var verified bool
		err := setBool(&verified, v)
		c.NoVerify = !verified
		return err
	}, ""},
	{"where-clause", func(_ *Config, v string) error {
		if v != "default" {
			return errText("default: rows are found by their key, or by all columns where they have none")
		}
		return nil
	}, "rows are found by their key, or by all columns where they have none"},
	{"worker-count", func(c *Config, v string) error { return setInt(&c.Workers, v, 1, 1024) }, ""},
	{"write-timeout", func(c *Config, v string) error { return setDuration(&c.WriteTimeout, v) }, ""},
}

// setTimeZone takes what TiCDC takes, and does nothing with it: moments are
// written in UTC over sessions in UTC, which no zone changes.
func setTimeZone(_ *Config, v string) error {
	v = strings.Trim(v, `"'`)
	if v == "" || v == "System" || v == "SYSTEM" {
		return nil
	}
	if _, err := time.LoadLocation(v); err == nil {
		return nil
	}
	if _, err := time.Parse("-07:00", v); err == nil {
		return nil
	}
	return errText("the name of a time zone, such as Asia/Shanghai, or an offset, such as +08:00")
}

type errText string

func (e errText) Error() string { return string(e) }

// ParseURI reads a sink URI: scheme://user:password@host:port/?key=value. The
// text of the URI stands in no error, since it holds the password.
func ParseURI(text string) (Config, error) {
	c := Default()
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Scheme == "" {
		return c, cdcerr.SinkURIInvalid.New("the sink URI is no URI: want mysql://user:password@host:port/?key=value, with : / ? # [ ] @ %% in user and password percent-encoded")
	}
	if !Handles(u.Scheme) {
		return c, cdcerr.SinkURIInvalid.New("scheme %q: want one of %s", u.Scheme, strings.Join(schemes, ", "))
	}
	if strings.Contains(text, "#") {
		return c, cdcerr.SinkURIInvalid.New("#: what follows it is sent to no server, so a sink URI has none; in user and password write %%23")
	}
	c.Scheme, c.Host = u.Scheme, u.Hostname()
	if strings.Contains(c.Host, ":") && !strings.HasPrefix(u.Host, "[") {
		return c, cdcerr.SinkURIInvalid.New("the host has a colon: want host:port, or [address]:port for an IPv6 address")
	}
	if name := u.User.Username(); name != "" {
		c.User = name
	}
	if password, ok := u.User.Password(); ok {
		c.Password = Secret(password)
	}
	if p := u.Port(); p != "" {
		if err := setInt(&c.Port, p, 1, 65535); err != nil {
			return c, cdcerr.SinkURIInvalid.New("port %q: want %v", p, err)
		}
	}
	if u.Path != "" && u.Path != "/" {
		return c, cdcerr.SinkURIInvalid.New("path %q: want none, since every table has its database in its name", u.Path)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, cdcerr.SinkURIInvalid.New("the parameters after ? cannot be read: want key=value&key=value, percent-encoded")
	}
	if err := c.setParams(query); err != nil {
		return c, err
	}
	return c, c.Validate()
}

func (c *Config) setParams(query url.Values) error {
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names) // so that the same URI always gives the same error
	for _, name := range names {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		switch {
		case i < 0:
			return cdcerr.SinkURIInvalid.New("parameter %s is unknown%s", name, meant(name))
		case len(query[name]) > 1:
			return cdcerr.SinkURIInvalid.New("parameter %s stands %d times: want it once", name, len(query[name]))
		}
		if err := params[i].set(c, query[name][0]); err != nil {
			return cdcerr.SinkURIInvalid.New("parameter %s=%s: want %v", name, query[name][0], err)
		}
		if why := params[i].idle; why != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("%s=%s in the sink URI does nothing: %s", name, query[name][0], why))
		}
	}
	return nil
}

// Validate names the key that cannot be used, and why.
func (c *Config) Validate() error {
	switch {
	case !Handles(c.Scheme):
		return cdcerr.SinkURIInvalid.New("scheme %q: want one of %s", c.Scheme, strings.Join(schemes, ", "))
	case c.Role > sink.Owner:
		return cdcerr.Bug("a sink has no role %d", c.Role)
	case c.Role == sink.Owner && c.Leave == nil:
		return cdcerr.Bug("an owner's sink takes its place at the fence when it is opened, and was given no leave for that")
	case c.Role == sink.Owner && c.Capture != "":
		return cdcerr.Bug("an owner's sink has the place of no capture, and was given that of %s", c.Capture)
	case c.Role == sink.Rows && c.Capture == "" && c.Life != "":
		return cdcerr.Bug("a sink for rows has a capture's place at the fence, and was given no capture")
	case c.Host == "":
		return cdcerr.SinkURIInvalid.New("host: want a name or an address, as in mysql://root@127.0.0.1:3306/")
	case c.Port < 1 || c.Port > 65535:
		return cdcerr.SinkURIInvalid.New("port %d: want 1 to 65535", c.Port)
	case (c.Cert == "") != (c.Key == ""):
		return cdcerr.SinkURIInvalid.New("ssl-cert and ssl-key: want both or none")
	case c.Atomicity != Pieces && c.Atomicity != PerTable:
		return cdcerr.SinkURIInvalid.New("transaction-atomicity %q: want none or table", c.Atomicity)
	case c.MaxTxnRows < 1 || c.MaxTxnBytes < 1 || c.MaxStatementBytes < 1 || c.MaxPacketBytes < 1:
		return cdcerr.SinkURIInvalid.New("max-txn-row, MaxTxnBytes, MaxStatementBytes and MaxPacketBytes: want at least 1 each")
	case c.Workers < 0 || c.Workers > 1024:
		return cdcerr.SinkURIInvalid.New("worker-count %d: want 1 to 1024, or 0 for the dialect's own", c.Workers)
	case c.TxnMode != "optimistic" && c.TxnMode != "pessimistic":
		return cdcerr.SinkURIInvalid.New("tidb-txn-mode %q: want optimistic or pessimistic", c.TxnMode)
	case c.Absence <= 0:
		return cdcerr.SinkURIInvalid.New("reconnect-timeout: want more than 0: a connection that idled away is no reason to fail")
	case c.DialTimeout <= 0 || c.ReadTimeout <= 0 || c.WriteTimeout <= 0:
		return cdcerr.SinkURIInvalid.New("timeout, read-timeout and write-timeout: want more than 0, or a dead host is waited for without end")
	}
	return nil
}

// replayed is up to where transactions may have been written before; 0: not known.
func (c *Config) replayed() tso.TS {
	if c.Replayed == nil {
		return 0
	}
	return c.Replayed()
}

// Addr is host:port.
func (c *Config) Addr() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// String is the URI without its password.
func (c Config) String() string {
	user := url.PathEscape(c.User)
	if c.Password != "" {
		user += ":" + masked
	}
	return c.Scheme + "://" + user + "@" + c.Addr() + "/"
}

// tls is the TLS configuration, nil for a plain connection.
func (c *Config) tls() (*tls.Config, error) {
	if !strings.HasSuffix(c.Scheme, "+ssl") && c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.Host}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, cdcerr.SinkURIInvalid.Wrap(err, "ssl-ca=%s cannot be read", c.CA)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, cdcerr.SinkURIInvalid.New("ssl-ca=%s holds no certificate in PEM form", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, cdcerr.SinkURIInvalid.Wrap(err, "ssl-cert=%s and ssl-key=%s are no pair", c.Cert, c.Key)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

func setInt(to *int, text string, low, high int) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high {
		return errText("a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high))
	}
	*to = v
	return nil
}

func setBool(to *bool, text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errText("true or false")
	}
	*to = v
	return nil
}

func setDuration(to *time.Duration, text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return errText("a duration above 0, such as 30s or 2m")
	}
	*to = v
	return nil
}

// meant is the end of a message about an unknown parameter.
func meant(name string) string {
	known := make([]string, len(params))
	for i, p := range params {
		known[i] = p.name
	}
	if near := strict.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; docs/mysql.md lists all of them"
}
