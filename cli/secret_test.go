package cli_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cli"
)

// A secret that an operator gives is sent to the server, and printed by no
// command and in no error.
func TestNoSecretIsPrinted(t *testing.T) {
	w := newWorld(t)
	secrets := map[string]string{
		`[sink]` + "\n" + `schema-registry = "https://user:%s@registry:8081"`:                                         "hush-registry",
		`[sink.kafka-config]` + "\n" + `sasl-password = "%s"`:                                                         "hush-sasl",
		`[sink.kafka-config]` + "\n" + `sasl-oauth-client-secret = "%s"`:                                              "hush-oauth",
		`[sink.kafka-config.glue-schema-registry-config]` + "\n" + `secret-access-key = "%s"`:                         "hush-glue",
		`[sink.kafka-config.large-message-handle]` + "\n" + `claim-check-storage-uri = "s3://b?secret-access-key=%s"`: "hush-claim",
		`[sink.pulsar-config]` + "\n" + `authentication-token = "%s"`:                                                 "hush-pulsar",
		`[consistent]` + "\n" + `storage = "s3://b/redo?secret-access-key=%s"`:                                        "hush-redo",
	}
	n := 0
	for text, secret := range secrets {
		n++
		name := string(rune('a'+n)) + ".toml"
		for line := range strings.Lines(strings.ReplaceAll(text, "%s", secret)) {
			w.write(t, name, strings.TrimSuffix(line, "\n"))
		}
		for _, line := range []string{
			"sluice cli changefeed create -c secret --sink-uri mysql://root:hush-uri@db:3306/?time-zone=UTC --no-confirm --config ~/" + name,
			"sluice cli changefeed create -c plain --sink-uri mysql://root:hush-uri@db:3306/ --no-confirm -o json --schema-registry http://u:hush-flag@r",
			"sluice cli changefeed create -c plain --sink-uri mysql://root:hush-uri@db:3306/ --no-confirm",
			"sluice cli changefeed create -c bad --sink-uri mysqll://root:hush-uri@db:3306/ --no-confirm",
			"sluice cli changefeed create -c bad --sink-uri mysql://root:hush-uri@db:%zz/ --no-confirm -o json",
			"sluice cli changefeed pause -c plain",
			"sluice cli changefeed update -c plain --sink-uri mysql://root:hush-uri@other:3306/ --no-confirm --config ~/" + name,
			"sluice cli changefeed update -c plain --sink-uri mysql://root:hush-uri@other:3306/ --no-confirm -o json --schema-registry http://u:hush-flag@r",
			"sluice cli changefeed query -c plain",
			"sluice cli changefeed list",
			"sluice cli changefeed remove -c plain --user root --password hush-login",
		} {
			out := w.play(t, []string{line})
			if strings.Contains(out, "hush") {
				t.Errorf("%s\n%s", line, out)
			}
		}
	}
	// The search itself works: this one is no secret.
	if out := w.play(t, []string{"sluice cli changefeed query -c hush-marker"}); !strings.Contains(out, "hush-marker") {
		t.Fatal(out)
	}
}

// Nor does a server that runs write one into its log, or answer with one, also when
// the sink fails.
func TestServerKeepsSecrets(t *testing.T) {
	s := newSite(t)
	s.downstream("CREATE USER 'sluice'@'%' IDENTIFIED BY 'hush-1'")
	s.downstream("GRANT ALL ON *.* TO 'sluice'@'%'")
	s.serve("log-level = \"debug\"")
	s.append("a.toml", "[consistent]")
	s.append("a.toml", `storage = "s3://b/redo?secret-access-key=hush-2"`)
	s.append("a.toml", "[sink.kafka-config]")
	s.append("a.toml", `sasl-password = "hush-3"`)
	uri := strings.Replace(s.down.URI(), "root@", "sluice:hush-%d@", 1)
	s.does("cli changefeed create -c a --no-confirm --config "+s.dir+"/a.toml --sink-uri", fmt.Sprintf(uri, 1))
	must(t, s.bank.Prepare(t.Context()))
	s.caught("a")
	s.does("cli changefeed pause -c a")
	_, _, said := s.sluice("cli changefeed update -c a --no-confirm --sink-uri", fmt.Sprintf(uri, 4)) // a wrong password
	s.downstream("ALTER USER 'sluice'@'%' IDENTIFIED BY 'hush-5'")
	if status, _, errs := s.sluice("cli changefeed resume -c a --no-confirm"); status == cli.StatusDone {
		s.until("its error is seen", func() bool { return s.feed("a").Error != nil })
	} else {
		said += errs
	}
	said += s.does("cli changefeed query -c a") + s.does("cli changefeed list -a") + s.does("cli changefeed query -c a -o table") + s.does("cli unsafe show-metadata")
	for _, path := range []string{"/debug/info", "/metrics", "/status", "/api/v2/changefeeds", "/api/v2/changefeeds/a", "/api/v2/changefeeds/a/meta_info",
		"/api/v2/changefeeds/a/status", "/api/v1/changefeeds/a", "/api/v2/unsafe/metadata"} {
		res, err := http.Get("http://" + s.address + path)
		must(t, err)
		text, err := io.ReadAll(res.Body)
		must(t, errors.Join(err, res.Body.Close()))
		if len(text) == 0 || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
		said += string(text)
	}
	text, err := os.ReadFile(s.log())
	must(t, err)
	said += string(text)
	for _, want := range []string{"sluice:xxxxx@", "changefeed runs", "Access denied"} { // the search looks at the right things
		if !strings.Contains(said, want) {
			t.Errorf("no %q in what was said", want)
		}
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "hush") {
			t.Error(line)
		}
	}
}

// Whoever sends back the URI that was shown leaves the secret as it is; and an update
// of something else does not end in an error about what is masked there.
func TestTheMaskedURIIsTheOldOne(t *testing.T) {
	w := newWorld(t)
	w.play(t, []string{"sluice cli changefeed create -c plain --sink-uri mysql://root:hush@db:3306/ --no-confirm"})
	w.play(t, []string{"sluice cli changefeed pause -c plain"})
	w.write(t, "f.toml", "case-sensitive = true")
	w.write(t, "empty.toml", "# nothing")
	for line, want := range map[string]string{
		"--sink-uri mysql://root:xxxxx@db:3306/":                   "status 0\nChangefeed plain is like that already.\n",
		"--sink-uri mysql://root:xxxxx@db:3306/ --config ~/f.toml": "status 0\nUpdate changefeed config successfully!\n",
		"--config ~/empty.toml":                                    "nothing to change: ~/empty.toml says nothing",
	} {
		out := w.play(t, []string{"sluice cli changefeed update -c plain --no-confirm " + line})
		if !strings.Contains(out, want) || strings.Contains(out, "sink_uri: ") {
			t.Errorf("%s:\n%s", line, out)
		}
	}
}
