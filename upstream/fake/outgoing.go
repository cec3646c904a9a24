package fake

import (
	"encoding/binary"

	"github.com/pingcap/kvproto/pkg/cdcpb"
)

// outgoing is a ChangeDataEvent on its way to the wire: Events, some of which
// may be encoded already, or one ResolvedTs.
type outgoing struct {
	events   []outEvent
	resolved *cdcpb.ResolvedTs
}

// outEvent is an Event, or the encoded entries of one.
type outEvent struct {
	event           *cdcpb.Event
	region, request uint64
	entries         []byte
}

func (o *outgoing) add(it *item) {
	switch {
	case it.event != nil:
		o.events = append(o.events, outEvent{event: it.event})
	case it.encoded != nil:
		o.events = append(o.events, outEvent{region: it.sub.region, request: it.sub.request, entries: it.encoded})
	default:
		o.events = append(o.events, outEvent{event: &cdcpb.Event{
			RegionId: it.sub.region, RequestId: it.sub.request,
			Event: &cdcpb.Event_Entries_{Entries: &cdcpb.Event_Entries{Entries: it.rows}},
		}})
	}
}

// Field tags of cdcpb.ChangeDataEvent and cdcpb.Event: number << 3 | wire type.
const (
	tagEvents    = 1<<3 | 2
	tagResolved  = 2<<3 | 2
	tagRegionID  = 1 << 3
	tagEntries   = 3<<3 | 2
	tagRequestID = 7 << 3
)

// Size is the length of the encoded message.
func (o *outgoing) Size() int {
	if o.resolved != nil {
		n := o.resolved.Size()
		return 1 + uvarintLen(uint64(n)) + n
	}
	total := 0
	for i := range o.events {
		n := o.events[i].size()
		total += 1 + uvarintLen(uint64(n)) + n
	}
	return total
}

// MarshalToSizedBuffer encodes into buf, which is Size long.
func (o *outgoing) MarshalToSizedBuffer(buf []byte) (int, error) {
	if o.resolved != nil {
		n := o.resolved.Size()
		out := append(buf[:0], tagResolved)
		out = binary.AppendUvarint(out, uint64(n))
		_, err := o.resolved.MarshalToSizedBuffer(buf[len(out) : len(out)+n])
		return len(out) + n, err
	}
	out := buf[:0]
	for i := range o.events {
		e := &o.events[i]
		n := e.size()
		out = append(out, tagEvents)
		out = binary.AppendUvarint(out, uint64(n))
		if e.event != nil {
			if _, err := e.event.MarshalToSizedBuffer(buf[len(out) : len(out)+n]); err != nil {
				return 0, err
			}
			out = buf[:len(out)+n]
			continue
		}
		out = append(out, tagRegionID)
		out = binary.AppendUvarint(out, e.region)
		out = append(out, tagEntries)
		out = binary.AppendUvarint(out, uint64(len(e.entries)))
		out = append(out, e.entries...)
		out = append(out, tagRequestID)
		out = binary.AppendUvarint(out, e.request)
	}
	return len(out), nil
}

func (e *outEvent) size() int {
	if e.event != nil {
		return e.event.Size()
	}
	n := len(e.entries)
	return 1 + uvarintLen(e.region) + 1 + uvarintLen(uint64(n)) + n + 1 + uvarintLen(e.request)
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
