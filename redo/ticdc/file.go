package ticdc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/pierrec/lz4/v4"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/tso"
)

// Kind is what a file holds.
type Kind string

// The kinds, as they stand in names.
const (
	Rows Kind = "row"
	DDLs Kind = "ddl"
	Meta Kind = "meta"
)

// Name is what a file's name says.
type Name struct {
	Kind Kind
	// Max is the largest commit-ts in the file; 0 for a meta.
	Max tso.TS
	// Unfinished is a file that was being written: its end may be torn, and Max is
	// not known yet.
	Unfinished bool
}

// ParseName reads a file's name. What is no file of a redo log is ok = false.
func ParseName(name string) (n Name, ok bool) {
	ext := path.Ext(name)
	parts := strings.Split(strings.TrimSuffix(path.Base(name), ext), "_")
	switch {
	case ext == ".meta" && len(parts) >= 2 && parts[len(parts)-2] == string(Meta):
		return Name{Kind: Meta}, true
	case len(parts) < 4 || ext != ".log" && ext != ".tmp":
		return n, false
	}
	ts, err := tso.Parse(parts[len(parts)-2])
	n = Name{Kind: Kind(parts[len(parts)-3]), Max: ts, Unfinished: ext == ".tmp"}
	return n, err == nil && (n.Kind == Rows || n.Kind == DDLs)
}

// lz4Magic begins a file that is compressed as a whole.
const lz4Magic = "\x04\x22\x4d\x18"

// recordMax bounds one record: TiCDC's files are rotated at 64 MiB by default, and no
// record is larger than a file.
const recordMax = 1 << 30

// Records calls fn with each record's content, which is fn's until it returns. Where
// the file ends in the midst of one it is cdcerr.RedoTorn, after all that are whole:
// the end of an Unfinished file.
func Records(name string, data []byte, fn func(record []byte) error) error {
	if strings.HasPrefix(string(data[:min(len(data), len(lz4Magic))]), lz4Magic) {
		plain, err := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(data)), 4*recordMax))
		if err != nil {
			return cdcerr.RedoCorrupted.Wrap(err, "%s: lz4", name)
		}
		data = plain
	}
	for at := 0; at < len(data); {
		if len(data)-at < 8 {
			return torn(name, at)
		}
		field := binary.LittleEndian.Uint64(data[at:])
		if field == 0 {
			return nil // what follows was reserved, and not used
		}
		// The low seven bytes are the length; the high one, where there is padding to
		// a multiple of eight, 0x80 and how much.
		length, padding := int64(field&(1<<56-1)), int64(0)
		if field>>63 == 1 {
			padding = int64(field >> 56 & 7)
		}
		if length > recordMax || field>>56 != 0 && field>>63 == 0 {
			return cdcerr.RedoCorrupted.New("%s: a record of %d bytes at %d", name, length, at)
		}
		at += 8
		if length+padding > int64(len(data)-at) || unwritten(data[at:at+int(length)]) {
			return torn(name, at-8)
		}
		if err := fn(data[at : at+int(length)]); err != nil {
			return fmt.Errorf("%s: the record at %d: %w", name, at-8, err)
		}
		at += int(length + padding)
	}
	return nil
}

func torn(name string, at int) error {
	return cdcerr.RedoTorn.New("%s: it ends in the midst of the record at %d", name, at)
}

// unwritten tells whether a record was cut off within a file of reserved length:
// what a disk did not write is zero. No record is.
func unwritten(record []byte) bool {
	const sector = 512
	tail := record[max(0, len(record)-sector):]
	return len(tail) > 0 && len(bytes.Trim(tail, "\x00")) == 0
}
