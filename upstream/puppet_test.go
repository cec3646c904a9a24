package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/span"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const puppetCluster = 4711

// puppet is a PD and two TiKV stores behind one listener each, that say only
// what a test makes them say.
type puppet struct {
	pdpb.UnimplementedPDServer
	meta_storagepb.UnimplementedMetaStorageServer
	keyspacepb.UnimplementedKeyspaceServer
	tls     *tls.Config
	address string
	pd      *door // of the first PD
	cluster uint64

	mu        sync.Mutex
	members   []*puppetMember   // guarded by mu
	leader    int               // guarded by mu; among the members
	version   string            // guarded by mu
	stores    []*metapb.Store   // guarded by mu
	regions   []*pdpb.Region    // guarded by mu; in key order
	safepoint uint64            // guarded by mu
	oldPD     bool              // guarded by mu: knows no BatchScanRegions, and no GC barriers
	noGC      bool              // guarded by mu: answers nothing about GC
	scopes    []uint32          // guarded by mu: keyspaces whose GC was asked about
	lookups   int               // guarded by mu
	ticks     atomic.Int64      // timestamps given, a millisecond each
	services  map[string]uint64 // guarded by mu
	spaces    map[string]*keyspacepb.KeyspaceMeta

	locking sync.Mutex // guards what a test keeps of locks, which stores share

	kv map[uint64]*puppetStore
}

// puppetStore is one TiKV: a test takes its streams and answers its reads.
type puppetStore struct {
	tikvpb.UnimplementedTikvServer
	cdcpb.UnimplementedChangeDataServer
	feeds chan *puppetFeed
	door  *door
	stop  context.CancelFunc

	mu     sync.Mutex
	scan   func(*kvrpcpb.ScanRequest) *kvrpcpb.ScanResponse // guarded by mu
	get    func(*kvrpcpb.GetRequest) *kvrpcpb.GetResponse   // guarded by mu
	refuse error                                            // guarded by mu: for new streams
	locks  func(req any) any                                // guarded by mu: answers what is asked about locks
}

// puppetFeed is one change stream from the server's side.
type puppetFeed struct {
	t      testing.TB
	reqs   chan *cdcpb.ChangeDataRequest
	server cdcpb.ChangeData_EventFeedV2Server
	done   chan error // what the stream ends with
}

// startPuppet serves until the test ends. Region 1 covers everything, led by store 1.
func startPuppet(t testing.TB, tlsConfig *tls.Config) *puppet {
	p := &puppet{tls: tlsConfig, cluster: puppetCluster, version: "v8.5.0", services: map[string]uint64{}, kv: map[uint64]*puppetStore{}}
	p.pd = p.startPD(t)
	p.address = p.pd.Addr().String()
	for id := range uint64(2) {
		p.startStore(t, id+1)
	}
	p.setRegions(puppetRegion(1, 1, 1, "", ""))
	return p
}

func (p *puppet) startStore(t testing.TB, id uint64) {
	s := &puppetStore{feeds: make(chan *puppetFeed, 16)}
	g := grpc.NewServer()
	tikvpb.RegisterTikvServer(g, s)
	cdcpb.RegisterChangeDataServer(g, s)
	s.door, s.stop = p.serve(t, g)
	p.kv[id] = s
	p.stores = append(p.stores, &metapb.Store{Id: id, Address: s.door.Addr().String(), Version: "8.5.0"})
}

// door is a listener that can be shut: who is inside is thrown out, and nobody
// comes in until it is opened again.
type door struct {
	net.Listener
	mu     sync.Mutex
	isShut bool                  // guarded by mu
	inside map[net.Conn]struct{} // guarded by mu
}

func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		if !d.isShut {
			d.inside[c] = struct{}{}
			d.mu.Unlock()
			return c, nil
		}
		d.mu.Unlock()
		_ = c.Close()
	}
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isShut = true
	for c := range d.inside {
		_ = c.Close()
	}
	clear(d.inside)
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isShut = false
}

// serve listens on loopback with HTTP/1 and HTTP/2.
func (p *puppet) serve(t testing.TB, h http.Handler) (*door, context.CancelFunc) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &door{Listener: at, inside: map[net.Conn]struct{}{}}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: h, Protocols: &protocols, TLSConfig: p.tls.Clone()}
	ctx, cancel := context.WithCancel(context.Background())
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	done := make(chan error, 1)
	go func() {
		if p.tls != nil {
			done <- srv.ServeTLS(l, "", "")
			return
		}
		done <- srv.Serve(l)
	}()
	stop := func() {
		cancel()
		_ = srv.Close()
	}
	t.Cleanup(func() {
		stop()
		<-done
	})
	return l, stop
}

func puppetRegion(id, version, store uint64, start, end span.Key) *pdpb.Region {
	peers := []*metapb.Peer{{Id: id*10 + 1, StoreId: 1}, {Id: id*10 + 2, StoreId: 2}}
	r := &pdpb.Region{
		Region: &metapb.Region{Id: id, StartKey: []byte(start), EndKey: []byte(end),
			RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: version}, Peers: peers},
	}
	if store != 0 {
		r.Leader = peers[store-1]
	}
	return r
}

func (p *puppet) setRegions(r ...*pdpb.Region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.regions = r
}

