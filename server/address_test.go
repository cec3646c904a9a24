package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
)

// A server that is started with another's advertise-addr ends, and says whose it is; the
// other one goes on.
func TestAnAddressIsOneServers(t *testing.T) {
	cfg := config(t)
	cfg.CaptureSessionTTL = 5
	joined := make(chan server.Given, 2)
	plane := func(_ context.Context, g server.Given) (server.Plane, error) {
		joined <- g
		return &plane{given: g, leave: make(chan struct{}), hand: closed()}, nil
	}
	first := start(t, cfg, plane)
	g := <-joined
	second := cfg
	second.DataDir = t.TempDir()
	second.Meta.Backend, second.Meta.Endpoints = meta.BackendExternal, g.Store.Endpoints()
	r := start(t, second, plane)
	select {
	case err := <-r.done:
		if !cdcerr.AddressTaken.Is(err) || !strings.Contains(err.Error(), string(g.Self.ID)) || !strings.Contains(err.Error(), "since 2") {
			t.Error(err)
		}
	case g = <-joined:
		t.Errorf("%+v joined", g.Self)
	case <-time.After(patience):
		t.Error("it waits")
	}
	if all, err := g.Store.Captures(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	first.leave()
	must(t, <-first.done)
	first.done <- nil
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
