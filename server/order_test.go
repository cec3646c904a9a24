package server_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/server"
)

// writing is a control plane that looks, as it ends, whether its session lives.
type writing struct {
	plane
	end func(ctx context.Context, leave <-chan struct{}) error
}

func (w *writing) Run(ctx context.Context, leave <-chan struct{}) error { return w.end(ctx, leave) }

// member tells whether the cluster has this capture.
func member(g server.Given) bool {
	all, err := g.Store.Captures(context.Background())
	return err == nil && slices.ContainsFunc(all, func(c capture.Info) bool { return c.ID == g.Self.ID })
}

// P1: the session is there before the control plane and after it. What the plane writes
// as it hands over, or as it is torn off, it writes by a lease that nobody has given back.
func TestTheLeaseOutlivesThePlane(t *testing.T) {
	const enough = 200 * time.Millisecond // for a session to end that is ended too early
	for name, test := range map[string]func(r *running, cut chan struct{}){
		"told to end": func(r *running, _ chan struct{}) { r.leave() },
		"cut":         func(_ *running, cut chan struct{}) { close(cut) },
	} {
		t.Run(name, func(t *testing.T) {
			began, looked, cut := make(chan struct{}), make(chan error, 1), make(chan struct{})
			look := func(g server.Given) error {
				select {
				case <-g.Session.Over():
					return errors.New("the session is over before the plane")
				case <-time.After(enough):
				}
				if !member(g) {
					return errors.New("no member any more before the plane ends")
				}
				return nil
			}
			r := startWith(t, config(t), func(_ context.Context, g server.Given) (server.Plane, error) {
				if !member(g) {
					t.Error("a plane before the session is registered")
				}
				return &writing{plane: plane{given: g}, end: func(ctx context.Context, leave <-chan struct{}) error {
					close(began)
					select {
					case <-leave:
					case <-ctx.Done():
					}
					looked <- look(g)
					return ctx.Err()
				}}, nil
			}, cut)
			<-began
			test(r, cut)
			must(t, <-looked)
			must(t, <-r.done)
			r.done <- nil
		})
	}
}
