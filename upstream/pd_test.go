package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// TestPDAway: while PD is away streams go on, a leader that moves to another store
// is found there, timestamps are refused in bounded time, and what has to be looked
// up waits for PD to return.
func TestPDAway(t *testing.T) {
	p := startPuppet(t, nil)
	split(p)
	cfg := p.config()
	cfg.SlowAfter, cfg.RenewAfter, cfg.SilentAfter = 20*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond
	cfg.TSOTimeout = 800 * time.Millisecond // longer than anybody may be silent
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f, g := p.kv[1].feed(t), p.kv[2].feed(t)
	q, r := f.request(), g.request()
	p.pd.shut()
	began := time.Now()
	if ts, err := c.TS(t.Context()); !cdcerr.PDUnreachable.Is(err) {
		t.Errorf("got %d, %v", ts, err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("a timestamp was waited for for %v", took)
	}
	f.rows(q, initialized)
	f.resolved(20, q)
	g.rows(r, initialized)
	g.resolved(20, r)
	w.until(20)

	// The store's stream breaks too. Its region's leader is elsewhere by now, which
	// the store says when it is back: nothing of it needs PD.
	g.fail(r, &cdcpb.Error{NotLeader: &errorpb.NotLeader{RegionId: 2, Leader: &metapb.Peer{Id: 21, StoreId: 1}}})
	r = f.request()
	if r.RegionId != 2 || r.CheckpointTs != 20 {
		t.Errorf("request %v", r)
	}
	select {
	case <-g.server.Context().Done(): // no subscription needs it: closed or not, as it comes
	default:
	}
	f.rows(r, initialized)
	f.resolved(30, r)
	f.resolved(30, q)
	w.until(30)
	// A stream that breaks, and whose regions have to be looked up, waits.
	f.end(nil)
	select {
	case <-p.kv[1].feeds:
		t.Error("a stream was opened to regions that nobody can look up")
	case <-time.After(100 * time.Millisecond):
	}
	if n := c.Counts(); n.Renewed != 0 || n.StreamsSilent != 0 {
		t.Errorf("somebody was blamed: %+v", n)
	}
	p.setRegions(puppetRegion(1, 2, 1, "", ""))
	p.pd.open()
	f = p.kv[1].feed(t)
	q = f.request()
	if q.CheckpointTs != 30 {
		t.Errorf("request %v", q)
	}
	f.rows(q, initialized)
	f.resolved(40, q)
	w.until(40)
	eventually(t, "PD gives timestamps again", func() bool { _, err := c.TS(t.Context()); return err == nil })
}

// TestPDLeader: another PD leads; then the first one is gone altogether.
func TestPDLeader(t *testing.T) {
	p := startPuppet(t, nil)
	p.startPD(t)
	c := open(t, p.config())
	lead := func(i int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leader = i
	}
	last, err := c.TS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lead(1)
	p.pd.shut() // who leads no longer throws its clients out
	p.pd.open()
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	p.pd.shut()
	f.fail(q, &cdcpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}) // to be looked up
	q = f.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	w.until(20)
	ts, err := c.TS(t.Context())
	if err != nil || ts <= last {
		t.Errorf("got %d after %d, %v", ts, last, err)
	}
}

// TestStoreWhilePDIsAway: a store whose address is known is reached without PD.
func TestStoreWhilePDIsAway(t *testing.T) {
	p := startPuppet(t, nil)
	c := open(t, p.config())
	if _, err := c.storeAddress(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	p.pd.shut()
	if got, err := c.storeAddress(t.Context(), 2); err != nil || got != p.kv[2].door.Addr().String() {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := c.storeAddress(t.Context(), 1); !cdcerr.PDUnreachable.Is(err) {
		t.Errorf("got %q, %v", got, err)
	}
	p.pd.open()
	// PD is there and says that the store is too old, or gone: that counts.
	p.mu.Lock()
	p.stores[1].Version = "5.0.0"
	p.mu.Unlock()
	eventually(t, "PD answers again", func() bool {
		_, err := c.storeAddress(t.Context(), 2)
		return cdcerr.VersionIncompatible.Is(err)
	})
	if _, err := c.storeAddress(t.Context(), 9); !cdcerr.PDUnreachable.Is(err) || !strings.Contains(err.Error(), "invalid store ID 9") {
		t.Errorf("got %v", err)
	}
}

// TestOtherCluster: endpoints of two clusters, of another one than is wanted, and
// an address that another cluster's PD took over.
func TestOtherCluster(t *testing.T) {
	p, other := startPuppet(t, nil), startPuppet(t, nil)
	other.cluster = 9
	cfg := p.config()
	cfg.PD = append(cfg.PD, other.address)
	if _, err := Open(t.Context(), cfg); !cdcerr.ClusterIDMismatch.Is(err) || !strings.Contains(err.Error(), "cluster 9, not to 4711") && !strings.Contains(err.Error(), "cluster 4711, not to 9") {
		t.Errorf("got %v", err)
	}
	cfg = p.config()
	cfg.ClusterID = 9
	if _, err := Open(t.Context(), cfg); !cdcerr.ClusterIDMismatch.Is(err) {
		t.Errorf("got %v", err)
	}
	cfg.ClusterID = puppetCluster
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	p.mu.Lock()
	p.cluster = 9
	p.mu.Unlock()
	f.fail(q, &cdcpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: 1}})
	if err := w.end(); !cdcerr.ClusterIDMismatch.Is(err) {
		t.Errorf("ended with %v", err)
	}
}

// TestRotation replaces the authority and all certificates while streams are open:
// connections made afterwards use the new ones, to PD and to stores.
func TestRotation(t *testing.T) {
	first := newAuthority(t)
	serving := make(chan *tls.Config, 1) // what the server uses now
	use := func(a *authority) {
		pair, err := tls.LoadX509KeyPair(a.issue("server"))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(a.cert)
		select {
		case <-serving:
		default:
		}
		serving <- &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	use(first)
	p := startPuppet(t, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := <-serving
		serving <- now
		return now, nil
	}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, os.ErrNotExist }})
	cert, key := first.issue("sluice")
	cfg := p.config()
	cfg.TLS = TLS{CA: filepath.Join(first.dir, "ca.pem"), Cert: cert, Key: key, AllowedCN: []string{"server"}}
	c := open(t, cfg)
	w := subscribe(t, c, Subscription{Span: keys("a", "z"), StartTS: 10}, nil)
	f := p.kv[1].feed(t)
	q := f.request()
	f.rows(q, initialized)
	f.resolved(20, q)
	w.until(20)

	second := newAuthority(t)
	use(second)
	newCert, newKey := second.issue("sluice")
	for from, to := range map[string]string{filepath.Join(second.dir, "ca.pem"): cfg.TLS.CA, newCert: cert, newKey: key} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []*door{p.pd, p.kv[1].door} {
		d.shut()
		d.open()
	}
	f = p.kv[1].feed(t)
	q = f.request()
	f.rows(q, initialized)
	f.resolved(30, q)
	w.until(30)
	if _, err := c.TS(t.Context()); err != nil {
		t.Error(err)
	}
}
