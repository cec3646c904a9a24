package upstream

import (
	"context"
	"slices"
	"strings"

	"github.com/tikv/pd/client/opt"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// topology is where TiDB servers say where they are, in PD's etcd: each under
// topology/host:port/info.
const topology = "/topology/tidb/"

// TiDBs are the SQL addresses of the TiDB servers that run, as PD knows them.
func (c *Client) TiDBs(ctx context.Context) ([]string, error) {
	answer, err := c.pd.Get(ctx, []byte(topology), opt.WithPrefix())
	if err != nil {
		return nil, c.pdError(ctx, err, cdcerr.PDUnreachable, "reading which TiDB servers there are")
	}
	var out []string
	for _, kv := range answer.GetKvs() {
		address, kind, ok := strings.Cut(strings.TrimPrefix(string(kv.GetKey()), topology), "/")
		// A server that has gone leaves its info; its ttl goes with it.
		if ok && kind == "ttl" && address != "" {
			out = append(out, address)
		}
	}
	slices.Sort(out)
	return out, nil
}
