package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/clients/gc"
	"github.com/tikv/pd/client/clients/router"
	"github.com/tikv/pd/client/opt"
)

// Absent is a Client of a cluster that cannot be reached, of which only its id is known.
// Whatever is asked of it is refused as by a PD that is away; what Reached tells is true.
// It stays so: who finds the cluster again opens another one.
func Absent(cfg Config, cluster uint64) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// Nobody will answer: there is nothing to wait for.
	cfg.TSOTimeout = min(cfg.TSOTimeout, 10*time.Millisecond)
	c := newClient(cfg)
	c.pd, c.cluster = absentPD{}, cluster
	return c, nil
}

// Absent tells whether the client was made by Absent.
func (c *Client) Absent() bool {
	_, none := c.pd.(absentPD)
	return none
}

// absentPD is the PD of a cluster that is away. It has what this package asks of PD.
type absentPD struct{ pd.Client }

var errAbsent = errors.New("the upstream could not be reached when this server started")

func (absentPD) GetTS(context.Context) (physical, logical int64, err error) { return 0, 0, errAbsent }

func (absentPD) GetAllStores(context.Context, ...opt.GetStoreOption) ([]*metapb.Store, error) {
	return nil, errAbsent
}

func (absentPD) GetStore(context.Context, uint64, ...opt.GetStoreOption) (*metapb.Store, error) {
	return nil, errAbsent
}

func (absentPD) GetRegionByID(context.Context, uint64, ...opt.GetRegionOption) (*router.Region, error) {
	return nil, errAbsent
}

func (absentPD) BatchScanRegions(context.Context, []router.KeyRange, int, ...opt.GetRegionOption) ([]*router.Region, error) {
	return nil, errAbsent
}

func (absentPD) Get(context.Context, []byte, ...opt.MetaStorageOption) (*meta_storagepb.GetResponse, error) {
	return nil, errAbsent
}

func (absentPD) GetGCStatesClient(uint32) gc.GCStatesClient { return absentGC{} }

// absentGC is what such a PD knows of garbage collection.
type absentGC struct{ gc.GCStatesClient }

func (absentGC) SetGCBarrier(context.Context, string, uint64, time.Duration) (*gc.GCBarrierInfo, error) {
	return nil, errAbsent
}

func (absentGC) DeleteGCBarrier(context.Context, string) (*gc.GCBarrierInfo, error) {
	return nil, errAbsent
}

func (absentGC) GetGCState(context.Context, ...gc.GCStatesAPIOption) (gc.GCState, error) {
	return gc.GCState{}, errAbsent
}
