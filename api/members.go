package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
)

func (c *call) status() (any, error) {
	s := c.self()
	return ServerStatus{Version: c.cfg.Version, GitHash: c.cfg.GitHash, ID: string(s.ID), ClusterID: s.ClusterID,
		PID: c.cfg.PID, IsOwner: s.Owner, Liveness: int(s.Liveness)}, nil
}

func (c *call) health() (any, error) {
	n, err := c.members()
	if err == nil {
		err = n.Health(c.Context())
	}
	return Empty{}, err
}

// info is for a person who looks: the node, the members, the changefeeds.
func (c *call) info() (any, error) {
	var b strings.Builder
	s := c.self()
	fmt.Fprintf(&b, "capture %s at %s, cluster %s, version %s\nowner: %v\nliveness: %d\n", s.ID, s.Address, s.ClusterID, c.cfg.Version, s.Owner, s.Liveness)
	n := c.node()
	if n == nil {
		fmt.Fprintf(&b, "not in a cluster: %s\n", c.cfg.Missing)
		return document{"text/plain; charset=utf-8", []byte(b.String())}, nil
	}
	members, err := c.captures()
	if err != nil {
		fmt.Fprintf(&b, "captures: %v\n", err)
	}
	for _, m := range members {
		fmt.Fprintf(&b, "member %s at %s, owner: %v\n", m.ID, m.Address, m.IsOwner)
	}
	feeds, err := n.List(c.Context())
	if err != nil {
		fmt.Fprintf(&b, "changefeeds: %v\n", err)
	}
	for _, f := range feeds {
		fmt.Fprintf(&b, "changefeed %s/%s: %s, checkpoint-ts %d (%s), resolved-ts %d\n", f.ID.Keyspace, f.ID.Name, f.State,
			f.Checkpoint, f.Checkpoint.Time().Format(timeForm), f.Resolved)
	}
	return document{"text/plain; charset=utf-8", []byte(b.String())}, nil
}

func (c *call) logLevel() (any, error) {
	var in LogLevel
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if in.Level == "" {
		return nil, cdcerr.InvalidArgument.New("log_level: is missing, want debug, info, warn or error")
	}
	return Empty{}, c.cfg.SetLogLevel(in.Level)
}

func (c *call) listCaptures() (any, error) {
	all, err := c.captures()
	return list(all), err
}

func (c *call) captureArray() (any, error) { return c.captures() }

func (c *call) drain() (any, error) { return c.drainCapture(c.PathValue("capture_id")) }

func (c *call) undrain() (any, error) {
	return Empty{}, c.node().Undrain(c.Context(), capture.ID(c.PathValue("capture_id")))
}

func (c *call) firstDrain() (any, error) {
	var in FirstDrain
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if in.CaptureID == "" {
		return nil, cdcerr.InvalidArgument.New("capture_id: is missing")
	}
	return c.drainCapture(in.CaptureID)
}

func (c *call) drainCapture(id string) (any, error) {
	return c.node().Drain(c.Context(), capture.ID(id))
}

func (c *call) resign() (any, error) { return Empty{}, c.node().Resign(c.Context()) }

func (c *call) tso() (any, error) {
	var in PDConfig
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.refuse(); err != nil {
		return nil, err
	}
	up, err := c.upstream()
	if err != nil {
		return nil, err
	}
	ts, err := up.TS(c.Context())
	return Timestamp{Physical: ts.Physical(), Logical: ts.Logical()}, err
}

// refuse tells who names a PD that a server follows its own.
func (p PDConfig) refuse() error {
	key := ""
	switch {
	case len(p.PDAddrs) > 0:
		key = "pd_addrs"
	case p.CAPath != "":
		key = "ca_path"
	case p.CertPath != "":
		key = "cert_path"
	case p.KeyPath != "":
		key = "key_path"
	case len(p.CertAllowedCN) > 0:
		key = "cert_allowed_cn"
	default:
		return nil
	}
	return cdcerr.NotInRelease.New("%s: a cluster of Sluice follows one upstream, the one that its servers were started with", key)
}

func (c *call) processors() ([]Processor, error) {
	feeds, err := c.node().List(c.Context())
	if err != nil {
		return nil, err
	}
	out := []Processor{}
	for _, f := range feeds {
		for _, t := range f.Tasks {
			out = append(out, Processor{Namespace: f.ID.Keyspace, Keyspace: f.ID.Keyspace, ChangefeedID: f.ID.Name, CaptureID: t.CaptureID})
		}
	}
	slices.SortStableFunc(out, func(a, b Processor) int {
		return cmp.Or(strings.Compare(a.Keyspace, b.Keyspace), strings.Compare(a.ChangefeedID, b.ChangefeedID), strings.Compare(a.CaptureID, b.CaptureID))
	})
	return out, nil
}

func (c *call) listProcessors() (any, error) {
	all, err := c.processors()
	return list(all), err
}

func (c *call) processorArray() (any, error) { return c.processors() }

func (c *call) processor() (any, error) {
	_, task, err := c.task()
	return ProcessorDetail{TableIDs: task.TableIDs}, err
}

// task is what the path names: a capture's share of a changefeed.
func (c *call) task() (Feed, TaskStatus, error) {
	f, err := c.node().Get(c.Context(), c.feed())
	if err != nil {
		return Feed{}, TaskStatus{}, err
	}
	id := c.PathValue("capture_id")
	for _, t := range f.Tasks {
		if t.CaptureID == id {
			t.TableIDs = some(t.TableIDs)
			return f, t, nil
		}
	}
	return Feed{}, TaskStatus{}, cdcerr.CaptureNotFound.New("capture %q replicates nothing of changefeed %s/%s", id, f.ID.Keyspace, f.ID.Name)
}

func (c *call) metadata() (any, error) {
	n, err := c.members()
	if err != nil {
		return nil, err
	}
	pairs, err := n.Metadata(c.Context())
	return some(pairs), err
}

func (c *call) resolveLock() (any, error) {
	var in ResolveLock
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.refuse(); err != nil {
		return nil, err
	}
	if in.RegionID == 0 {
		return nil, cdcerr.InvalidArgument.New("region_id: is missing")
	}
	up, err := c.upstream()
	if err != nil {
		return nil, err
	}
	if in.TS == 0 { // as TiCDC: what is younger than a minute may still live
		now, err := up.TS(c.Context())
		if err != nil {
			return nil, err
		}
		in.TS = minuteBefore(now)
	}
	return Empty{}, up.ResolveLocks(c.Context(), in.RegionID, in.TS)
}

func (c *call) releaseGC() (any, error) {
	var in PDConfig
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.refuse(); err != nil {
		return nil, err
	}
	up, err := c.upstream()
	if err != nil {
		return nil, err
	}
	return Empty{}, up.ReleaseGC(c.Context())
}

// some is a list that JSON shows as one where it is empty.
func some[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
