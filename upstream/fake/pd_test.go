package fake_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
	gcopt "github.com/tikv/pd/client/clients/gc"
	"github.com/tikv/pd/client/clients/router"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"

	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake"
)

// openPD connects TiKV's own PD client.
func openPD(t *testing.T, c *fake.Cluster, sec pd.SecurityOption) pd.Client {
	t.Helper()
	begin := time.Now()
	cl, err := pd.NewClientWithContext(within(t, guard), caller.TestComponent, c.PD(), sec, opt.WithCustomTimeoutOption(guard/2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if took := time.Since(begin); took > guard/3 { // less than a call without an answer takes
		t.Errorf("the PD client took %v to start", took)
	}
	return cl
}

func TestPDClientFindsItsWay(t *testing.T) {
	c := run(t, fake.Config{Stores: 4})
	c.Split([]byte("t\x80\x00\x00\x00\x00\x00\x00\x64"))
	ctx := within(t, guard)
	cl := openPD(t, c, pd.SecurityOption{})
	if id := cl.GetClusterID(ctx); id != c.ClusterID() {
		t.Errorf("cluster id %d, want %d", id, c.ClusterID())
	}
	stores, err := cl.GetAllStores(ctx, opt.WithExcludeTombstone())
	if err != nil || len(stores) != 4 || stores[0].Version != "8.5.0" {
		t.Fatalf("stores %v, %v", stores, err)
	}
	if s, err := cl.GetStore(ctx, stores[2].Id); err != nil || s.Address != stores[2].Address {
		t.Errorf("store %v, %v", s, err)
	}
	regions, err := cl.BatchScanRegions(ctx, []router.KeyRange{{StartKey: []byte(span.EncodeKey([]byte("m")))}}, 1024)
	if err != nil {
		t.Fatal(err)
	}
	leaders := map[uint64]bool{}
	for i, r := range regions {
		leaders[r.Leader.StoreId] = true
		if i > 0 && string(regions[i-1].Meta.EndKey) != string(r.Meta.StartKey) {
			t.Errorf("a hole before region %v", r.Meta)
		}
		byKey, err := cl.GetRegion(ctx, r.Meta.StartKey)
		if err != nil || byKey.Meta.Id != r.Meta.Id {
			t.Errorf("by key: %v, %v, want %v", byKey, err, r.Meta)
		}
		byID, err := cl.GetRegionByID(ctx, r.Meta.Id)
		if err != nil || string(byID.Meta.StartKey) != string(r.Meta.StartKey) {
			t.Errorf("by id: %v, %v, want %v", byID, err, r.Meta)
		}
		if i > 0 {
			if prev, err := cl.GetPrevRegion(ctx, r.Meta.StartKey); err != nil || prev.Meta.Id != regions[i-1].Meta.Id {
				t.Errorf("before %v: %v, %v", r.Meta, prev, err)
			}
		}
	}
	if len(regions) != 5 || len(leaders) < 2 {
		t.Errorf("%d regions led by %d stores", len(regions), len(leaders))
	}
	some, err := cl.ScanRegions(ctx, nil, nil, 2) //nolint:staticcheck // the older call must work too
	if err != nil || len(some) != 2 {
		t.Errorf("scan with a limit: %v, %v", some, err)
	}
}

func TestTimestampsAreHandedOutOnce(t *testing.T) {
	begin := time.Now()
	c := run(t, fake.Config{})
	ctx := within(t, guard)
	cl := openPD(t, c, pd.SecurityOption{})
	var last tso.TS
	for range 2000 {
		p, l, err := cl.GetTS(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if ts := tso.New(p, l); ts <= last {
			t.Fatalf("%d after %d", ts, last)
		} else {
			last = ts
		}
	}
	if at := last.Time(); at.Before(begin.Add(-10*time.Second)) || at.After(time.Now().Add(10*time.Second)) {
		t.Errorf("the clock of an empty cluster is at %v, the wall's went from %v to %v", at, begin, time.Now())
	}
}

func TestServiceSafePoints(t *testing.T) {
	start := tso.New(1_700_000_000_000, 0)
	c := run(t, fake.Config{StartTS: start})
	ctx := within(t, guard)
	cl := openPD(t, c, pd.SecurityOption{})
	update := func(id string, ttl int64, at tso.TS) tso.TS {
		t.Helper()
		got, err := cl.UpdateServiceGCSafePoint(ctx, id, ttl, uint64(at)) //nolint:staticcheck // what a classic PD has
		if err != nil {
			t.Fatal(err)
		}
		return tso.TS(got)
	}
	before := update("cdc", 3600, start)
	if before >= start {
		t.Fatalf("the txn safe point is %d, not below the start %d", before, start)
	}
	if got := update("gc_worker", math.MaxInt64, start+100); got != start {
		t.Errorf("gc_worker got to %d past the barrier at %d", got, start)
	}
	if got := update("late", 3600, start-1); got != start {
		t.Errorf("a safe point that is too late: minimum %d, want %d", got, start)
	}
	update("cdc", 0, math.MaxUint64)
	if got := update("gc_worker", math.MaxInt64, start+100); got != start+100 {
		t.Errorf("the barrier is gone, and gc_worker got to %d", got)
	}
	if got := update("short", 3600, start+150); got != start+100 {
		t.Errorf("minimum %d, want %d", got, start+100)
	}
	gc := cl.GetGCStatesClient(math.MaxUint32)
	if _, err := gc.SetGCBarrier(ctx, "b", uint64(start+99), time.Hour); err == nil || !strings.Contains(err.Error(), "ErrGCBarrierTSBehindTxnSafePoint") {
		t.Errorf("a barrier behind the txn safe point: %v", err)
	}
	if _, err := gc.SetGCBarrier(ctx, "b", uint64(start+120), time.Hour); err != nil {
		t.Error(err)
	}
	state, err := gc.GetGCState(ctx, gcopt.ExcludeGCBarriers(false))
	if err != nil || state.TxnSafePoint != uint64(start+100) {
		t.Errorf("state %+v, %v", state, err)
	}
	if barriers, err := state.GetGCBarriers(); err != nil || len(barriers) != 2 {
		t.Errorf("barriers %v, %v", barriers, err)
	}
	if b, err := gc.DeleteGCBarrier(ctx, "b"); err != nil || b == nil || b.BarrierTS != uint64(start+120) {
		t.Errorf("deleted %+v, %v", b, err)
	}
}

func TestAnotherClustersRequestsAreRefused(t *testing.T) {
	cl := newClient(t, run(t, fake.Config{}))
	ctx := within(t, guard)
	_, err := cl.pd.GetAllStores(ctx, &pdpb.GetAllStoresRequest{Header: &pdpb.RequestHeader{ClusterId: 5}})
	if err == nil || !strings.Contains(err.Error(), "mismatch cluster id") {
		t.Errorf("GetAllStores: %v", err)
	}
	stream, err := cl.pd.Tso(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pdpb.TsoRequest{Header: &pdpb.RequestHeader{ClusterId: 5}, Count: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), "mismatch cluster id") {
		t.Errorf("Tso: %v", err)
	}
	if _, err := cl.pd.GetMembers(ctx, &pdpb.GetMembersRequest{}); err != nil {
		t.Errorf("GetMembers must answer anyone: %v", err)
	}
}

func TestPDSpeaksHTTPOnTheSamePort(t *testing.T) {
	c := run(t, fake.Config{Version: "7.5.1"})
	checkHTTP(t, c, http.DefaultTransport.(*http.Transport).Clone(), "v7.5.1")
}

func checkHTTP(t *testing.T, c *fake.Cluster, tr *http.Transport, version string) {
	t.Helper()
	defer tr.CloseIdleConnections()
	get := func(path string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t, guard), http.MethodGet, c.PD()[0]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, resp.Status, err)
		}
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatalf("%s: %v: %s", path, err, body)
		}
	}
	var v struct{ Version string }
	if get("/pd/api/v1/version", &v); v.Version != version {
		t.Errorf("version %q", v.Version)
	}
	var h []struct{ Health bool }
	if get("/pd/api/v1/health", &h); len(h) != 1 || !h[0].Health {
		t.Errorf("health %v", h)
	}
}

func TestEverythingOverTLS(t *testing.T) {
	ca, err := fake.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.Server()
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, fake.Config{TLS: server})
	dir := t.TempDir()
	files, err := ca.WriteClient(dir)
	if err != nil {
		t.Fatal(err)
	}
	sec := pd.SecurityOption{CAPath: files.CA, CertPath: files.Cert, KeyPath: files.Key}
	cl := openPD(t, c, sec)
	if _, _, err := cl.GetTS(within(t, guard)); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{pair}}
	checkHTTP(t, c, tr, "v8.5.0")
	// Without a certificate of this authority nobody gets in.
	tr = http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{RootCAs: ca.Pool()}
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, c.PD()[0]+"/pd/api/v1/version", nil)
	if resp, err := (&http.Client{Transport: tr}).Do(req); err == nil {
		must(t, resp.Body.Close())
		t.Error("answered a client without a certificate")
	}
	if _, err := os.Stat(filepath.Join(dir, "ca.pem")); err != nil {
		t.Error(err)
	}
}
