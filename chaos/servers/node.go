package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-cdc/sluice/chaos/process"
	"github.com/sluice-cdc/sluice/internal/freeport"
)

// stopMax is how long a process may take to end in good order.
const stopMax = 30 * time.Second

// Node is one server, in all its lives.
type Node struct {
	Name    string // of its process
	Address string // of its HTTP interface

	command process.Command
	log     string
	risen   chan struct{} // holds a token when a server that rested is to live

	mu    sync.Mutex // guards what follows
	rests bool       // it is not started again
	now   *process.Process
	sent  syscall.Signal // to the process of now, 0: nothing that would end it
	lives int
	fell  []string // how it ended when nobody had told it to
}

// nodeName is what a server's process is called.
func nodeName(number int) string { return fmt.Sprintf("%s%d", serverPrefix, number) }

const serverPrefix = "server "

// newNode gives a server an address, a directory and a configuration. Others call it
// by the port before it, where there is one.
func newNode(cfg Config, number int, pd, endpoints []string, before *port) (*Node, error) {
	address, err := freeport.PickAddress() // it is started there again
	if err != nil {
		return nil, err
	}
	n := &Node{Name: nodeName(number), Address: address, risen: make(chan struct{}, 1), rests: number >= cfg.Servers}
	advertise := n.Address
	if before != nil {
		before.to, advertise = n.Address, before.Address()
	}
	dir := filepath.Join(cfg.Dir, fmt.Sprintf("server-%d", number))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	meta := "backend = \"embedded\"\n"
	if endpoints != nil {
		meta = fmt.Sprintf("backend = \"external\"\nendpoints = [\"%s\"]\n", strings.Join(endpoints, `", "`))
	}
	bounds := fmt.Sprintf("sync-point-interval-min = \"%v\"\n", cfg.SyncPointEvery)
	if cfg.LossGraceMin > 0 {
		bounds += fmt.Sprintf("upstream-loss-grace-min = \"%v\"\n", cfg.LossGraceMin)
	}
	text := fmt.Sprintf("advertise-addr = %q\ncapture-session-ttl = %d\nmemory-quota = %d\n\n[meta]\n%s\n[debug]\n%s",
		advertise, sessionTTL, 512<<20, meta, bounds)
	file := filepath.Join(dir, "sluice.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	n.log = filepath.Join(cfg.Dir, fmt.Sprintf("server-%d.log", number))
	n.command = process.Command{
		Name: n.Name, Program: cfg.Sluice, Log: n.log,
		Args: []string{"server", "--config", file, "--pd", strings.Join(pd, ","), "--addr", n.Address, "--data-dir", filepath.Join(dir, "data")},
	}
	return n, nil
}

// fellMax bounds how often a server may end by itself: one that cannot live is a
// failure.
const fellMax = 20

// run lets the server live again and again until ctx ends, but for when it rests.
func (n *Node) run(ctx context.Context) error {
	for ctx.Err() == nil {
		p, err := n.start()
		if err != nil {
			return err
		}
		if p == nil {
			select {
			case <-n.risen:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-p.Over():
		case <-ctx.Done():
			return errors.Join(p.Signal(syscall.SIGCONT), p.Stop(stopMax))
		}
		if err := n.ended(p.Wait()); err != nil {
			return err
		}
	}
	return nil
}

// start starts a process; none where the server rests.
func (n *Node) start() (*process.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rests {
		return nil, nil
	}
	p, err := process.Start(n.command)
	if err == nil {
		n.now, n.sent = p, 0
		n.lives++
	}
	return p, err
}

// Rest ends the process of now, as Send does; no other one is started before Rise.
func (n *Node) Rest(ctx context.Context, s syscall.Signal) error {
	n.mu.Lock()
	n.rests = true
	n.mu.Unlock()
	return n.Send(ctx, s)
}

// Rise lets a server live that rests.
func (n *Node) Rise() {
	n.mu.Lock()
	n.rests = false
	n.mu.Unlock()
	select {
	case n.risen <- struct{}{}:
	default: // it has not noticed the last one
	}
}

// Rests tells whether it is not to live.
func (n *Node) Rests() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rests
}

// pid is that of the process of now, 0 where there was none yet.
func (n *Node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now == nil {
		return 0
	}
	return n.now.PID()
}

// ended takes in how a process has ended.
func (n *Node) ended(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.sent == syscall.SIGKILL, n.sent == syscall.SIGTERM && err == nil:
		return nil
	case n.sent == syscall.SIGTERM:
		n.fell = append(n.fell, fmt.Sprintf("told to end: %v", err))
	default:
		n.fell = append(n.fell, fmt.Sprintf("by itself: %v", err))
	}
	if len(n.fell) > fellMax {
		return fmt.Errorf("%s has ended %d times as it should not, the last time %s; %s has its words", n.command.Name, len(n.fell), n.fell[len(n.fell)-1], n.log)
	}
	return nil
}

// Send sends the process of now a signal. If that is to end it, Send waits for its
// end; the next one is started by then, or about to be.
func (n *Node) Send(ctx context.Context, s syscall.Signal) error {
	n.mu.Lock()
	p := n.now
	ends := s == syscall.SIGKILL || s == syscall.SIGTERM
	if p != nil && ends {
		n.sent = s
	}
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.Signal(s); err != nil || !ends {
		return err
	}
	patience := time.NewTimer(stopMax)
	defer patience.Stop()
	select {
	case <-p.Over():
		return nil
	case <-patience.C:
		p.Kill()
		return fmt.Errorf("%s is still there %v after signal %v", n.command.Name, stopMax, s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lives is how many processes it has had, Fell how they ended when they should not have.
func (n *Node) Lives() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lives
}

// Fell tells how processes have ended that should not have.
func (n *Node) Fell() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.fell...)
}
