package upstream

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

const (
	pdTimeout   = 3 * time.Second // of one question
	pdPauseMin  = 50 * time.Millisecond
	pdPauseMax  = time.Second
	membersWait = 300 * time.Millisecond // for the other endpoints, once one has answered
)

// TS is a new timestamp from PD. It rides out a change of PD's leader, and gives up
// when PD has been away for the configured time.
func (c *Client) TS(ctx context.Context) (tso.TS, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TSOTimeout)
	defer cancel()
	for pause := pdPauseMin; ; pause = min(2*pause, pdPauseMax) {
		physical, logical, err := c.pd.GetTS(ctx)
		if err == nil {
			ts := tso.New(physical, logical)
			c.last.Store(uint64(ts))
			now := time.Now()
			c.answered.Store(&now)
			return ts, nil
		}
		if wait(ctx, pause) != nil {
			return 0, cdcerr.PDUnreachable.Wrap(err, "PD has given no timestamp for %v", time.Since(began).Round(time.Millisecond))
		}
	}
}

// lastTS is the last timestamp that PD gave: at most seconds old while PD answers.
func (c *Client) lastTS() tso.TS { return tso.TS(c.last.Load()) }

// checkPD asks the endpoints in turn until one says its version.
func (c *Client) checkPD(ctx context.Context) error {
	tlsConfig, err := c.cfg.TLS.config()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	for pause := pdPauseMin; ; pause = min(2*pause, pdPauseMax) {
		var last error
		for _, e := range c.cfg.endpoints() {
			try, cancel := context.WithTimeout(ctx, pdTimeout)
			version, err := pdVersion(try, client, e)
			cancel()
			if err == nil {
				return checkVersion("PD "+e, version)
			}
			if last == nil || ctx.Err() == nil {
				last = err
			}
		}
		if wait(ctx, pause) != nil {
			return c.unreachable(last)
		}
	}
}

func (c *Client) unreachable(last error) error {
	return cdcerr.PDUnreachable.Wrap(last, "none of %s answered within %v",
		strings.Join(c.cfg.endpoints(), ", "), c.cfg.OpenTimeout)
}

// member is what one endpoint says of its cluster.
type member struct {
	endpoint string
	cluster  uint64 // 0 where it does not answer
}

// members asks all endpoints at once which cluster they belong to. One that does
// not answer soon after another has is left out.
func (c *Client) members(ctx context.Context) []member {
	ctx, cancel := context.WithTimeout(ctx, pdTimeout)
	defer cancel()
	endpoints := c.cfg.endpoints()
	answers := make(chan member, len(endpoints))
	g, ctx := errgroup.WithContext(ctx)
	for _, e := range endpoints {
		g.Go(func() error {
			answers <- member{endpoint: e, cluster: c.clusterOf(ctx, e)}
			return nil
		})
	}
	var found []member
	var enough <-chan time.Time
	for range endpoints {
		select {
		case m := <-answers:
			if m.cluster != 0 {
				found = append(found, m)
				enough = time.After(membersWait)
			}
			continue
		case <-enough:
		}
		break
	}
	cancel()
	_ = g.Wait() // they report by their answers
	return found
}

// clusterOf is the id of the cluster that an endpoint belongs to.
func (c *Client) clusterOf(ctx context.Context, endpoint string) uint64 {
	_, address, _ := strings.Cut(endpoint, "://")
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(c.cfg.TLS.credentials()))
	if err != nil {
		return 0
	}
	defer cc.Close()
	resp, err := pdpb.NewPDClient(cc).GetMembers(ctx, &pdpb.GetMembersRequest{})
	if err != nil {
		return 0
	}
	return resp.GetHeader().GetClusterId()
}

// checkCluster refuses endpoints that lead to more than one cluster, or to another
// one than want, where that is not 0.
func (c *Client) checkCluster(ctx context.Context, want uint64) error {
	for i, m := range c.members(ctx) {
		switch {
		case i == 0 && want == 0:
			want = m.cluster
		case m.cluster != want:
			return cdcerr.ClusterIDMismatch.New("PD %s belongs to cluster %d, not to %d", m.endpoint, m.cluster, want)
		}
	}
	return nil
}

