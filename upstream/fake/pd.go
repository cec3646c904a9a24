package fake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	memberID   = 1
	memberName = "pd-1"
)

// pdServer is one PD, at once the only member and the leader. gRPC and HTTP
// share its port, as in a real PD.
type pdServer struct {
	*pdpb.UnimplementedPDServer
	cluster *Cluster
	lis     net.Listener
	url     string
	http    *http.Server
	grpc    *grpc.Server
	serving sync.WaitGroup // requests

	mu sync.Mutex // guards gc
	gc gcState
}

func newPD(c *Cluster, lis net.Listener) *pdServer {
	p := &pdServer{
		cluster: c, lis: lis, url: "http://" + lis.Addr().String(),
		gc: gcState{txnSafePoint: c.baseTS(), gcSafePoint: c.baseTS(), barriers: map[string]barrier{}},
	}
	p.grpc = grpc.NewServer(
		grpc.ChainUnaryInterceptor(p.checkUnary),
		grpc.ForceServerCodecV2(newCodec()),
	)
	pdpb.RegisterPDServer(p.grpc, p)
	keyspacepb.RegisterKeyspaceServer(p.grpc, keyspaces{pd: p})
	// Without this service a client takes five seconds to start: it asks for
	// configuration that it then does without.
	meta_storagepb.RegisterMetaStorageServer(p.grpc, metaStorage{pd: p})
	healthpb.RegisterHealthServer(p.grpc, health.NewServer())
	p.http = &http.Server{
		Handler: p.routes(), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols),
		ErrorLog: log.New(io.Discard, "", 0), // clients without the right certificate are their own problem
	}
	p.http.Protocols.SetHTTP1(true)
	if c.cfg.TLS != nil {
		p.url = "https://" + lis.Addr().String()
		p.http.Protocols.SetHTTP2(true)
		p.http.TLSConfig = tlsFor(c.cfg.TLS)
	} else {
		p.http.Protocols.SetUnencryptedHTTP2(true)
	}
	return p
}

func (p *pdServer) serve() error {
	if p.http.TLSConfig != nil {
		return p.http.ServeTLS(p.lis, "", "")
	}
	return p.http.Serve(p.lis)
}

func (p *pdServer) stop() error {
	err := p.http.Close()
	p.grpc.Stop()
	p.serving.Wait()
	return err
}

// routes sends gRPC calls to the services and answers the few HTTP paths.
func (p *pdServer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pd/api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"version": "v" + p.cluster.cfg.Version})
	})
	mux.HandleFunc("GET /pd/api/v1/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, []map[string]any{{
			"name": memberName, "member_id": memberID, "client_urls": []string{p.url}, "health": true,
		}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serving.Add(1)
		defer p.serving.Done()
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			p.grpc.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	// A client that went away has no use for the error.
	_ = json.NewEncoder(w).Encode(v)
}

// anyCluster are the calls with which a client finds out the cluster id.
var anyCluster = map[string]bool{"/pdpb.PD/GetMembers": true, "/pdpb.PD/GetClusterInfo": true}

// checkUnary refuses requests for another cluster, as PD does.
func (p *pdServer) checkUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r, ok := req.(interface{ GetHeader() *pdpb.RequestHeader }); ok && !anyCluster[info.FullMethod] {
		if err := p.checkHeader(r.GetHeader()); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}

func (p *pdServer) checkHeader(h *pdpb.RequestHeader) error {
	if h.GetClusterId() != p.cluster.cfg.ClusterID {
		return status.Errorf(codes.FailedPrecondition, "mismatch cluster id, need %d but got %d", p.cluster.cfg.ClusterID, h.GetClusterId())
	}
	return nil
}

func (p *pdServer) header() *pdpb.ResponseHeader {
	return &pdpb.ResponseHeader{ClusterId: p.cluster.cfg.ClusterID}
}

func (p *pdServer) refused(e *pdpb.Error) *pdpb.ResponseHeader {
	h := p.header()
	h.Error = e
	return h
}

// GetMembers names the one member.
func (p *pdServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	m := &pdpb.Member{Name: memberName, MemberId: memberID, PeerUrls: []string{p.url}, ClientUrls: []string{p.url}}
	return &pdpb.GetMembersResponse{Header: p.header(), Members: []*pdpb.Member{m}, Leader: m, EtcdLeader: m}, nil
}

// GetClusterInfo says that this PD hands out timestamps itself.
func (p *pdServer) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{
		Header: p.header(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE},
	}, nil
}

// Tso hands out timestamps, each of them once.
func (p *pdServer) Tso(stream pdpb.PD_TsoServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.checkHeader(req.GetHeader()); err != nil {
			return err
		}
		if req.Count == 0 || req.Count >= 1<<18 {
			return status.Errorf(codes.InvalidArgument, "count %d", req.Count)
		}
		ts, err := p.cluster.clock.Take(stream.Context(), req.Count)
		if err != nil {
			return err
		}
		err = stream.Send(&pdpb.TsoResponse{
			Header: p.header(), Count: req.Count,
			Timestamp: &pdpb.Timestamp{Physical: ts.Physical(), Logical: ts.Logical()},
		})
		if err != nil {
			return err
		}
	}
}

// GetClusterConfig says how many replicas a region has.
func (p *pdServer) GetClusterConfig(context.Context, *pdpb.GetClusterConfigRequest) (*pdpb.GetClusterConfigResponse, error) {
	return &pdpb.GetClusterConfigResponse{Header: p.header(), Cluster: &metapb.Cluster{
		Id: p.cluster.cfg.ClusterID, MaxPeerCount: uint32(len(p.cluster.stores)),
	}}, nil
}

// keyspaces knows none: the cluster is a classic one.
type keyspaces struct {
	*keyspacepb.UnimplementedKeyspaceServer
	pd *pdServer
}

// LoadKeyspace finds nothing.
func (k keyspaces) LoadKeyspace(context.Context, *keyspacepb.LoadKeyspaceRequest) (*keyspacepb.LoadKeyspaceResponse, error) {
	return &keyspacepb.LoadKeyspaceResponse{Header: k.pd.refused(&pdpb.Error{
		Type: pdpb.ErrorType_ENTRY_NOT_FOUND, Message: "keyspace does not exist",
	})}, nil
}

// GetAllKeyspaces lists none.
func (k keyspaces) GetAllKeyspaces(context.Context, *keyspacepb.GetAllKeyspacesRequest) (*keyspacepb.GetAllKeyspacesResponse, error) {
	return &keyspacepb.GetAllKeyspacesResponse{Header: k.pd.header()}, nil
}

// metaStorage is empty.
type metaStorage struct {
	*meta_storagepb.UnimplementedMetaStorageServer
	pd *pdServer
}

// Get finds nothing.
func (m metaStorage) Get(context.Context, *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	return &meta_storagepb.GetResponse{Header: &meta_storagepb.ResponseHeader{ClusterId: m.pd.cluster.cfg.ClusterID}}, nil
}
