package changefeed

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/cdcerr"
)

func TestURIsAreMasked(t *testing.T) {
	for uri, want := range map[string]string{
		"":                              "",
		"mysql://root:pw@h:3306/":       "mysql://root:xxxxx@h:3306/",
		"mysql://root@h:3306":           "mysql://root@h:3306",
		"mysql://:pw@h/?worker-count=1": "mysql://:xxxxx@h/?worker-count=1",
		"kafka://h:1,g:2/t?protocol=avro&sasl-user=u&sasl-password=pw&sasl-mechanism=plain":      "kafka://h:1,g:2/t?protocol=avro&sasl-user=u&sasl-password=xxxxx&sasl-mechanism=plain",
		"kafka://h/t?sasl-gssapi-password=pw&sasl-oauth-client-secret=pw&sasl-oauth-token-url=x": "kafka://h/t?sasl-gssapi-password=xxxxx&sasl-oauth-client-secret=xxxxx&sasl-oauth-token-url=x",
		"s3://b/p?access-key=a&secret-access-key=b&session-token=c&region=r":                     "s3://b/p?access-key=xxxxx&secret-access-key=xxxxx&session-token=xxxxx&region=r",
		"azblob://b/p?account-name=n&account-key=k&sas-token=s":                                  "azblob://b/p?account-name=n&account-key=xxxxx&sas-token=xxxxx",
		"gcs://b?credentials-file=/f":                                                            "gcs://b?credentials-file=/f",
		"s3://b?Secret_Access_Key=pw":                                                            "s3://b?Secret_Access_Key=xxxxx",
		"s3://b?secret%2Daccess-key=pw":                                                          "s3://b?secret%2Daccess-key=xxxxx",
		"mysql://root:p#w@h/":                                                                    "mysql://xxxxx",
		"mysql://root:p%zz@h/":                                                                   "mysql://xxxxx",
		"root:pw@h":                                                                              "xxxxx",
		"mysql:root:pw@h":                                                                        "xxxxx",
		"//root:pw@h/":                                                                           "://root:xxxxx@h/",
		"http://registry:pw@h:8081":                                                              "http://registry:xxxxx@h:8081",
	} {
		if got := URI(uri).String(); got != want && (want != "://root:xxxxx@h/" || strings.Contains(got, "pw")) {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// However it is written, a password does not come out.
func TestAnyURIIsMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pw = "hushhush"
		noise := func(what string) string { return rapid.StringMatching(`[a-z0-9:/?#@&=%\[\] ]{0,6}`).Draw(t, what) }
		uri := rapid.SampledFrom([]string{"mysql://", "kafka://", "s3://", ""}).Draw(t, "scheme") + "root:" + noise("a") + pw + noise("b") + "@h:1/" + noise("c")
		if got := URI(uri).String(); strings.Contains(got, pw) {
			t.Fatalf("%q is shown as %q", uri, got)
		}
	})
}

func TestCheckSaysWhatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		uri, toml string
		code      *cdcerr.Code
		says      string
		notes     []string
	}{
		{uri: "mysql://h/"},
		{uri: "blackhole://"},
		{uri: "tidb+ssl://root:pw@h:1/?worker-count=4", toml: "[sink.mysql-config]\nworker-count = 8\nmax-txn-row=10",
			notes: []string{"sink.mysql-config.worker-count = 8 is not used: the sink URI says worker-count=4"}},
		{uri: "mysql://h/", toml: "[sink.kafka-config]\nsasl-password='pw'\n[sink.csv]\nnull='N'",
			notes: []string{"sink.csv.null does nothing: it is about sinks of kind kafka, pulsar, storage", "sink.kafka-config.sasl-password does nothing: it is about sinks of kind kafka, pulsar"}},
		{uri: "mysql://h/", toml: "sql-mode='ANSI_QUOTES'\nenable-table-monitor=true", notes: []string{"enable-table-monitor does nothing: there are none", "sql-mode does nothing: each DDL"}},
		{uri: "mysql://h/", toml: "[consistent]\non-upstream-loss='none'"},
		{uri: "mysql://h/", toml: "[consistent]\nlevel='eventual'\nstorage='s3://b'\non-upstream-loss='apply'\nupstream-loss-grace='1m'"},
		{uri: "mysql://h/", toml: "[consistent]\nlevel='eventual'\nstorage='s3://b?secret-access-key=pw'"},
		{uri: "mysql://h/?enable-ddl-ts=false", toml: "[consistent]\nlevel='eventual'\nstorage='s3://b'", code: cdcerr.ConfigInvalid, says: `consistent.level = "eventual" with enable-ddl-ts = false`},
		{uri: "mysql://h/", toml: "[consistent]\nlevel='eventual'\nstorage='s3://b'\n[sink.mysql-config]\nenable-ddl-ts=false", code: cdcerr.ConfigInvalid, says: `enable-ddl-ts = false`},
		{uri: "mysql://h/?enable-ddl-ts=true", toml: "[consistent]\nlevel='eventual'\nstorage='s3://b'"},
		{uri: "mysql://h/", toml: "bdr-mode=true\nenable-active-active=true", code: cdcerr.NotInRelease, says: "enable-active-active = true (no active-active"},
		{uri: "mysql://h/", toml: "bdr-mode=true"},
		{uri: "mysql://h/", toml: "[[sink.dispatchers]]\nmatcher=['a.b']\ntarget-schema='x'", code: cdcerr.NotInRelease, says: `sink.dispatchers[0].target-schema = "x"`},
		{uri: "kafka://u:pw@h/t", code: cdcerr.NotInRelease, says: `scheme "kafka"`},
		{uri: "pulsar+ssl://u:pw@h/t", code: cdcerr.NotInRelease, says: `scheme "pulsar+ssl"`},
		{uri: "s3://b?secret-access-key=pw", code: cdcerr.NotInRelease, says: `scheme "s3"`},
		{uri: "", code: cdcerr.SinkURIInvalid, says: "no scheme"},
		{uri: "root:pw@h", code: cdcerr.SinkURIInvalid, says: "no scheme"},
		{uri: "mysq://u:pw@h", code: cdcerr.SinkURIInvalid, says: `scheme "mysq" is none of a sink, did you mean mysql?`},
		{uri: "jdbc://h", code: cdcerr.SinkURIInvalid, says: "there are mysql, mysql+ssl, tidb"},
		{uri: "mysql://h/?worker-count=5000", toml: "[sink.mysql-config]\nmax-txn-row = 9999\ntime-zone = 'UTC'\nenable-cache-prepared-statement = true\n[scheduler]\nregion-threshold = 500\nbalance-score-threshold = 50",
			notes: []string{"sink.mysql-config.time-zone does nothing: every session downstream is in UTC",
				"sink.mysql-config.enable-cache-prepared-statement does nothing: nothing is prepared", "scheduler.balance-score-threshold does nothing",
				"max-txn-row = 9999 is more than there may be: 2048 is used", "worker-count = 5000 is more than there may be: 1024 is used"}},
		{uri: "mysql://h/", toml: "[scheduler]\nenable-table-across-nodes = true\nforce-split = true",
			notes: []string{"scheduler.force-split does nothing: it is about sinks of kind blackhole,"}},
		{uri: "blackhole://", toml: "[scheduler]\nenable-table-across-nodes = true\nenable-splittable-check = false\nforce-split = true"},
		{uri: "mysql://h/", toml: "[sink]\ntransaction-atomicity = 'table'"},
		{uri: "mysql://h/?transaction-atomicity=none", toml: "[sink]\ntransaction-atomicity = 'table'\n[scheduler]\nenable-table-across-nodes = true",
			notes: []string{"sink.transaction-atomicity = table is not used"}},
		{uri: "mysql://h/", toml: "[sink]\ntransaction-atomicity = 'table'\n[scheduler]\nenable-table-across-nodes = true",
			code: cdcerr.ConfigInvalid, says: `scheduler.enable-table-across-nodes = true and transaction-atomicity = "table"`},
		{uri: "tidb://h/?transaction-atomicity=table", toml: "[scheduler]\nenable-table-across-nodes = true",
			code: cdcerr.ConfigInvalid, says: `scheduler.enable-table-across-nodes = true and transaction-atomicity = "table"`},
		{uri: "blackhole://", toml: "[sink]\ntransaction-atomicity = 'table'\n[scheduler]\nenable-table-across-nodes = true",
			code: cdcerr.ConfigInvalid, says: "written by several captures"},
		{uri: "root:pw@x://h", code: cdcerr.SinkURIInvalid, says: "no scheme that can be read"},
		{uri: "mysql://u:p/w@h:x/", code: cdcerr.SinkURIInvalid, says: "is no URI"},
		{uri: "mysql://u:pw@h/?a=%zz", code: cdcerr.SinkURIInvalid, says: "parameters"},
		{uri: "blackhole://", toml: "enable-sync-point = true", code: cdcerr.ConfigInvalid, says: "sync points are rows in a database"},
	} {
		conf, err := ParseTOML([]byte(c.toml))
		if err == nil {
			err = conf.Validate(Limits{})
		}
		if err != nil {
			t.Errorf("%s: %v", c.toml, err)
			continue
		}
		notes, err := conf.Check(URI(c.uri))
		if c.code == nil && err != nil || c.code != nil && (!c.code.Is(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s %s: %v; want %q", c.uri, c.toml, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("a secret is shown: %v", err)
		}
		if c.code != nil {
			continue
		}
		if len(notes) != len(c.notes) {
			t.Errorf("%s %s: notes %q", c.uri, c.toml, notes)
			continue
		}
		for i, n := range c.notes {
			if !strings.HasPrefix(notes[i], n) {
				t.Errorf("%s %s: note %q, want %q", c.uri, c.toml, notes[i], n)
			}
		}
	}
}

