package meta_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/freeport"
	"github.com/sluice-cdc/sluice/meta"
)

// members are the configurations of a cluster of embedded etcds.
func members(t *testing.T, n int) []meta.Config {
	t.Helper()
	var all []string
	out := make([]meta.Config, n)
	for i := range out {
		address, err := freeport.PickAddress()
		must(t, err)
		out[i] = embedded(t.TempDir())
		out[i].Embedded.Name, out[i].Embedded.PeerAddr = fmt.Sprintf("m%d", i), address
		all = append(all, out[i].Embedded.Name+"="+out[i].Embedded.PeerAddr)
	}
	for i := range out {
		out[i].Embedded.InitialCluster = strings.Join(all, ",")
	}
	return out
}

// Captures that embed etcd share one cluster, and do without one of them.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	cfgs := members(t, 3)
	stores := make([]*meta.Store, len(cfgs))
	var g errgroup.Group
	for i := range cfgs {
		g.Go(func() (err error) {
			stores[i], err = meta.Open(t.Context(), cfgs[i])
			return err
		})
	}
	err := g.Wait()
	for _, s := range stores[1:] {
		if s != nil {
			t.Cleanup(s.Close)
		}
	}
	must(t, err)
	made, err := stores[0].CreateChangefeed(t.Context(), meta.Fence{}, feed, info, at(1, 1))
	must(t, err)
	if stores[0].Identity() != stores[1].Identity() || stores[1].Identity() != stores[2].Identity() {
		t.Error("three clusters")
	}
	stores[0].Close()
	eventually(t, func() error {
		made, err = stores[1].Changefeed(t.Context(), feed)
		return err
	})
	eventually(t, func() error {
		_, err = stores[2].PutStatus(t.Context(), meta.Fence{}, made, at(2, 2))
		return err
	})
}

// eventually tries again while the members elect a leader.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return
		}
		if n == 20 || cdcerr.Fate(err) != cdcerr.Retry {
			t.Fatal(err)
		}
	}
}

// A member that finds no other gives up in time, and leaves nothing running.
func TestAMemberAlone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // to begin, and to look for the other
	defer cancel()
	_, err := meta.Open(ctx, members(t, 2)[0])
	refused(t, err, cdcerr.MetaUnreachable, "no leader")
}
