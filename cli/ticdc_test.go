package cli_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/server"
)

// Every command of TiCDC's and every flag of it is known here: it means the same,
// or the answer says what there is instead.
func TestTiCDCsCommands(t *testing.T) {
	const (
		feed     = " -c --changefeed-id -n --namespace -k --keyspace"
		setting  = feed + " --sink-uri --config --target-ts --schema-registry --no-confirm! -v! --verbose! --tz --sort-engine --sort-dir --upstream-pd --upstream-ca --upstream-cert --upstream-key"
		upstream = " --upstream-pd --upstream-ca --upstream-cert --upstream-key"
		global   = " --server --pd --ca --cert --key --log-level --user --password"
	)
	for _, line := range []string{
		"server --pd --addr --advertise-addr --data-dir --gc-ttl --tz --cluster-id --log-file --log-level --config --ca --cert --key --cert-allowed-cn -x! --newarch! --owner-flush-interval --processor-flush-interval --sort-dir",
		"version",
		"redo apply --storage --sink-uri --tmp-dir --memory-limit --enable-profiling! --log-level",
		"redo meta --storage --tmp-dir",
		"cli changefeed create --start-ts --disable-gc-check!" + setting + global,
		"cli changefeed update" + setting + global,
		"cli changefeed pause" + feed + global,
		"cli changefeed remove" + feed + global,
		"cli changefeed resume --no-confirm! --overwrite-checkpoint-ts -v!" + feed + upstream + global,
		"cli changefeed list -a! --all! -n --namespace -k --keyspace" + global,
		"cli changefeed query -s! --simple!" + feed + global,
		"cli changefeed statistics -I --interval" + feed + global,
		"cli changefeed move-table -t --table-id -d --target-node-id --mode --wait!" + feed,
		"cli changefeed move-split-table -t --table-id -d --target-node-id --mode" + feed,
		"cli changefeed split-table-by-region-count -t --table-id --mode" + feed,
		"cli changefeed merge-table -t --table-id --mode" + feed,
		"cli capture list" + global,
		"cli processor list" + global,
		"cli processor query -p --capture-id" + feed + global,
		"cli tso query" + global,
		"cli configure-credentials",
		"cli unsafe reset --cluster-id --no-confirm!" + global,
		"cli unsafe show-metadata" + global,
		"cli unsafe delete-service-gc-safepoint" + upstream + global,
		"cli unsafe resolve-lock --region --ts" + upstream + global,
		"cli unsafe verify-gc-safepoint -k --legacy-safepoint!",
	} {
		words := strings.Fields(line)
		n := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
		if n < 0 {
			n = len(words)
		}
		for _, flag := range append([]string{""}, words[n:]...) {
			args := slices.Clone(words[:n])
			if name, alone := strings.CutSuffix(flag, "!"); flag != "" && alone {
				args = append(args, name)
			} else if flag != "" {
				args = append(args, name, "1")
			}
			if words[0] == "cli" {
				args = append(args, "--server", "127.0.0.1:1")
			}
			var out bytes.Buffer
			ctx, stop := context.WithTimeout(t.Context(), patience)
			cli.Main(ctx, args, cli.Env{In: strings.NewReader(""), Out: &out, Err: &out, Home: t.TempDir(),
				Getenv: func(string) string { return "" }, Now: time.Now, After: time.After,
				Serve: func(context.Context, server.Config) error { return nil }})
			stop()
			for _, unknown := range []string{"has no flag", "has no command", "shorthand flag"} {
				if strings.Contains(out.String(), unknown) {
					t.Errorf("%s: %s", strings.Join(args, " "), out.String())
				}
			}
		}
	}
}
