package record

import (
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Kind is what a file holds.
type Kind uint8

// The kinds of files.
const (
	Rows Kind = iota + 1
	DDLs
)

func (k Kind) String() string {
	switch k {
	case Rows:
		return "rows"
	case DDLs:
		return "ddls"
	}
	return fmt.Sprintf("kind %d", k)
}

// suffix ends the name of every file of the log.
const suffix = ".redo"

// Name is what a file's name says: enough for a reader, and for who removes files,
// not to open what they do not need. The timestamp up to which comes first: a listing
// shows a log in the order of time.
type Name struct {
	Kind   Kind
	Min    tso.TS // of the commit-ts in it; of DDLs the switch-ts
	Max    tso.TS
	Writer string // one name for each life of each writer
	// Run counts up where a writer's order went back: the files of one run follow
	// one another in (commit-ts, start-ts, key).
	Run    uint64
	Number uint64 // of the writer's files, from 1 on without a gap
}

// String is the name below the log's folder.
func (n Name) String() string {
	return fmt.Sprintf("%s/%020d-%020d-%s-%06d-%010d%s", n.Kind, n.Max, n.Min, n.Writer, n.Run, n.Number, suffix)
}

// CheckWriter refuses what cannot be a writer's name in that of a file.
func CheckWriter(writer string) error {
	if writer == "" || len(writer) > 64 || strings.Trim(writer, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return cdcerr.InvalidArgument.New("writer %q: must have 1 to 64 of a–z and 0–9", writer)
	}
	return nil
}

// ParseName reads a name below the log's folder.
func ParseName(text string) (Name, error) {
	bad := cdcerr.RedoCorrupted.New("%q is not the name of a file of a redo log", text)
	var n Name
	kind, rest, ok := strings.Cut(text, "/")
	switch {
	case !ok || !strings.HasSuffix(rest, suffix):
		return n, bad
	case kind == Rows.String():
		n.Kind = Rows
	case kind == DDLs.String():
		n.Kind = DDLs
	default:
		return n, bad
	}
	parts := strings.Split(strings.TrimSuffix(rest, suffix), "-")
	if len(parts) != 5 {
		return n, bad
	}
	n.Writer = parts[2]
	if _, err := fmt.Sscanf(parts[0]+" "+parts[1]+" "+parts[3]+" "+parts[4], "%d %d %d %d", &n.Max, &n.Min, &n.Run, &n.Number); err != nil {
		return n, bad
	}
	// There is one way to write a name.
	if CheckWriter(n.Writer) != nil || n.Min > n.Max || n.Number == 0 || n.String() != text {
		return n, bad
	}
	return n, nil
}
