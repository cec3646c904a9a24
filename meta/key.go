package meta

import (
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/capture"
)

// ChangefeedID names a changefeed within a cluster of Sluice.
type ChangefeedID struct {
	Namespace string
	Name      string
}

// DefaultNamespace is where changefeeds are that nobody put elsewhere.
const DefaultNamespace = "default"

// String is namespace/name.
func (id ChangefeedID) String() string { return id.Namespace + "/" + id.Name }

func (id ChangefeedID) validate() error {
	if err := checkWord("namespace", id.Namespace); err != nil {
		return err
	}
	return checkWord("changefeed", id.Name)
}

// kind is what a key is.
type kind uint8

const (
	otherKey kind = iota // not ours to read: an older or a newer Sluice's
	versionKey
	identityKey
	ownerKey
	captureKey
	drainKey
	infoKey
	statusKey
)

// key is a key of the layout, taken apart.
type key struct {
	kind       kind
	capture    capture.ID
	changefeed ChangefeedID
	lease      string // of an owner's, in hex
}

// layout is where the keys of one cluster are.
type layout struct{ root string } // <prefix>/<cluster>/

func newLayout(prefix, cluster string) layout { return layout{prefix + "/" + cluster + "/"} }

func (l layout) version() string  { return l.root + "meta/version" }
func (l layout) identity() string { return l.root + "meta/cluster" }
func (l layout) owners() string   { return l.root + "owner/" }
func (l layout) captures() string { return l.root + "capture/" }
func (l layout) drains() string   { return l.root + "drain/" }
func (l layout) feeds() string    { return l.root + "changefeed/" }

func (l layout) owner(lease int64) string      { return fmt.Sprintf("%s%016x", l.owners(), lease) }
func (l layout) capture(id capture.ID) string  { return l.captures() + string(id) }
func (l layout) drain(id capture.ID) string    { return l.drains() + string(id) }
func (l layout) info(id ChangefeedID) string   { return l.feed(id) + "/info" }
func (l layout) status(id ChangefeedID) string { return l.feed(id) + "/status" }
func (l layout) feed(id ChangefeedID) string   { return l.feeds() + id.Namespace + "/" + id.Name }

// parse takes a key apart. One that is not of this layout is otherKey: it may be
// a later version's, and is nobody's error.
func (l layout) parse(s string) key {
	rest, ok := strings.CutPrefix(s, l.root)
	if !ok {
		return key{}
	}
	parts := strings.Split(rest, "/")
	for _, p := range parts {
		if p == "" {
			return key{}
		}
	}
	switch {
	case rest == "meta/version":
		return key{kind: versionKey}
	case rest == "meta/cluster":
		return key{kind: identityKey}
	case len(parts) == 2 && parts[0] == "owner":
		return key{kind: ownerKey, lease: parts[1]}
	case len(parts) == 2 && parts[0] == "capture":
		return key{kind: captureKey, capture: capture.ID(parts[1])}
	case len(parts) == 2 && parts[0] == "drain":
		return key{kind: drainKey, capture: capture.ID(parts[1])}
	case len(parts) == 4 && parts[0] == "changefeed":
		k := key{changefeed: ChangefeedID{Namespace: parts[1], Name: parts[2]}}
		switch parts[3] {
		case "info":
			k.kind = infoKey
		case "status":
			k.kind = statusKey
		default:
			return key{}
		}
		return k
	}
	return key{}
}
