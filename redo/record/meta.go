package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Meta is what the log is good for: applied over a downstream that holds all up to
// Checkpoint and nothing above Resolved, it makes the upstream's snapshot at
// Resolved.
type Meta struct {
	Version     int    `json:"version"`
	Cluster     uint64 `json:"cluster"`
	Servers     string `json:"servers,omitempty"`
	Namespace   string `json:"namespace"`
	Changefeed  string `json:"changefeed"`
	Incarnation string `json:"incarnation"`

	// Number is that of the meta, one more than the last. Owner is the revision under
	// which its writer owns the cluster, and Life counts those of one owner: the
	// larger pair is the later writer. Claim is the first of a writer.
	Number uint64 `json:"number"`
	Owner  int64  `json:"owner"`
	Life   uint64 `json:"life"`
	Claim  bool   `json:"claim,omitempty"`

	Checkpoint tso.TS `json:"checkpoint-ts"`
	Resolved   tso.TS `json:"resolved-ts"`
	// Began is the checkpoint with which the log began, and ExactFrom up to where the
	// downstream may have held rows then: with a resolved-ts below it makes no snapshot.
	Began     tso.TS `json:"began,omitempty"`
	ExactFrom tso.TS `json:"exact-from,omitempty"`

	// Writers have files that are needed above Checkpoint, in the order of their names.
	Writers []Extent `json:"writers"`
}

// Extent is how far a writer's files are needed: those from 1 to Files, of which
// the largest commit-ts is Max. What it has put beyond nobody has counted on.
type Extent struct {
	Writer string `json:"writer"`
	Kind   Kind   `json:"kind"`
	Files  uint64 `json:"files"`
	Max    tso.TS `json:"max"`
}

// CompareWriters tells whose meta is the later one's.
func (m *Meta) CompareWriters(o *Meta) int {
	return cmp.Or(cmp.Compare(m.Owner, o.Owner), cmp.Compare(m.Life, o.Life))
}

// CompareExtents is the order of Meta.Writers.
func CompareExtents(a, b Extent) int {
	return cmp.Or(strings.Compare(a.Writer, b.Writer), cmp.Compare(a.Kind, b.Kind))
}

// MetaName is the name of a meta below the log's folder, by its number.
func MetaName(number uint64) string { return fmt.Sprintf("meta/%012d.json", number) }

// ParseMetaName reads the number back.
func ParseMetaName(text string) (uint64, error) {
	var number uint64
	if _, err := fmt.Sscanf(text, "meta/%d.json", &number); err != nil || MetaName(number) != text {
		return 0, cdcerr.RedoCorrupted.New("%q is not the name of a redo log's meta", text)
	}
	return number, nil
}

// checkLine begins the line that closes a meta.
const checkLine = "crc32c "

// Encode is a line of JSON, and a line with its checksum.
func (m *Meta) Encode() ([]byte, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a redo meta: %w", err)
	}
	line = append(line, '\n')
	return fmt.Appendf(line, "%s%08x\n", checkLine, crc32.Checksum(line, castagnoli)), nil
}

// ParseMeta reads what Encode wrote. One that was cut off is cdcerr.RedoTorn.
func ParseMeta(name string, data []byte) (*Meta, error) {
	line, check, ok := bytes.Cut(data, []byte{'\n'})
	if !ok || len(check) < len(checkLine)+9 {
		return nil, cdcerr.RedoTorn.New("%s: it ends after %d bytes, before its checksum", name, len(data))
	}
	if want := fmt.Sprintf("%s%08x\n", checkLine, crc32.Checksum(data[:len(line)+1], castagnoli)); string(check) != want {
		return nil, cdcerr.RedoCorrupted.New("%s: it ends with %q, its bytes have %q", name, check, want)
	}
	m := &Meta{}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, cdcerr.RedoCorrupted.Wrap(err, "%s", name)
	}
	switch {
	case m.Version > Version:
		return nil, cdcerr.RedoVersion.New("%s: version %d of the format, this release reads up to %d", name, m.Version, Version)
	case m.Version < 1:
		return nil, cdcerr.RedoCorrupted.New("%s: version %d", name, m.Version)
	case m.Checkpoint > m.Resolved:
		return nil, cdcerr.RedoCorrupted.New("%s: checkpoint-ts %d above resolved-ts %d", name, m.Checkpoint, m.Resolved)
	case !slices.IsSortedFunc(m.Writers, CompareExtents):
		return nil, cdcerr.RedoCorrupted.New("%s: its writers are out of order", name)
	}
	return m, nil
}

// EncodeExtents writes extents for who passes them on without looking into them.
func EncodeExtents(all ...Extent) ([]byte, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return nil, cdcerr.Bug("extents are no JSON: %v", err)
	}
	return text, nil
}

// ParseExtents reads what EncodeExtents wrote. A field that is not known is one that
// this release would lose.
func ParseExtents(text []byte) ([]Extent, error) {
	var all []Extent
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, cdcerr.RedoCorrupted.New("what a capture says of its files cannot be read: %v: %.200q", err, text)
	}
	for _, e := range all {
		if e.Writer == "" || e.Kind != Rows && e.Kind != DDLs {
			return nil, cdcerr.RedoCorrupted.New("what a capture says of its files names no writer, or no kind: %.200q", text)
		}
	}
	return all, nil
}
