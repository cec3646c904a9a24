package cli_test

import (
	"strings"
	"testing"
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
