package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/freeport"
)

func TestParseURI(t *testing.T) {
	for uri, want := range map[string]struct{ user, password, addr string }{
		"mysql://127.0.0.1/":                          {"root", "", "127.0.0.1:4000"},
		"tidb://u:p@h:1":                              {"u", "p", "h:1"},
		"mysql+ssl://u:p%40%3A%2F%3F@h:3306/":         {"u", "p@:/?", "h:3306"},
		"mysql://[::1]:3306/?timeout=1s":              {"root", "", "[::1]:3306"},
		"tidb+ssl://:only@h/?max-txn-row=1":           {"root", "only", "h:4000"},
		"mysql://a@h/?safe-mode=true&read-timeout=3m": {"a", "", "h:4000"},
	} {
		c, err := ParseURI(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if c.User != want.user || c.Password.Reveal() != want.password || c.Addr() != want.addr {
			t.Errorf("%s: %q %q %q", uri, c.User, c.Password.Reveal(), c.Addr())
		}
	}
}

// Every parameter of TiCDC's is taken, with the defaults that it has there.
func TestParametersOfTiCDC(t *testing.T) {
	c, err := ParseURI("mysql://h/?worker-count=32&max-txn-row=2048&max-multi-update-row=40&max-multi-update-row-size=1024&tidb-txn-mode=pessimistic" +
		"&ssl-ca=&ssl-cert=&ssl-key=&time-zone=%22Asia%2FShanghai%22&read-timeout=2m&write-timeout=2m&timeout=2m&async-ddl-timeout=2m&safe-mode=false" +
		"&batch-dml-enable=false&multi-stmt-enable=false&cache-prep-stmts=true&prep-stmt-cache-size=16384&has-vector-type=false&transaction-atomicity=none&enable-ddl-ts=true&where-clause=default")
	if err != nil {
		t.Fatal(err)
	}
	if c.Workers != 32 || c.MaxTxnRows != 2048 || c.TxnMode != "pessimistic" || c.Batch || c.Multi || !c.NoVector || c.DialTimeout != 2*time.Minute {
		t.Errorf("%+v", c)
	}
	if c.Safe || c.MultiUpdateRows != 40 || c.MultiUpdateBytes != 1024 || c.ReadTimeout != 2*time.Minute || c.WriteTimeout != 2*time.Minute {
		t.Errorf("%+v", c)
	}
	if want := "cache-prep-stmts prep-stmt-cache-size time-zone where-clause"; idleOf(c) != want {
		t.Errorf("without effect: %s", idleOf(c))
	}
	for kind, want := range map[Kind]int{TiDB: 64, MySQL: 16, MariaDB: 16, Other: 1} {
		d := Default()
		if got := d.workersOn(Dialect{Kind: kind}); got != want {
			t.Errorf("%s: %d workers", kind, got)
		}
	}
	if d := Default(); d.MaxTxnRows != 256 || !d.Batch || !d.Multi || d.TxnMode != "optimistic" || d.Atomicity != Pieces || d.ReadTimeout != 2*time.Minute {
		t.Errorf("%+v", d)
	}
}

// idleOf lists the parameters that were said to change nothing.
func idleOf(c Config) string {
	var names []string
	for _, n := range c.Notes {
		name, _, _ := strings.Cut(n, "=")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestTransactionAtomicity(t *testing.T) {
	for param, whole := range map[string]bool{"": false, "?transaction-atomicity=none": false, "?transaction-atomicity=table": true} {
		c, err := ParseURI("mysql://h/" + param)
		if err != nil {
			t.Fatal(err)
		}
		if s := (&Sink{cfg: c}); s.Whole() != whole {
			t.Errorf("%q: whole is %v", param, s.Whole())
		}
	}
	c := Default()
	c.Host, c.Atomicity = "h", "row"
	if err := c.Validate(); !cdcerr.SinkURIInvalid.Is(err) {
		t.Error(err)
	}
}

func TestParseURIRefuses(t *testing.T) {
	for uri, says := range map[string]string{
		"":                                                       "no URI",
		"mysql:root@h":                                           "no URI",
		"mysql://root:hunter2/x@h:1/":                            "percent-encoded",
		"mysql://root:hunter2@h:99999/":                          "port",
		"postgres://root:hunter2@h/":                             "scheme",
		"mysql://root:hunter2@/":                                 "host",
		"mysql://root:hunter2@h/db":                              "path",
		"mysql://root:hunter2@h/?wroker-count=1":                 "unknown; did you mean worker-count?",
		"mysql://root:hunter2@h/?banana=1":                       "unknown; docs/mysql.md lists all of them",
		"mysql://root:hunter2@h/?safe-mod=1":                     "did you mean safe-mode",
		"mysql://root:hunter2@h/?max-txn-rows=1":                 "did you mean max-txn-row?",
		"mysql://root:hunter2@h/?max-txn-row=0":                  "max-txn-row=0: want a number from 1",
		"mysql://root:hunter2@h/?timeout=5":                      "timeout=5: want a duration",
		"mysql://root:hunter2@h/?timeout=-5s":                    "timeout=-5s",
		"mysql://root:hunter2@h/?timeout=1s&timeout=2s":          "stands 2 times",
		"mysql://root:hunter2@h/?worker-count=0":                 "worker-count=0: want a number from 1 to 1024",
		"mysql://root:hunter2@h/?worker-count=1025":              "worker-count=1025: want a number from 1 to 1024",
		"mysql://root:hunter2@h/?max-txn-row=2049":               "max-txn-row=2049: want a number from 1 to 2048",
		"mysql://root:hunter2@h/?max-multi-update-row=257":       "want a number from 1 to 256",
		"mysql://root:hunter2@h/?max-multi-update-row-size=8193": "want a number from 0 to 8192",
		"mysql://root:hunter2@h/?safe-mode=maybe":                "safe-mode=maybe: want true or false",
		"mysql://root:hunter2@h/?batch-dml-enable=on":            "want true or false",
		"mysql://root:hunter2@h/?tidb-txn-mode=none":             "optimistic or pessimistic",
		"mysql://root:hunter2@h/?time-zone=Mars/Base":            "time-zone=Mars/Base: want the name of a time zone",
		"mysql://root:hunter2@h/?where-clause=mine":              "where-clause=mine: want default",
		"mysql://root:hunter2@h/?reconnect-timeout=0s":           "reconnect-timeout=0s",
		"mysql://h/?transaction-atomicity=global":                "transaction-atomicity=global: want none or table",
		"mysql://root:hunter2@h/?ssl-cert=a":                     "ssl-key",
		"mysql://root:hunter2@h/?ssl-ca=%zz":                     "parameters",
		"mysql://root:hunter2@h/#part":                           "%23",
		"mysql://root@h/#":                                       "%23",
		"mysql://root@127.0.0.1:14306:5/":                        "want host:port",
		"mysql://root:hunter2:5":                                 "want host:port",
	} {
		_, err := ParseURI(uri)
		if !cdcerr.SinkURIInvalid.Is(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", uri, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestTLSFiles(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for uri, says := range map[string]string{
		"mysql://h/?ssl-ca=" + none:                      "cannot be read",
		"mysql://h/?ssl-ca=" + bad:                       "no certificate in PEM form",
		"mysql://h/?ssl-cert=" + bad + "&ssl-key=" + bad: "no pair",
	} {
		c, err := ParseURI(uri)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), c, nil, testLog(t)); !cdcerr.SinkURIInvalid.Is(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	c, err := ParseURI("tidb+ssl://host/")
	if err != nil {
		t.Fatal(err)
	}
	if conf, err := c.tls(); err != nil || conf == nil || conf.ServerName != "host" {
		t.Errorf("+ssl without files: %v %v", conf, err)
	}
}

// No way to print a config shows the password.
func TestPasswordIsMasked(t *testing.T) {
	c, err := ParseURI("mysql://root:hunter2@h/")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", c, "password", c.Password)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "password", c.Password)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%x %d %#v", c.Password, c.Password, &c),
		c.String(), string(asJSON), log.String(),
	} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("shown: %s", s)
		}
	}
	if got := c.String(); got != "mysql://root:xxxxx@h:4000/" {
		t.Error(got)
	}
}

