package upstream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/cdcpb"
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
	tls     *tls.Config
	address string

	mu        sync.Mutex
	version   string          // guarded by mu
	stores    []*metapb.Store // guarded by mu
	regions   []*pdpb.Region  // guarded by mu; in key order
	safepoint uint64          // guarded by mu
	oldPD     bool            // guarded by mu: knows no BatchScanRegions
	lookups   int             // guarded by mu
	services  map[string]uint64

	locking sync.Mutex // guards what a test keeps of locks, which stores share

	kv map[uint64]*puppetStore
}

// puppetStore is one TiKV: a test takes its streams and answers its reads.
type puppetStore struct {
	tikvpb.UnimplementedTikvServer
	cdcpb.UnimplementedChangeDataServer
	feeds chan *puppetFeed
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
	p := &puppet{tls: tlsConfig, version: "v8.5.0", services: map[string]uint64{}, kv: map[uint64]*puppetStore{}}
	g := grpc.NewServer()
	pdpb.RegisterPDServer(g, p)
	meta_storagepb.RegisterMetaStorageServer(g, p)
	mux := http.NewServeMux()
	mux.HandleFunc("/pd/api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"version": p.version})
	})
	p.address, _ = p.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			g.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
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
	address, stop := p.serve(t, g)
	s.stop = stop
	p.kv[id] = s
	p.stores = append(p.stores, &metapb.Store{Id: id, Address: address, Version: "8.5.0"})
}

// serve listens on loopback with HTTP/1 and HTTP/2.
func (p *puppet) serve(t testing.TB, h http.Handler) (string, context.CancelFunc) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	return l.Addr().String(), stop
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

func (p *puppet) header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: puppetCluster} }

func (p *puppet) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	scheme := "http://"
	if p.tls != nil {
		scheme = "https://"
	}
	m := &pdpb.Member{Name: "pd", MemberId: 1, ClientUrls: []string{scheme + p.address}}
	return &pdpb.GetMembersResponse{Header: p.header(), Members: []*pdpb.Member{m}, Leader: m, EtcdLeader: m}, nil
}

func (p *puppet) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{Header: p.header(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}

func (p *puppet) Tso(s pdpb.PD_TsoServer) error {
	for n := int64(1); ; n++ {
		req, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		ts := &pdpb.Timestamp{Physical: 1_700_000_000_000 + n, Logical: int64(req.GetCount())}
		if err := s.Send(&pdpb.TsoResponse{Header: p.header(), Count: req.GetCount(), Timestamp: ts}); err != nil {
			return err
		}
	}
}

func (p *puppet) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.GetAllStoresResponse{Header: p.header(), Stores: slices.Clone(p.stores)}, nil
}

func (p *puppet) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stores {
		if s.Id == req.StoreId {
			return &pdpb.GetStoreResponse{Header: p.header(), Store: s}, nil
		}
	}
	return nil, status.Errorf(codes.Unknown, "invalid store ID %d, not found", req.StoreId)
}

// within are the regions that share keys with a range.
func (p *puppet) within(start, end []byte, limit int32) []*pdpb.Region {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookups++
	var out []*pdpb.Region
	want := span.Span{Start: span.Key(start), End: span.Key(end)}
	for _, r := range p.regions {
		has := span.Span{Start: span.Key(r.Region.StartKey), End: span.Key(r.Region.EndKey)}
		if want.Overlaps(has) && len(out) < int(limit) {
			out = append(out, r)
		}
	}
	return out
}

func (p *puppet) BatchScanRegions(_ context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	p.mu.Lock()
	old := p.oldPD
	p.mu.Unlock()
	if old {
		return nil, status.Error(codes.Unimplemented, "unknown method BatchScanRegions")
	}
	r := req.Ranges[0]
	return &pdpb.BatchScanRegionsResponse{Header: p.header(), Regions: p.within(r.StartKey, r.EndKey, req.Limit)}, nil
}

func (p *puppet) ScanRegions(_ context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	return &pdpb.ScanRegionsResponse{Header: p.header(), Regions: p.within(req.StartKey, req.EndKey, req.Limit)}, nil
}

func (p *puppet) UpdateServiceGCSafePoint(_ context.Context, req *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case req.TTL <= 0:
		delete(p.services, string(req.ServiceId))
	case req.SafePoint >= p.safepoint:
		p.services[string(req.ServiceId)] = req.SafePoint
	}
	least := p.safepoint
	if least == 0 {
		least = req.SafePoint
	}
	return &pdpb.UpdateServiceGCSafePointResponse{Header: p.header(), ServiceId: req.ServiceId, TTL: req.TTL, MinSafePoint: least}, nil
}

func (p *puppet) Get(context.Context, *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	return &meta_storagepb.GetResponse{Header: &meta_storagepb.ResponseHeader{}}, nil
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
	return s.scan(q), nil
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
const patience = 20 * time.Second

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
