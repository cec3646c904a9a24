package upstream

import (
	"bytes"
	"context"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/constants"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// keyspace is the part of a shared cluster that is one TiDB's. Its keys carry a
// prefix on the wire, which ends at this package's door: nobody else sees it.
// The zero keyspace is a cluster of TiDB's own.
type keyspace struct {
	name   string
	id     uint32
	prefix []byte // nil without a keyspace
}

// prefixLen is x and three bytes of the keyspace's id, big-endian.
const prefixLen = 4

func newKeyspace(name string, id uint32) keyspace {
	return keyspace{name: name, id: id, prefix: []byte{'x', byte(id >> 16), byte(id >> 8), byte(id)}}
}

// end is the first key behind the keyspace.
func (k *keyspace) end() []byte {
	end := bytes.Clone(k.prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			break
		}
	}
	return end
}

// full is a key as it stands on the wire.
func (k *keyspace) full(key []byte) []byte {
	if k.prefix == nil {
		return key
	}
	return append(k.prefix[:prefixLen:prefixLen], key...)
}

// fullEnd is the same for the end of a range, where empty means no end.
func (k *keyspace) fullEnd(key []byte) []byte {
	if k.prefix == nil || len(key) > 0 {
		return k.full(key)
	}
	return k.end()
}

// spanKey is a raw key, without the prefix, as it stands in spans on the wire.
func (k *keyspace) spanKey(raw string) span.Key { return span.EncodeKey(k.full([]byte(raw))) }

// cut takes the prefix off a key.
func (k *keyspace) cut(key []byte) ([]byte, error) {
	if k.prefix == nil {
		return key, nil
	}
	rest, ok := bytes.CutPrefix(key, k.prefix)
	if !ok {
		return nil, cdcerr.Bug("key %X is not of keyspace %s (%d)", key, k.name, k.id)
	}
	return rest, nil
}

// span is a span of memcomparable keys as it stands on the wire.
func (k *keyspace) span(s span.Span) (span.Span, error) {
	if k.prefix == nil {
		return s, nil
	}
	from, end, err := rawBorders(s)
	if err != nil {
		return s, cdcerr.InvalidArgument.Wrap(err, "%v", s)
	}
	return span.Span{TableID: s.TableID, Start: span.EncodeKey(k.full(from)), End: span.EncodeKey(k.fullEnd(end))}, nil
}

// inner is the part of a span on the wire without the prefix, for messages.
func (k *keyspace) inner(s span.Span) span.Span {
	if k.prefix == nil {
		return s
	}
	from, end, err := rawBorders(s)
	if err != nil {
		return s
	}
	in := span.Span{TableID: s.TableID}
	if rest, ok := bytes.CutPrefix(from, k.prefix); ok && len(rest) > 0 {
		in.Start = span.EncodeKey(rest)
	}
	if rest, ok := bytes.CutPrefix(end, k.prefix); ok {
		in.End = span.EncodeKey(rest)
	}
	return in
}

// context tells a store which keyspace a call is about.
func (k *keyspace) context(in *kvrpcpb.Context) *kvrpcpb.Context {
	if k.prefix != nil {
		in.ApiVersion, in.KeyspaceName = kvrpcpb.APIVersion_V2, k.name
		in.Keyspace = &kvrpcpb.Context_KeyspaceId{KeyspaceId: k.id}
	}
	return in
}

// gcScope is the keyspace whose GC PD is asked about.
func (k *keyspace) gcScope() uint32 {
	if k.prefix == nil {
		return constants.NullKeyspaceID
	}
	return k.id
}

// loadKeyspace asks PD for the keyspace of a name.
func (c *Client) loadKeyspace(ctx context.Context, client pd.Client, name string) (keyspace, error) {
	cc := client.GetServiceDiscovery().GetServingEndpointClientConn()
	if cc == nil {
		return keyspace{}, cdcerr.PDUnreachable.New("keyspace %s: PD has no leader", name)
	}
	resp, err := keyspacepb.NewKeyspaceClient(cc).LoadKeyspace(ctx, &keyspacepb.LoadKeyspaceRequest{
		Header: &pdpb.RequestHeader{ClusterId: client.GetClusterID(ctx)}, Name: name})
	if err != nil {
		return keyspace{}, cdcerr.PDUnreachable.Wrap(err, "keyspace %s", name)
	}
	meta := resp.GetKeyspace()
	switch e := resp.GetHeader().GetError(); {
	case e.GetType() == pdpb.ErrorType_ENTRY_NOT_FOUND:
		return keyspace{}, cdcerr.KeyspaceNotFound.New("keyspace %s: PD does not know it", name)
	case e != nil:
		return keyspace{}, cdcerr.PDUnreachable.New("keyspace %s: PD says: %v", name, e)
	case meta.GetState() != keyspacepb.KeyspaceState_ENABLED:
		return keyspace{}, cdcerr.KeyspaceNotFound.New("keyspace %s: it is %v", name, meta.GetState())
	case meta.GetId() > 0xFFFFFF:
		return keyspace{}, cdcerr.KeyspaceNotFound.New("keyspace %s: its id %d has more than three bytes", name, meta.GetId())
	}
	return newKeyspace(name, meta.GetId()), nil
}
