package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/coordinator"
	"github.com/sluice-cdc/sluice/server"
)

// serve is a server with what this build has.
func serve(ctx context.Context, cfg server.Config) error {
	b := ReadBuild()
	return server.Run(ctx, cfg, server.Parts{Version: b.Version, GitHash: b.GitHash, PID: pid(), Stderr: os.Stderr, Plane: Plane(b.Version),
		Outlives: coordinator.Outlives, Applies: coordinator.Applies})
}

func (t *terminal) serverCommand() *cobra.Command {
	d := server.Default()
	c := t.command("server", "run a capture", nil)
	f := c.Flags()
	f.String("config", "", "TOML file; flags come before it")
	f.String("pd", strings.Join(d.PD, ","), "PD endpoints, http or https, comma between")
	f.String("addr", d.Addr, "where HTTP and gRPC listen")
	f.String("advertise-addr", "", "what others call this server by (addr, where it is not given)")
	f.String("data-dir", "", "where rows wait that memory has no room for")
	f.Int64("gc-ttl", d.GCTTL, "seconds for which a stopped changefeed's data is kept upstream")
	f.String("tz", d.TZ, "time zone of TIMESTAMP values in filters")
	f.String("cluster-id", d.ClusterID, "tells clusters of Sluice on one metadata store apart")
	f.String("log-file", "", "where the log goes (stderr, where it is not given)")
	f.String("log-level", d.LogLevel, "debug, info, warn or error")
	f.String("ca", "", "authority's certificate for PD, TiKV and other captures")
	f.String("cert", "", "this server's certificate")
	f.String("key", "", "its key")
	f.String("cert-allowed-cn", "", "common names that certificates may have, comma between")
	f.BoolP("newarch", "x", false, "no effect: there is one architecture")
	for _, old := range []string{"owner-flush-interval", "processor-flush-interval", "sort-dir"} {
		f.String(old, "", "no effect")
		hide(c, old)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := t.serverConfig(c)
		if err != nil {
			return err
		}
		return t.Serve(c.Context(), cfg)
	}
	return c
}

// hide keeps a flag out of the help.
func hide(c *cobra.Command, flag string) {
	if f := c.Flags().Lookup(flag); f != nil {
		f.Hidden = true
	}
}

// serverConfig is the file, with what flags say over it.
func (t *terminal) serverConfig(c *cobra.Command) (server.Config, error) {
	cfg, f := server.Default(), c.Flags()
	if path := str(c, "config"); path != "" {
		if err := cfg.Load(path); err != nil {
			return cfg, err
		}
	}
	for flag, to := range map[string]*string{
		"addr": &cfg.Addr, "advertise-addr": &cfg.AdvertiseAddr, "data-dir": &cfg.DataDir, "tz": &cfg.TZ, "cluster-id": &cfg.ClusterID,
		"log-file": &cfg.LogFile, "log-level": &cfg.LogLevel, "ca": &cfg.Security.CA, "cert": &cfg.Security.Cert, "key": &cfg.Security.Key,
	} {
		if f.Changed(flag) {
			*to = str(c, flag)
		}
	}
	if f.Changed("pd") {
		cfg.PD = parts(str(c, "pd"))
	}
	if f.Changed("cert-allowed-cn") {
		cfg.Security.AllowedCN = parts(str(c, "cert-allowed-cn"))
	}
	if f.Changed("gc-ttl") {
		ttl, err := f.GetInt64("gc-ttl")
		if err != nil {
			return cfg, cdcerr.InvalidArgument.Wrap(err, "--gc-ttl")
		}
		cfg.GCTTL = ttl
	}
	for _, flag := range []string{"newarch", "owner-flush-interval", "processor-flush-interval", "sort-dir"} {
		if f.Changed(flag) {
			cfg.Warnings = append(cfg.Warnings, "--"+flag+": has no effect")
		}
	}
	return cfg, nil
}

// str is a flag's text; one that the command does not have is a bug that every
// test of the command finds.
func str(c *cobra.Command, flag string) string {
	if f := c.Flag(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// parts are the words of a list, comma between.
func parts(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}