func (s *puppetStore) EventFeedV2(server cdcpb.ChangeData_EventFeedV2Server) error {
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	md, _ := metadata.FromIncomingContext(server.Context())
	if got := md.Get("features"); !slices.Equal(got, []string{"stream-multiplexing"}) {
		return status.Errorf(codes.Unimplemented, "features %q", got)
	}
	// A request may wait for a test that looks at others first.
	f := &puppetFeed{reqs: make(chan *cdcpb.ChangeDataRequest, 64), server: server, done: make(chan error, 1)}
	s.feeds <- f
	go func() {
		for {
			q, err := server.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) || server.Context().Err() != nil {
					err = nil
				}
				f.end(err)
				return
			}
			f.reqs <- q
		}
	}()
	return <-f.done
}

// end ends the stream from the server's side; only the first end counts.
func (f *puppetFeed) end(err error) {
	select {
	case f.done <- err:
	default:
	}
}

func (s *puppetStore) KvScan(_ context.Context, q *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp := s.scan(q); resp != nil {
		return resp, nil
	}
	return nil, status.Error(codes.ResourceExhausted, "trying to send message larger than max")
}

func (s *puppetStore) KvGet(_ context.Context, q *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(q), nil
}

func ask[T any](s *puppetStore, req any) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks == nil {
		var none T
		return none, status.Error(codes.Unimplemented, "no locks here")
	}
	return s.locks(req).(T), nil
}

func (s *puppetStore) KvScanLock(_ context.Context, q *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return ask[*kvrpcpb.ScanLockResponse](s, q)
}

func (s *puppetStore) KvCheckTxnStatus(_ context.Context, q *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	return ask[*kvrpcpb.CheckTxnStatusResponse](s, q)
}

func (s *puppetStore) KvCheckSecondaryLocks(_ context.Context, q *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	return ask[*kvrpcpb.CheckSecondaryLocksResponse](s, q)
}

func (s *puppetStore) KvResolveLock(_ context.Context, q *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	return ask[*kvrpcpb.ResolveLockResponse](s, q)
}

func (s *puppetStore) KVPessimisticRollback(_ context.Context, q *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	return ask[*kvrpcpb.PessimisticRollbackResponse](s, q)
}

// patience bounds every wait of these tests: long enough for any machine.
const patience = 3 * time.Minute

// feed takes the next stream that was opened to the store.
func (s *puppetStore) feed(t testing.TB) *puppetFeed {
	t.Helper()
	select {
	case f := <-s.feeds:
		f.t = t
		return f
	case <-time.After(patience):
		t.Fatal("no stream was opened")
		return nil
	}
}

// request takes the next request of a stream.
func (f *puppetFeed) request() *cdcpb.ChangeDataRequest {
	f.t.Helper()
	select {
	case q := <-f.reqs:
		return q
	case <-time.After(patience):
		f.t.Fatal("no request came")
		return nil
	}
}

func (f *puppetFeed) send(e *cdcpb.ChangeDataEvent) {
	f.t.Helper()
	if err := f.server.Send(e); err != nil {
		f.t.Fatal(err)
	}
}

// rows sends rows for the registration of q.
func (f *puppetFeed) rows(q *cdcpb.ChangeDataRequest, rows ...*cdcpb.Event_Row) {
	f.t.Helper()
	f.send(&cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{{RegionId: q.RegionId, RequestId: q.RequestId,
		Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: rows}}}}})
}

// resolved sends a resolved-ts for the registrations, which share a request id.
func (f *puppetFeed) resolved(ts uint64, qs ...*cdcpb.ChangeDataRequest) {
	f.t.Helper()
	r := &cdcpb.ResolvedTs{Ts: ts, RequestId: qs[0].RequestId}
	for _, q := range qs {
		r.Regions = append(r.Regions, q.RegionId)
	}
	f.send(&cdcpb.ChangeDataEvent{ResolvedTs: r})
}

// fail ends a registration.
func (f *puppetFeed) fail(q *cdcpb.ChangeDataRequest, e *cdcpb.Error) {
	f.t.Helper()
	f.send(&cdcpb.ChangeDataEvent{Events: []*cdcpb.Event{{RegionId: q.RegionId, RequestId: q.RequestId,
		Event: &cdcpb.Event_Error{Error: e}}}})
}

var initialized = &cdcpb.Event_Row{Type: cdcpb.Event_INITIALIZED}

func committed(key, value string, start, commit uint64) *cdcpb.Event_Row {
	return &cdcpb.Event_Row{Type: cdcpb.Event_COMMITTED, OpType: cdcpb.Event_Row_PUT, Key: []byte(key), Value: []byte(value), StartTs: start, CommitTs: commit}
}

func prewrite(key, value string, start uint64) *cdcpb.Event_Row {
	return &cdcpb.Event_Row{Type: cdcpb.Event_PREWRITE, OpType: cdcpb.Event_Row_PUT, Key: []byte(key), Value: []byte(value), StartTs: start}
}

func commit(key string, start, commit uint64) *cdcpb.Event_Row {
	return &cdcpb.Event_Row{Type: cdcpb.Event_COMMIT, OpType: cdcpb.Event_Row_PUT, Key: []byte(key), StartTs: start, CommitTs: commit}
}

// held is what PD keeps from being collected, by service.
func (p *puppet) held() map[string]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.services)
}
