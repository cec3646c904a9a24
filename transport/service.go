package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/capture"
)

// refusalsMax is how many refusals a stream is told: of so many changefeeds it is
// enough to know that.
const refusalsMax = 256

// Service answers the streams of other captures under Path, as a part of what a port
// serves that speaks HTTP/2. It lives as long as the port, and passes on to the
// Transport of the moment: a node that begins anew is another capture.
type Service struct {
	grpc   *grpc.Server
	joined atomic.Pointer[Transport] // nil while the node is no member
}

// NewService makes one that refuses everybody until a Transport runs.
func NewService() *Service {
	s := &Service{grpc: grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.MaxRecvMsgSize(messageMax), grpc.MaxSendMsgSize(messageMax))}
	method := streamDesc
	method.Handler = func(_ any, stream grpc.ServerStream) error { return s.answer(stream) }
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: "sluice.transport.v1.Peers", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{method}, Metadata: "transport/peers.proto",
	}, s)
	return s
}

// cutKey is where a stream finds what ends it.
type cutKey struct{}

// ServeHTTP implements http.Handler. A stream that waits for its caller can be ended
// by nothing but its request's context.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	s.grpc.ServeHTTP(w, r.WithContext(context.WithValue(ctx, cutKey{}, cut)))
}

func (s *Service) answer(stream grpc.ServerStream) error {
	t := s.joined.Load()
	if t == nil {
		return status.Error(codes.Unavailable, "this server is no member of its cluster at the moment, and takes no messages: ask again")
	}
	cut, ok := stream.Context().Value(cutKey{}).(context.CancelFunc)
	if !ok {
		return status.Error(codes.Internal, "the stream came by another way than the service's")
	}
	return t.serve(stream, cut)
}

// caller is a stream that comes in.
type caller struct {
	cut func()
}

// serve is one stream from another capture, from its hello to its end.
func (t *Transport) serve(stream grpc.ServerStream, cut func()) error {
	silence := time.AfterFunc(t.cfg.Silence, cut)
	defer silence.Stop()
	id, body, err := receive(stream)
	if err != nil {
		return err
	}
	if id != frameHello {
		return status.Errorf(codes.InvalidArgument, "a stream begins with a hello, not with frame %d", id)
	}
	h, err := readHello(body)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "a hello: %v", err)
	}
	if err := t.admit(h); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	c := &caller{cut: cut}
	if err := t.enter(h.from, c); err != nil {
		return err
	}
	defer t.leave(h.from, c)
	if err := stream.SendMsg(welcome()); err != nil {
		return err
	}
	return t.listen(stream, h.from, func() { silence.Reset(t.cfg.Silence) })
}

// agree tells whether captures of these versions understand each other.
func agree(h hello) error {
	if h.version < oldestVersion || h.oldest > version {
		return fmt.Errorf("the peer speaks versions %d to %d of the protocol between captures, this capture %d to %d: upgrade through the versions between",
			h.oldest, h.version, oldestVersion, version)
	}
	return nil
}

// admit tells whether a caller means this capture and can talk to it.
func (t *Transport) admit(h hello) error {
	switch {
	case h.cluster != t.cfg.Cluster:
		return fmt.Errorf("this capture is of cluster %q, not of %q: captures of several clusters need addresses of their own", t.cfg.Cluster, h.cluster)
	case h.to != t.cfg.Self:
		return fmt.Errorf("this is capture %s and not %s: the server at this address has begun anew since, and whoever has it from etcd finds its new id there", t.cfg.Self, h.to)
	case h.from == "" || h.from == t.cfg.Self:
		return fmt.Errorf("a caller with the id %q", h.from)
	}
	return agree(h)
}

// enter lets a caller in. One of the same capture that is still there is an earlier
// one whose end nobody has noticed: it is cut.
func (t *Transport) enter(id capture.ID, c *caller) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.callers[id]
	switch {
	case t.over:
		return status.Error(codes.Unavailable, "this capture ends")
	case old != nil:
		old.cut()
	case len(t.callers) >= callersMax:
		return status.Errorf(codes.ResourceExhausted, "%d captures have streams to this one already", callersMax)
	}
	t.callers[id] = c
	t.serving.Add(1)
	return nil
}

func (t *Transport) leave(id capture.ID, c *caller) {
	defer t.serving.Done()
	t.mu.Lock()
	last := t.callers[id] == c
	if last {
		delete(t.callers, id)
	}
	over := t.over
	t.mu.Unlock()
	if last && !over {
		t.broke(id)
	}
}

// listen takes what a caller says until the stream ends.
func (t *Transport) listen(stream grpc.ServerStream, from capture.ID, alive func()) error {
	pong := frame(framePong, nothing)
	refused := map[address]bool{}
	for {
		id, body, err := receive(stream)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		alive()
		switch id {
		case framePing:
			err = stream.SendMsg(pong)
		case frameOrders, frameReport:
			err = t.heard(stream, from, id, body, refused)
		default: // of a later version
		}
		if err != nil {
			return err
		}
	}
}

// heard is one message. What is sound and cannot be acted on is dropped, as if it was
// lost on its way; what is not sound ends the stream.
func (t *Transport) heard(stream grpc.ServerStream, from capture.ID, id protowire.Number, body []byte, refused map[address]bool) error {
	m, err := readMessage(id, body)
	if err == nil {
		err = m.check(from, t.cfg.Self)
	} else if !errors.Is(err, errStrange) {
		return status.Errorf(codes.InvalidArgument, "frame %d: %v", id, err)
	}
	if err != nil {
		t.meter.strange.Add(1)
		t.cfg.Log.Warn("a message that nobody can act on is dropped", "peer", from, "changefeed", m.Changefeed.String(), "error", err)
		return nil
	}
	t.meter.received[m.kind()].Add(1)
	t.meter.bytesReceived.Add(uint64(len(body)))
	at := address{m.Changefeed, m.kind()}
	if t.deliver(Received{From: from, Message: m}) || refused[at] || len(refused) == refusalsMax {
		return nil
	}
	refused[at] = true
	why := "nobody on this capture takes them at the moment"
	return stream.SendMsg(refusal{changefeed: m.Changefeed, kind: m.kind(), reason: why}.frame())
}
