package transport

import "sync/atomic"

// Counts is what one capture has said and heard since it began.
type Counts struct {
	OrdersSent, ReportsSent         uint64
	OrdersReceived, ReportsReceived uint64
	BytesSent, BytesReceived        uint64 // of messages
	// Replaced gave way to newer ones of the same changefeed and peer.
	Replaced uint64
	// Unclaimed came for a changefeed of which nobody takes messages here; Refused is
	// what peers said so of.
	Unclaimed, Refused uint64
	// Strange had a word of a later version, or was not meant for who got it; Oversize
	// could not be sent.
	Strange, Oversize uint64
	// Broken are streams that were there, Failed are attempts at one.
	Broken, Failed uint64
	// Waiting is how many messages wait to be sent now, Streams and Callers how many
	// streams are open, ours and others'.
	Waiting, Streams, Callers int
}

// meter is what Counts is read from.
type meter struct {
	sent, received             [2]atomic.Uint64 // by kind
	bytesSent, bytesReceived   atomic.Uint64
	replaced, unclaimed        atomic.Uint64
	refused, strange, oversize atomic.Uint64
	broken, failed             atomic.Uint64
}

// Counts is how it stands.
func (t *Transport) Counts() Counts {
	m := &t.meter
	c := Counts{
		OrdersSent: m.sent[kindOrders].Load(), ReportsSent: m.sent[kindReport].Load(),
		OrdersReceived: m.received[kindOrders].Load(), ReportsReceived: m.received[kindReport].Load(),
		BytesSent: m.bytesSent.Load(), BytesReceived: m.bytesReceived.Load(),
		Replaced: m.replaced.Load(), Unclaimed: m.unclaimed.Load(), Refused: m.refused.Load(),
		Strange: m.strange.Load(), Oversize: m.oversize.Load(), Broken: m.broken.Load(), Failed: m.failed.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.Callers = len(t.callers)
	for _, p := range t.peers {
		s := p.status()
		c.Waiting += s.Waiting
		if s.Connected {
			c.Streams++
		}
	}
	return c
}
