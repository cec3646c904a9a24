package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Path is where a Service answers.
const Path = "/sluice.transport.v1.Peers/"

const streamMethod = Path + "Stream"

// streamDesc is the one method there is.
var streamDesc = grpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true}

// sockets are what a connection was made of. They are closed before it: gRPC says
// goodbye first, which to a peer that reads nothing takes five seconds, and for so long
// nobody would hear that it is gone.
type sockets struct {
	dial func(ctx context.Context, address string) (net.Conn, error)

	mu   sync.Mutex
	all  []net.Conn // guarded by mu
	over bool       // guarded by mu
}

func (s *sockets) open(ctx context.Context, address string) (net.Conn, error) {
	c, err := s.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	s.all = append(s.all, c)
	return c, nil
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, c := range s.all {
		_ = c.Close() // it may be closed already
	}
}

// dial is a connection that is made by its first stream. It ends by end.
func (t *Transport) dial(address string) (conn *grpc.ClientConn, end func(), err error) {
	own := &sockets{dial: t.cfg.Dial}
	var security credentials.TransportCredentials = fileCredentials{t.cfg.TLS}
	if t.cfg.TLS == nil {
		security = insecure.NewCredentials()
	}
	conn, err = grpc.NewClient("passthrough:///"+address,
		grpc.WithContextDialer(own.open),
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(messageMax), grpc.MaxCallSendMsgSize(messageMax)),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() {
		own.close()
		_ = conn.Close() // the only error is that it is closed already
	}, nil
}

var _ encoding.CodecV2 = frames{}

// frames is the gRPC codec of bytes that are written and read elsewhere.
type frames struct{}

// Name implements encoding.CodecV2. The empty name leaves the content type as it is
// without a codec of one's own.
func (frames) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("captures do not send %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal implements encoding.CodecV2. It copies: gRPC uses its buffers again.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("captures do not receive %T", v)
	}
	*b = data.Materialize()
	return nil
}

var _ credentials.TransportCredentials = fileCredentials{}

// fileCredentials are gRPC's credentials with the files as they are at each handshake.
type fileCredentials struct{ config func() (*tls.Config, error) }

// ClientHandshake implements credentials.TransportCredentials.
func (f fileCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials.
func (fileCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

// Info implements credentials.TransportCredentials.
func (fileCredentials) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone implements credentials.TransportCredentials.
func (f fileCredentials) Clone() credentials.TransportCredentials { return f }

// OverrideServerName implements credentials.TransportCredentials; names are those of
// the addresses.
func (fileCredentials) OverrideServerName(string) error {
	return errors.New("the peer's name is that of its address")
}