// Tables for a database are cut only where nothing but the key is unique; for others who
// asks for the check has it.
func TestOneKeyOnly(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		uri   URI
		check *bool
		force bool
		want  bool
	}{
		{"mysql://h/", nil, false, true},
		{"tidb+ssl://h/", &no, true, true},
		{"blackhole://", nil, false, false},
		{"blackhole://", &no, false, false},
		{"blackhole://", &yes, false, true},
		{"blackhole://", &yes, true, false},
	} {
		i := Info{SinkURI: c.uri, Config: Default()}
		i.Config.Scheduler.EnableSplittableCheck, i.Config.Scheduler.ForceSplit = c.check, c.force
		if got := i.OneKeyOnly(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestHanded(t *testing.T) {
	c, err := ParseTOML([]byte("[sink]\nsafe-mode = true\ntransaction-atomicity = 'table'\n[sink.mysql-config]\nworker-count = 8\nenable-multi-statement = false\nread-timeout = '90s'"))
	if err != nil {
		t.Fatal(err)
	}
	got, notes, err := c.Handed("mysql://root:p%40w@h:3306/?worker-count=2")
	want := "mysql://root:p%40w@h:3306/?multi-stmt-enable=false&read-timeout=1m30s&safe-mode=true&transaction-atomicity=table&worker-count=2"
	if err != nil || got.Reveal() != want || len(notes) != 1 {
		t.Errorf("%s, %v, %v", got.Reveal(), notes, err)
	}
	got, notes, err = c.Handed("mysql://h/?worker-count=1025&max-multi-update-row=256&max-multi-update-row-size=8193&max-txn-row=0")
	if err != nil || !strings.Contains(got.Reveal(), "max-multi-update-row=256&max-multi-update-row-size=8192&max-txn-row=0&") || !strings.Contains(got.Reveal(), "worker-count=1024") {
		t.Errorf("%s, %v, %v", got.Reveal(), notes, err)
	}
	// A downstream that is away ends no run that writes a redo log.
	c, err = ParseTOML([]byte("changefeed-error-stuck-duration = '45m'\n[consistent]\nlevel = 'eventual'\nstorage = 'file:///redo'"))
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[URI]string{
		"mysql://h/":                      "mysql://h/?reconnect-timeout=45m0s",
		"mysql://h/?reconnect-timeout=5s": "mysql://h/?reconnect-timeout=5s",
		"blackhole://":                    "blackhole://",
	} {
		if got, notes, err := c.Handed(uri); err != nil || got.Reveal() != want || len(notes) > 0 {
			t.Errorf("%s, %v, %v", got.Reveal(), notes, err)
		}
	}
	if got, _, err := c.Handed("blackhole://"); err != nil || got.Reveal() != "blackhole://" {
		t.Error(got, err)
	}
}

func TestIDs(t *testing.T) {
	for _, name := range []string{"a", "a-b", "Ab9-0", strings.Repeat("x", 128)} {
		if id, err := ParseID("", name); err != nil || id.String() != "default/"+name {
			t.Error(name, err)
		}
	}
	for name, says := range map[string]string{"": "empty", "-a": "begins", "a-": "ends", "a--b": "side by side", "a_b": "letters", "a/b": "letters", "ä": "letters", strings.Repeat("x", 129): "longer"} {
		if _, err := ParseID("", name); !cdcerr.ChangefeedIDInvalid.Is(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := ParseID("a.b", "x"); !cdcerr.NamespaceInvalid.Is(err) {
		t.Error(err)
	}
}
