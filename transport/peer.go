package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/capture"
)

// messageMax bounds one frame: reports and orders of half a megabyte, and a barrier
// with a hundred thousand tables.
const messageMax = 16 << 20

var (
	errMoved  = errors.New("the peer has another address")
	errSilent = errors.New("the peer did not answer in time")
	errEnded  = errors.New("the peer ended the stream: it ends itself, or has not heard us for too long")
)

// peer is one member, and our stream to it.
type peer struct {
	t     *Transport
	id    capture.ID
	ready chan struct{} // holds one token: something waits

	mu      sync.Mutex
	address string        // guarded by mu
	moved   chan struct{} // guarded by mu: closed when address is another
	q       backlog       // guarded by mu
	now     Peer          // guarded by mu: Connected, Version and Why
}

func newPeer(t *Transport, m capture.Info) *peer {
	return &peer{t: t, id: m.ID, address: m.Address, ready: make(chan struct{}, 1), moved: make(chan struct{})}
}

func (p *peer) status() Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.now
	s.ID, s.Address, s.Waiting = p.id, p.address, p.q.n
	return s
}

func (p *peer) where() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address, p.moved
}

func (p *peer) move(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address != address {
		p.address, p.now = address, Peer{}
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

func (p *peer) push(m Message) (lost int) {
	p.mu.Lock()
	lost = p.q.push(line{changefeed: m.Changefeed, kind: m.kind()}, Received{Message: m})
	p.mu.Unlock()
	wake(p.ready)
	return lost
}

func (p *peer) pop() (Message, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.q.pop()
	return r.Message, ok
}

// run keeps a stream open from the first message on, until ctx ends.
func (p *peer) run(ctx context.Context) error {
	select {
	case <-p.ready:
		wake(p.ready)
	case <-ctx.Done():
		return nil
	}
	wait := p.t.cfg.BackoffMin
	for {
		met, err := p.session(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that was asked for is no error
		}
		if met {
			wait = p.t.cfg.BackoffMin
		}
		if errors.Is(err, errMoved) {
			continue
		}
		p.lost(met, err)
		if status.Code(err) == codes.FailedPrecondition {
			wait = p.t.cfg.BackoffMax // it will be the same until the members are others
		}
		if !p.pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, p.t.cfg.BackoffMax)
	}
}

// pause waits before the next attempt, for less time where the address changes
// meanwhile. Those who lost the same peer do not all come back at one moment.
func (p *peer) pause(ctx context.Context, wait time.Duration) bool {
	_, moved := p.where()
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-moved:
	case <-ctx.Done():
		return false
	}
	return true
}

// lost notes the end of a stream, or that there was none.
func (p *peer) lost(met bool, err error) {
	m := &p.t.meter
	if met {
		m.broken.Add(1)
	} else {
		m.failed.Add(1)
	}
	p.mu.Lock()
	news := p.now.Why != err.Error()
	p.now.Connected, p.now.Why = false, err.Error()
	address := p.address
	p.mu.Unlock()
	if news {
		p.t.cfg.Log.Info("no stream to a capture; trying again", "peer", p.id, "address", address, "error", err)
	}
	p.t.broke(p.id)
}

// session is one stream, from its dialling to its end.
func (p *peer) session(ctx context.Context) (met bool, err error) {
	address, moved := p.where()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(p.t.cfg.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	conn, end, err := p.t.dial(address)
	if err != nil {
		return false, err
	}
	defer end()
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-moved:
			return errMoved
		case <-inner.Done():
			return nil
		}
	})
	g.Go(func() error {
		stream, err := p.greet(inner, conn)
		if err != nil {
			return err
		}
		met = true
		g.Go(func() error { return p.write(inner, stream) })
		return p.read(stream, func() { silence.Reset(p.t.cfg.Silence) })
	})
	err = g.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if status.Code(err) == codes.Canceled {
		err = errEnded // we did not, and a request that is cut on its server has no words of its own
	}
	return met, err
}

// greet opens a stream and waits to be welcome.
func (p *peer) greet(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &streamDesc, streamMethod)
	if err != nil {
		return nil, err
	}
	cfg := &p.t.cfg
	h := hello{version: version, oldest: oldestVersion, cluster: cfg.Cluster, from: cfg.Self, to: p.id}
	if err := stream.SendMsg(h.frame()); err != nil && !errors.Is(err, io.EOF) { // EOF: the answer says why
		return nil, err
	}
	id, body, err := receive(stream)
	if err != nil {
		return nil, err
	}
	if id != frameWelcome {
		return nil, fmt.Errorf("the first answer is frame %d and no welcome", id)
	}
	w, err := readHello(body) // a welcome has its first fields
	if err != nil {
		return nil, fmt.Errorf("a welcome: %w", err)
	}
	if err := agree(w); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	p.mu.Lock()
	p.now = Peer{Connected: true, Version: w.version}
	p.mu.Unlock()
	cfg.Log.Info("a stream to a capture", "peer", p.id, "address", conn.Target(), "version", w.version)
	return stream, nil
}

// read takes what comes back; each of it says that the peer is there.
func (p *peer) read(stream grpc.ClientStream, alive func()) error {
	for {
		id, body, err := receive(stream)
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		alive()
		if id != frameRefusal {
			continue
		}
		r, err := readRefusal(body)
		if err != nil {
			return fmt.Errorf("a refusal: %w", err)
		}
		p.t.meter.refused.Add(1)
		p.t.cfg.Log.Info("a capture refuses messages", "peer", p.id, "changefeed", r.changefeed.String(), "kind", r.kind.String(), "reason", r.reason)
	}
}

// write says what waits, and asks now and then whether the peer is there.
func (p *peer) write(ctx context.Context, stream grpc.ClientStream) error {
	beat := time.NewTicker(p.t.cfg.Beat)
	defer beat.Stop()
	ping := frame(framePing, nothing)
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C: // also when something always waits
			err = stream.SendMsg(ping)
		default:
			m, ok := p.pop()
			if ok {
				err = p.say(stream, &m)
				break
			}
			select {
			case <-ctx.Done():
				return nil
			case <-beat.C:
				err = stream.SendMsg(ping)
			case <-p.ready:
			}
		}
		if errors.Is(err, io.EOF) {
			<-ctx.Done() // who reads gets to know why
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// say sends one message, if it can be sent at all.
func (p *peer) say(stream grpc.ClientStream, m *Message) error {
	b := m.frame()
	if len(b) > messageMax {
		// Again and again the same: the stream must not break for it.
		p.t.meter.oversize.Add(1)
		p.t.cfg.Log.Error("a message is too large to be sent", "peer", p.id, "changefeed", m.Changefeed.String(), "kind", m.kind().String(), "bytes", len(b), "max", messageMax)
		return nil
	}
	if err := stream.SendMsg(b); err != nil {
		return err
	}
	p.t.meter.sent[m.kind()].Add(1)
	p.t.meter.bytesSent.Add(uint64(len(b)))
	return nil
}

// receive is the next frame.
func receive(stream interface{ RecvMsg(any) error }) (protowire.Number, []byte, error) {
	var b []byte
	if err := stream.RecvMsg(&b); err != nil {
		return 0, nil, err
	}
	return unframe(b)
}