// pdError gives the code of an error from PD: code, unless PD turns out to belong
// to another cluster now, as when its address was given to another one.
func (c *Client) pdError(ctx context.Context, err error, code *cdcerr.Code, format string, args ...any) error {
	if status.Code(err) == codes.FailedPrecondition {
		if other := c.checkCluster(ctx, c.cluster); other != nil {
			return other
		}
	}
	return code.Wrap(err, format, args...)
}

// connectPD makes the PD client, which lives as long as ctx does but must be
// there before open ends.
func (c *Client) connectPD(ctx, open context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(open, cancel)
	endpoints := c.cfg.endpoints()
	for i, e := range endpoints { // see dialPD
		endpoints[i] = "http://" + strings.TrimPrefix(strings.TrimPrefix(e, "https://"), "http://")
	}
	options := []opt.ClientOption{
		opt.WithForwardingOption(true), // a leader that we cannot reach is reached through a follower
		opt.WithInitMetricsOption(false),
		opt.WithEnableRouterClient(false), // batches questions for single regions; we ask for ranges
		opt.WithCustomTimeoutOption(pdTimeout),
		opt.WithGRPCDialOptions(grpc.WithKeepaliveParams(keepaliveParams()), grpc.WithContextDialer(c.cfg.TLS.dialPD)),
	}
	client, err := pd.NewClientWithContext(life, caller.Component("sluice"), endpoints, pd.SecurityOption{}, options...)
	if err == nil && c.cfg.Keyspace != "" {
		// Whether there is such a keyspace has to be known first: the client of one
		// would ask again and again.
		c.keyspace, err = c.loadKeyspace(open, client, c.cfg.Keyspace)
		closePD(client)
		if err == nil {
			client, err = pd.NewClientWithAPIContext(life, pd.NewAPIContextV2(c.cfg.Keyspace), caller.Component("sluice"), endpoints, pd.SecurityOption{}, options...)
		}
	}
	if !stop() && err == nil {
		closePD(client)
		err = open.Err()
	}
	if err != nil {
		cancel()
		if open.Err() != nil && ctx.Err() == nil {
			return c.unreachable(err)
		}
		return cdcerr.PDUnreachable.Wrap(err, "PD %s", strings.Join(c.cfg.endpoints(), ", "))
	}
	c.pd, c.cluster = client, client.GetClusterID(ctx)
	return nil
}

// closePD closes a PD client with all its connections.
func closePD(client pd.Client) {
	if _, none := client.(absentPD); none {
		return
	}
	found := client.GetServiceDiscovery()
	urls := found.GetServiceURLs()
	client.Close()
	// The PD client does not wait for the goroutine that connects it to the
	// timestamp service. Where that one looks for connections it now finds closed
	// ones; what it opened in between is closed here.
	closed, err := grpc.NewClient("passthrough:///closed", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return // cannot be: the target is a constant
	}
	_ = closed.Close()
	for _, url := range urls {
		if late, ok := found.GetClientConns().Swap(url, closed); ok {
			_ = late.(*grpc.ClientConn).Close()
		}
	}
}

// checkStores asks PD for all stores and refuses the first that is too old or too new.
func (c *Client) checkStores(ctx context.Context) error {
	stores, err := c.pd.GetAllStores(ctx, opt.WithExcludeTombstone())
	if err != nil {
		return c.pdError(ctx, err, cdcerr.PDUnreachable, "PD does not list its stores")
	}
	for _, s := range stores {
		if err := checkStore(s); err != nil {
			return err
		}
	}
	return nil
}

// storeAddress is where a store serves now, after a look at its version. While PD
// is away it is where the store served last.
func (c *Client) storeAddress(ctx context.Context, store uint64) (string, error) {
	s, err := c.pd.GetStore(ctx, store)
	if err != nil {
		if last := c.places.lastAddress(store); last != "" && away(err) {
			c.log.Info("PD does not tell where a store is; going where it was", "store", store, "address", last, "error", err)
			return last, nil
		}
		return "", c.pdError(ctx, err, cdcerr.PDUnreachable, "PD does not tell where store %d is", store)
	}
	if s.GetAddress() == "" {
		return "", cdcerr.RegionLookup.New("PD has no address for store %d", store)
	}
	if err := checkStore(s); err != nil {
		return "", err
	}
	c.places.checked(store, s.GetAddress())
	return s.GetAddress(), nil
}

// away tells whether an error says that PD did not answer, rather than what.
func away(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return true // the client's own: it has nobody to ask
	}
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}
