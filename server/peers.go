package server

import (
	"context"

	"github.com/sluice-cdc/sluice/transport"
)

// newTransport is what a session's capture says to the others, and hears from them,
// on the port that is there already.
func (n *node) newTransport(g Given) (*transport.Transport, error) {
	cfg := transport.Default()
	cfg.Self, cfg.Cluster, cfg.Service, cfg.Log = g.Self.ID, n.cfg.ClusterID, n.peers, g.Log
	if n.cfg.Security.Encrypts() {
		cfg.TLS = n.cfg.Security.Client
	}
	return transport.New(cfg)
}

// converse carries messages for as long as the session lasts.
func (n *node) converse(ctx context.Context, t *transport.Transport) error {
	n.meter.converse(t)
	defer n.meter.converse(nil)
	return t.Run(ctx)
}

func (m *meter) converse(t *transport.Transport) { m.peers.Store(t) }

// collectPeers is what captures say to each other.
func collectPeers(r readout, c transport.Counts) {
	const messages, bytes, streams, dropped = "sluice_transport_message_count", "sluice_transport_byte_count",
		"sluice_transport_stream_count", "sluice_transport_dropped_message_count"
	r.put(messages, float64(c.OrdersSent), "direction", "sent", "kind", "orders")
	r.put(messages, float64(c.ReportsSent), "direction", "sent", "kind", "report")
	r.put(messages, float64(c.OrdersReceived), "direction", "received", "kind", "orders")
	r.put(messages, float64(c.ReportsReceived), "direction", "received", "kind", "report")
	r.put(bytes, float64(c.BytesSent), "direction", "sent")
	r.put(bytes, float64(c.BytesReceived), "direction", "received")
	r.put("sluice_transport_waiting_message_count", float64(c.Waiting))
	r.put(streams, float64(c.Streams), "direction", "out")
	r.put(streams, float64(c.Callers), "direction", "in")
	r.put("sluice_transport_broken_stream_count", float64(c.Broken))
	r.put("sluice_transport_failed_stream_count", float64(c.Failed))
	r.put(dropped, float64(c.Replaced), "reason", "replaced")
	r.put(dropped, float64(c.Unclaimed), "reason", "unclaimed")
	r.put(dropped, float64(c.Refused), "reason", "refused")
	r.put(dropped, float64(c.Strange), "reason", "strange")
	r.put(dropped, float64(c.Oversize), "reason", "oversize")
}
