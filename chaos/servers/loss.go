package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-cdc/sluice/meta"
)

// Lose kills the upstream for good. Its addresses refuse whoever calls, and nobody else
// gets them while the site is there: a stranger's answer would be taken for the upstream's.
func (s *Site) Lose() error {
	s.Upstream.Kill()
	for _, at := range slices.Concat(s.place.PD, s.place.Stores) {
		if err := s.occupy(strings.TrimPrefix(at, "http://")); err != nil {
			return fmt.Errorf("the address %s of the upstream that is gone: %w", at, err)
		}
	}
	return nil
}

// occupy binds an address, and does not listen there.
func (s *Site) occupy(at string) error {
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.occupied = append(s.occupied, fd)
	// Connections to who was there are still being forgotten.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
}

// vacate gives the addresses back.
func (s *Site) vacate() (err error) {
	for _, fd := range s.occupied {
		err = errors.Join(err, syscall.Close(fd))
	}
	s.occupied = nil
	return err
}

// Located waits until it is in etcd where the upstream's stores are. Servers that do not
// know it cannot tell that all of them are gone.
func (s *Site) Located(ctx context.Context) error {
	c := meta.Default()
	c.Backend, c.Endpoints = meta.BackendExternal, s.endpoints
	store, err := meta.Open(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	return s.until(ctx, "it is known where the upstream is", func() error {
		all, err := store.Changefeeds(ctx)
		if err != nil || len(all) != 1 {
			return fmt.Errorf("%d changefeeds: %w", len(all), err)
		}
		var info struct {
			Upstream struct {
				Stores []string `json:"stores"`
			} `json:"upstream"`
		}
		if err := json.Unmarshal(all[0].Info, &info); err != nil {
			return err
		}
		if n := len(info.Upstream.Stores); n != len(s.place.Stores) {
			return fmt.Errorf("%d stores are known, of %d", n, len(s.place.Stores))
		}
		return nil
	})
}

// Decided waits until the servers have taken the upstream for lost.
func (s *Site) Decided(ctx context.Context) error {
	_, err := s.state(ctx, "the upstream is taken for lost", "pending", "finished")
	return err
}

// Finished waits until the changefeed has ended.
func (s *Site) Finished(ctx context.Context) (Feed, error) {
	return s.state(ctx, "the changefeed has ended", "finished")
}

// state waits for one of some states.
func (s *Site) state(ctx context.Context, what string, wanted ...string) (f Feed, err error) {
	err = s.until(ctx, what, func() error {
		if f, err = s.Feed(ctx); err != nil {
			return err
		}
		if slices.Contains(wanted, f.State) {
			return nil
		}
		if f.State == "failed" {
			return fmt.Errorf("%w: the changefeed: %v", errForGood, f)
		}
		return fmt.Errorf("the changefeed: %v; ends of servers: %q", f, s.fell())
	})
	return f, err
}
