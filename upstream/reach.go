package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/tikv/pd/client/opt"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
)

const (
	// answerWait is how long an address may take for its first byte.
	answerWait = 3 * time.Second
	// askedAtOnce bounds the addresses that are asked side by side: where a whole site is
	// behind a wall each takes all of answerWait, and a thousand stores may not take minutes.
	askedAtOnce = 64
)

// Addresses are where the cluster is, host:port: its PDs and its stores.
type Addresses struct {
	PD     []string `json:"pd"`
	Stores []string `json:"stores"`
}

// Reached tells whether anything of the cluster lives, at the endpoints or at the addresses
// of before. PD is asked first, and of the stores nobody while it answers.
func (c *Client) Reached(ctx context.Context, last Addresses) bool {
	if at := c.answered.Load(); at != nil && time.Since(*at) < answerWait {
		return true // over the connection that there is
	}
	pd := bare(slices.Concat(c.cfg.endpoints(), c.memberURLs(), last.PD))
	if AnyAnswers(ctx, c.cfg.TLS, pd) {
		return true
	}
	return AnyAnswers(ctx, c.cfg.TLS, last.Stores)
}

// Addresses asks PD where the cluster is.
func (c *Client) Addresses(ctx context.Context) (Addresses, error) {
	stores, err := c.pd.GetAllStores(ctx, opt.WithExcludeTombstone())
	if err != nil {
		return Addresses{}, c.pdError(ctx, err, cdcerr.PDUnreachable, "PD does not list its stores")
	}
	out := Addresses{PD: bare(slices.Concat(c.cfg.endpoints(), c.memberURLs()))}
	for _, s := range stores {
		if s.GetAddress() != "" {
			out.Stores = append(out.Stores, s.GetAddress())
		}
	}
	out.Stores = bare(out.Stores)
	return out, nil
}

// memberURLs are PD's members, as its client knows them.
func (c *Client) memberURLs() []string {
	if c.Absent() {
		return nil
	}
	return c.pd.GetServiceDiscovery().GetServiceURLs()
}

// bare are addresses without their schemes, in order, each once.
func bare(all []string) []string {
	out := make([]string, len(all))
	for i, a := range all {
		if _, rest, ok := strings.Cut(a, "://"); ok {
			a = rest
		}
		out[i] = strings.TrimSuffix(a, "/")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AnyAnswers tells whether a byte comes from one of the addresses over a new connection.
// It need not be the right one: a process that refuses our certificate, or has no leader,
// is there. A port that takes connections and says nothing is not.
func AnyAnswers(ctx context.Context, t TLS, addresses []string) bool {
	ctx, found := context.WithCancel(ctx)
	defer found()
	g := new(errgroup.Group)
	g.SetLimit(askedAtOnce)
	heard := make(chan struct{}, 1)
	for _, a := range addresses {
		g.Go(func() error {
			if ctx.Err() == nil && saysAnything(ctx, t, a) {
				select {
				case heard <- struct{}{}:
				default:
				}
				found()
			}
			return nil
		})
	}
	_ = g.Wait() // they have no error
	return len(heard) > 0
}

// saysAnything tells whether a byte comes from an address, spoken to with TLS or without:
// it may have another one than we were told of, and one of the two says nothing to the other.
func saysAnything(ctx context.Context, t TLS, address string) bool {
	heard, taken := says(ctx, t.CA != "", address)
	if !heard && taken {
		heard, _ = says(ctx, t.CA == "", address)
	}
	return heard
}

// preface is what a client of HTTP/2 says first, with empty settings; the server answers
// with its own.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// says tells whether a byte comes from an address, and whether it takes a connection.
func says(ctx context.Context, secure bool, address string) (heard, taken bool) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, false
	}
	defer func() { _ = conn.Close() }() // nothing was to be kept
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	e := &hearing{Conn: conn}
	if secure {
		// How the handshake ends does not matter, and files that cannot be read are no
		// reason to take anybody for dead: the first message needs none of them.
		_ = tls.Client(e, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(ctx) //nolint:gosec // nothing is said over it
		return e.heard, true
	}
	if _, err := conn.Write([]byte(preface)); err != nil {
		return false, true
	}
	_, _ = e.Read(make([]byte, 1))
	return e.heard, true
}

// hearing notes that something was read.
type hearing struct {
	net.Conn
	heard bool
}

func (e *hearing) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	e.heard = e.heard || n > 0
	return n, err
}
