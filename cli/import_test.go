package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-cdc/sluice/cli"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/workload"
)

// pdEtcd is the etcd that PD would have, with what TiCDC keeps there.
type pdEtcd struct {
	*testing.T
	endpoint string
	client   *clientv3.Client
}

func newPDEtcd(t *testing.T) *pdEtcd {
	cfg := meta.Default()
	cfg.Backend, cfg.Cluster, cfg.Embedded.DataDir = meta.BackendEmbedded, "pd", t.TempDir()
	store, err := meta.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(store.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: store.Endpoints(), Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	e := &pdEtcd{T: t, endpoint: store.Endpoints()[0], client: client}
	e.put("/tidb/cdc/default/__cdc_meta__/meta/meta-version", "2")
	return e
}

func (e *pdEtcd) put(key, value string) {
	e.Helper()
	_, err := e.client.Put(e.Context(), key, value)
	must(e.T, err)
}

// feed is one of TiCDC's changefeeds; more is what its info says beside.
func (e *pdEtcd) feed(id, state, uri string, checkpoint tso.TS, more string) {
	e.Helper()
	namespace, name, _ := strings.Cut(id, "/")
	base := "/tidb/cdc/default/" + namespace + "/changefeed/"
	e.put(base+"info/"+name, fmt.Sprintf(`{"namespace":%q,"changefeed-id":%q,"sink-uri":%q,"create-time":"2024-01-02T03:04:05+08:00","start-ts":400,"target-ts":0,
		"admin-job-type":0,"sort-engine":"unified","state":%q,"creator-version":"v8.5.0","epoch":447000000000000002%s}`, namespace, name, uri, state, more))
	e.put(base+"status/"+name, fmt.Sprintf(`{"checkpoint-ts":%d,"min-table-barrier-ts":%d,"admin-job-type":0}`, checkpoint, checkpoint+1))
}

type imported struct {
	Feeds []struct {
		ID, Outcome string
		Notes       []string
		Tables      int
		Error       *struct {
			Code    string `json:"error_code"`
			Message string `json:"error_msg"`
		}
	} `json:"changefeeds"`
}

// outcomes are what came of an import, a line a changefeed.
func outcomes(t *testing.T, out string) string {
	t.Helper()
	var x imported
	must(t, json.Unmarshal([]byte(out), &x))
	var lines []string
	for _, f := range x.Feeds {
		line := f.ID + " " + f.Outcome
		if f.Error != nil {
			line += " " + f.Error.Code
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// What TiCDC has replicated up to a checkpoint is gone on with: its changefeed comes
// over stopped, holds what it has still to read, and, resumed, leaves nothing out.
func TestImport(t *testing.T) {
	s := newSite(t)
	s.serve("")
	// A downstream that has everything up to a checkpoint, as TiCDC would leave it.
	s.does("cli changefeed create -c before --no-confirm --sink-uri", s.down.URI())
	must(t, s.bank.Prepare(t.Context()))
	must(t, s.bank.Run(t.Context(), 100*time.Millisecond))
	s.caught("before")
	s.does("cli changefeed pause -c before")
	left := s.feed("before").CheckpointTS
	s.does("cli changefeed remove -c before")
	must(t, s.bank.Run(t.Context(), 100*time.Millisecond))

	e := newPDEtcd(t)
	e.put("/tidb/cdc/default/__cdc_meta__/capture/id-1", `{"id":"id-1","address":"10.0.0.9:8300"}`)
	uri := strings.Replace(s.down.URI(), "root@", "root:@", 1) + "?safe-mode=true"
	e.feed("default/bank", "stopped", uri, left, `,"config":{"memory-quota":1,"later-key":true,"filter":{"rules":["bank.*"]}}`)
	e.feed("default/over", "finished", "blackhole://", left, "")
	e.feed("default/queue", "stopped", "kafka://k:9092/t?protocol=open-protocol&sasl-password=hush", left, "")
	e.feed("default/runs", "normal", "blackhole://", left, "")
	e.feed("other/away", "failed", "blackhole://", left, `,"upstream-id":99,"error":{"code":"CDC:ErrX","message":"why"}`)
	e.feed("other/named", "stopped", "blackhole://", left, "")

	status, out, errs := s.sluice("cli changefeed import --from-ticdc --dry-run --pd", e.endpoint)
	for _, want := range []string{
		"TiCDC's cluster default: 6 changefeeds, 1 server alive\n", "default/bank: would be imported, stopped at TiCDC's checkpoint\n  stopped in TiCDC, checkpoint-ts " + fmt.Sprint(left),
		"  to mysql://root:xxxxx@", "\n  3 tables\n", "note: later-key is not known here and is not taken over\n", "note: memory-quota does nothing: ",
		"default/over: left out: it is over in TiCDC\n", "default/queue: NOT imported\n", `sink URI with scheme "kafka"`, "sasl-password=xxxxx", "remedy: ",
		"it is normal in TiCDC, and both would write: cdc cli changefeed pause -c runs, then import again", "its error there: [CDC:ErrX] why",
		"other/away follows the cluster 99", "Nothing was created.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status != cli.StatusFailed || !strings.Contains(errs, "3 changefeeds of 6 cannot come over") || strings.Contains(out+errs, "hush") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
	if all := s.does("cli changefeed list --all"); all != "[]\n" {
		t.Errorf("a dry run created %s", all)
	}
	if status, _, errs := s.sluice("cli changefeed import --from-ticdc --pd", e.endpoint); status != cli.StatusAborted {
		t.Errorf("nobody confirmed: %d %s", status, errs)
	}
	if got := s.changedMeanwhile(e, uri, left); got != "bank not-imported CDC:ErrChangefeedUpdateRefused" {
		t.Errorf("changed meanwhile: %s", got)
	}
	status, out, _ = s.sluice("cli changefeed import --from-ticdc --no-confirm -o json --pd", e.endpoint)
	want := "bank imported\nover over\nqueue not-imported CDC:ErrNotInThisRelease\nruns not-imported CDC:ErrChangefeedUpdateRefused\n" +
		"away not-imported CDC:ErrNotInThisRelease\nnamed imported"
	if got := outcomes(t, out); status != cli.StatusFailed || got != want {
		t.Errorf("%d\n%s", status, got)
	}
	if got := outcomes(t, s.does("cli changefeed import --from-ticdc --no-confirm -o json -c bank -n default --pd", e.endpoint)); got != "bank here-already" {
		t.Error(got)
	}
	_, err := e.client.Delete(t.Context(), "/tidb/cdc/default/__cdc_meta__/capture/id-1")
	must(t, err)
	if out := s.does("cli changefeed import --from-ticdc --no-confirm -c runs --pd", e.endpoint); !strings.Contains(out, "remove it there before one is started again") {
		t.Error(out)
	}
	s.goesOn(left)
}

// changedMeanwhile says yes to an import of what goes on in TiCDC just then.
func (s *site) changedMeanwhile(e *pdEtcd, uri string, left tso.TS) string {
	const more = `,"config":{"memory-quota":1,"later-key":true,"filter":{"rules":["bank.*"]}}`
	var stdout, stderr bytes.Buffer
	yes := readerFunc(func(b []byte) (int, error) {
		e.feed("default/bank", "normal", uri, left+1, more)
		return copy(b, "y\n"), nil
	})
	cli.Main(s.Context(), []string{"cli", "changefeed", "import", "--from-ticdc", "-o", "json", "-c", "bank", "--pd", e.endpoint, "--server", s.address},
		cli.Env{In: yes, Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }, Home: s.dir, Now: time.Now, After: time.After})
	e.feed("default/bank", "stopped", uri, left, more)
	if !strings.Contains(stderr.String(), "default/bank: ") {
		s.Errorf("asked without a word of what: %s", stderr.String())
	}
	return outcomes(s.T, stdout.String())
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// goesOn resumes what was imported, after GC has gone as far as it may.
func (s *site) goesOn(left tso.TS) {
	s.Helper()
	if f := s.feed("bank"); f.State != "stopped" || f.CheckpointTS != left.Prev() || !strings.Contains(string(f.Config), `"bank.*"`) || f.Error != nil {
		s.Errorf("%s at %d, want %d: %s %+v", f.State, f.CheckpointTS, left.Prev(), f.Config, f.Error)
	}
	if got := s.collect(); got >= left {
		s.Fatalf("GC may go to %d, the checkpoint is %d", got, left)
	}
	s.does("cli changefeed resume -c bank --no-confirm")
	must(s.T, s.bank.Run(s.Context(), 100*time.Millisecond))
	s.caught("bank")
	if sum, accounts := s.sum(); accounts != 50 || sum != accounts*workload.Opening {
		s.Errorf("%d in %d accounts", sum, accounts)
	}
}

// collect has TiDB collect all it may, and says up to where that is.
func (s *site) collect() tso.TS {
	s.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(s.pd(), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(s.T, err)
	defer func() { must(s.T, conn.Close()) }()
	res, err := pdpb.NewPDClient(conn).AdvanceTxnSafePoint(s.Context(), &pdpb.AdvanceTxnSafePointRequest{
		Header: &pdpb.RequestHeader{ClusterId: s.cluster.ClusterID()}, Target: uint64(s.cluster.TS())})
	must(s.T, err)
	return tso.TS(res.NewTxnSafePoint)
}

// What is typed wrong is answered before anything is asked.
func TestImportTyped(t *testing.T) {
	s := &site{T: t, dir: t.TempDir(), address: "127.0.0.1:1"}
	e := newPDEtcd(t)
	e.feed("default/bank", "stopped", "blackhole://", 400, "")
	for line, says := range map[string]string{
		"cli changefeed import":              "--from-ticdc is missing",
		"cli changefeed import --from-ticdc": "--pd is missing",
		"cli changefeed import --from-ticdc --ticdc-cluster-id east --pd " + e.endpoint:                                                    `TiCDC has no cluster "east" there, but default`,
		"cli changefeed import --from-ticdc -c bnak --pd " + e.endpoint:                                                                    `TiCDC has no changefeed "bnak", did you mean bank?`,
		"cli changefeed import --from-ticdc -k elsewhere --pd " + e.endpoint:                                                               `no changefeed in namespace "elsewhere"`,
		"cli changefeed import --from-ticdc --pd nonsense":                                                                                 `--pd "nonsense" is not host:port`,
		"cli changefeed import --from-ticdc --pd http://127.0.0.1:1":                                                                       "connect: connection refused",
		"cli changefeed import --from-ticdc --pd https://" + strings.TrimPrefix(e.endpoint, "http://") + " --ca /nowhere --dry-run -c ban": "nowhere",
	} {
		if status, out, errs := s.sluice(line); status == cli.StatusDone || !strings.Contains(errs, says) {
			t.Errorf("%s: %d\n%s%s", line, status, out, errs)
		}
	}
}
