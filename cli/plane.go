package cli

import (
	"context"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/coordinator"
	"github.com/sluice-cdc/sluice/server"
)

// Plane makes the control plane of a session of a server.
func Plane(version string) func(context.Context, server.Given) (server.Plane, error) {
	return func(_ context.Context, g server.Given) (server.Plane, error) {
		zone, err := g.Config.Location()
		if err != nil {
			return nil, err
		}
		limits, err := limits(g.Config)
		if err != nil {
			return nil, err
		}
		return coordinator.New(coordinator.Config{
			Self: g.Self, ClusterID: g.Config.ClusterID, Version: version, Capture: g.Capture, Store: g.Store, Session: g.Session, Transport: g.Transport,
			GCService: server.GCService(g.Config.ClusterID, g.Capture.Client.ClusterID()), GCTTL: time.Duration(g.Config.GCTTL) * time.Second,
			RedoBytes: g.Memory.Log,
			Zone:      zone, Limits: limits, Log: g.Log,
		}), nil
	}
}

func limits(c server.Config) (changefeed.Limits, error) {
	l := changefeed.Limits{MetadataUpstream: c.MetadataUpstream()}
	for key, to := range map[string]*time.Duration{server.SyncPointIntervalMin: &l.SyncPointIntervalMin, server.UpstreamLossGraceMin: &l.UpstreamLossGraceMin} {
		v, given := c.Debug[key]
		if !given {
			continue
		}
		text, _ := v.(string)
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Millisecond {
			return l, cdcerr.ServerConfigInvalid.New("debug.%s = %v: want a duration such as \"1s\", at least a millisecond", key, v)
		}
		*to = d
	}
	return l, nil
}
