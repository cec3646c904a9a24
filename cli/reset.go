package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/meta"
	"github.com/sluice-cdc/sluice/server"
	"github.com/sluice-cdc/sluice/upstream"
)

// resetCommand needs no server: it is for when there is none any more.
func (t *terminal) resetCommand() *cobra.Command {
	c := t.command("reset", "remove all metadata of a cluster that has no servers any more, and its hold on garbage collection", t.reset)
	f := c.Flags()
	f.String("cluster-id", "default", "whose metadata")
	f.String("meta-endpoints", "", "of the etcd with the metadata, comma between (PD's, where it is not given)")
	f.String("meta-prefix", "/sluice", "before every key of it")
	f.Bool("no-confirm", false, "do not ask")
	return c
}

func (t *terminal) reset(c *cobra.Command) error {
	cfg := server.Default()
	cfg.PD, cfg.ClusterID, cfg.Meta.Prefix = parts(str(c, "pd")), str(c, "cluster-id"), str(c, "meta-prefix")
	cfg.Security = server.Security{CA: str(c, "ca"), Cert: str(c, "cert"), Key: str(c, "key")}
	if len(cfg.PD) == 0 {
		return cdcerr.InvalidArgument.New("%s: --pd is missing", c.CommandPath())
	}
	if endpoints := parts(str(c, "meta-endpoints")); len(endpoints) > 0 {
		cfg.Meta.Backend, cfg.Meta.Endpoints = meta.BackendExternal, endpoints
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := t.confirm(c, fmt.Sprintf("All changefeeds of cluster %s are forgotten, with how far they are.", cfg.ClusterID)); err != nil {
		return err
	}
	removed, err := forget(c.Context(), cfg)
	if err != nil {
		return err
	}
	if t.output == "json" {
		t.print(t.Out, map[string]int64{"removed_keys": removed})
		return nil
	}
	t.say("%d keys of cluster %s are removed, and its hold on garbage collection is given up.", removed, cfg.ClusterID)
	return nil
}

// forget removes the keys first: what is not kept any more needs no hold.
func forget(ctx context.Context, cfg server.Config) (removed int64, err error) {
	up, err := upstream.Open(ctx, cfg.Reach(nil))
	if err != nil {
		return 0, err
	}
	defer up.Close()
	store, err := meta.Open(ctx, cfg.Metadata(nil))
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if removed, err = store.Reset(ctx); err != nil {
		return 0, err
	}
	_, err = up.ReleaseGC(ctx, server.GCService(cfg.ClusterID, up.ClusterID()))
	return removed, err
}