// A host that is not there, one that never answers, and a wrong password: each
// ends in time, with the address and without the password.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := freeport.PickAddress()
	if err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{
		"silent":         silent.Addr().String(),
		"closed":         closed,
		"no such host":   "no-such-host.invalid:3306",
		"wrong password": server.Addr(),
	} {
		timeout := "2m" // none but the silent one takes long to say so
		if name == "silent" {
			timeout = "500ms"
		}
		c, err := ParseURI("mysql://nobody:hunter2@" + addr + "/?timeout=" + timeout)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(context.Background(), c, nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		want := cdcerr.MySQLConnection
		if name == "wrong password" {
			want = cdcerr.MySQLAccessDenied
		}
		if !want.Is(err) || !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s shows the password: %v", name, err)
		}
	}
}

func TestDetect(t *testing.T) {
	for version, want := range map[string]string{
		"8.0.11-TiDB-v8.5.1":         "TiDB 8.5.1",
		"5.7.25-TiDB-v6.5.0-20-gabc": "TiDB 6.5.0",
		"10.11.6-MariaDB-0+deb12u1":  "MariaDB 10.11.6",
		"5.5.5-10.6.12-MariaDB-log":  "MariaDB 10.6.12",
		"8.0.36":                     "MySQL 8.0.36",
		"5.7.44-log":                 "MySQL 5.7.44",
		"8.0.30-Vitess":              "other 8.0.30",
		"":                           "MySQL 0.0.0",
	} {
		if got := Detect(version, "Source distribution").String(); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
	if got := Detect("8.0.31", "Dolt"); got.Kind != Other {
		t.Errorf("Dolt: %s", got)
	}
	d := Dialect{Major: 10, Minor: 6, Patch: 12}
	if !d.atLeast(10, 6, 12) || !d.atLeast(5, 9, 99) || d.atLeast(10, 6, 13) || d.atLeast(10, 7, 0) || d.atLeast(11, 0, 0) {
		t.Error("versions are not compared part by part")
	}
}
