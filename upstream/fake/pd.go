package fake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pdServer is one member of PD. gRPC and HTTP share its port, as in a real PD.
type pdServer struct {
	*pdpb.UnimplementedPDServer
	cluster *Cluster
	shared  *pdMembers
	id      uint64
	net     *network
	url     string
}

func newPD(c *Cluster, member int, lis net.Listener) *pdServer {
	p := &pdServer{cluster: c, shared: c.pd, id: uint64(member) + 1, net: newNetwork(lis)}
	p.url = "http://" + p.net.addr()
	if c.cfg.TLS != nil {
		p.url = "https://" + p.net.addr()
	}
	return p
}

// routes sends gRPC calls to the services and answers the few HTTP paths.
func (p *pdServer) routes(calls *grpc.Server, serving *requests) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pd/api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"version": "v" + p.cluster.cfg.Version})
	})
	mux.HandleFunc("GET /pd/api/v1/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, []map[string]any{{
			"name": p.name(), "member_id": p.id, "client_urls": []string{p.url}, "health": true,
		}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !serving.begin() {
			return // the member is dead, and so is the connection
		}
		defer serving.all.Done()
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// requests are those that a member works on in one life.
type requests struct {
	mu   sync.Mutex
	over bool // no other one begins; guarded by mu
	all  sync.WaitGroup
}

func (r *requests) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.all.Add(1)
	return true
}

// end waits for all, and lets no other one begin.
func (r *requests) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.all.Wait()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	// A client that went away has no use for the error.
	_ = json.NewEncoder(w).Encode(v)
}

// anyMember are the calls with which a client finds out the cluster id and the
// leader: every member answers them.
var anyMember = map[string]bool{"/pdpb.PD/GetMembers": true, "/pdpb.PD/GetClusterInfo": true}

// checkUnary refuses requests for another cluster or another member, as PD does.
func (p *pdServer) checkUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r, ok := req.(interface{ GetHeader() *pdpb.RequestHeader }); ok && !anyMember[info.FullMethod] {
		if err := p.check(ctx, r.GetHeader()); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}

func (p *pdServer) check(ctx context.Context, h *pdpb.RequestHeader) error {
	if id := p.cluster.claimed.Load(); h.GetClusterId() != id {
		return status.Errorf(codes.FailedPrecondition, "mismatch cluster id, need %d but got %d", id, h.GetClusterId())
	}
	leader := p.shared.leading()
	if leader == p {
		return nil
	}
	// A follower passes a request on to the leader if it is told to, as long as
	// the leader is there.
	md, _ := metadata.FromIncomingContext(ctx)
	if slices.Contains(md.Get("pd-forwarded-host"), leader.url) && leader.net.isUp() {
		return nil
	}
	if len(md.Get("pd-allow-follower-handle")) > 0 {
		return nil
	}
	return status.Error(codes.Unavailable, "not leader")
}

func (p *pdServer) header() *pdpb.ResponseHeader {
	return &pdpb.ResponseHeader{ClusterId: p.cluster.claimed.Load()}
}

func (p *pdServer) refused(e *pdpb.Error) *pdpb.ResponseHeader {
	h := p.header()
	h.Error = e
	return h
}

func (p *pdServer) name() string { return "pd-" + strconv.FormatUint(p.id, 10) }

// GetMembers names the members and the leader.
func (p *pdServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	resp := &pdpb.GetMembersResponse{Header: p.header()}
	leader := p.shared.leading()
	for _, o := range p.shared.members {
		m := &pdpb.Member{Name: o.name(), MemberId: o.id, PeerUrls: []string{o.url}, ClientUrls: []string{o.url}}
		resp.Members = append(resp.Members, m)
		if o == leader {
			resp.Leader, resp.EtcdLeader = m, m
		}
	}
	return resp, nil
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
		if err := p.check(stream.Context(), req.GetHeader()); err != nil {
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

// metaStorage is the part of PD's etcd in which TiDB servers say where they are.
type metaStorage struct {
	*meta_storagepb.UnimplementedMetaStorageServer
	pd *pdServer
}

// Get finds the TiDB servers, and nothing else.
func (m metaStorage) Get(_ context.Context, req *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	out := &meta_storagepb.GetResponse{Header: &meta_storagepb.ResponseHeader{ClusterId: m.pd.cluster.cfg.ClusterID}}
	for _, address := range m.pd.cluster.cfg.TiDBs {
		for _, kind := range []string{"info", "ttl"} {
			key := "/topology/tidb/" + address + "/" + kind
			if key >= string(req.GetKey()) && key < string(req.GetRangeEnd()) {
				out.Kvs = append(out.Kvs, &meta_storagepb.KeyValue{Key: []byte(key)})
			}
		}
	}
	out.Count = int64(len(out.Kvs))
	return out, nil
}
