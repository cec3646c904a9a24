package mount

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
)

// The checksum's header: which version, and whether a second checksum follows.
const (
	checksumVersion = 0x07
	checksumExtra   = 0x08
)

// The versions, all CRC32 (IEEE), stored little endian.
const (
	overColumns = 0 // to TiDB 8.2: the cells, column by column
	overKey     = 1 // 8.3: the value up to and with the header byte, then the raw key
	overHandle  = 2 // from 8.4: the same, then the handle only
)

// checkTrailer holds what follows the cells against the row's flag.
func (v *rowV2) checkTrailer(flagged bool) error {
	if !flagged {
		if len(v.trailer) > 0 {
			return fmt.Errorf("%d bytes after the last cell", len(v.trailer))
		}
		return nil
	}
	if len(v.trailer) == 0 {
		return fmt.Errorf("the row has no checksum but a flag for one")
	}
	header := v.trailer[0]
	if header&^(checksumVersion|checksumExtra) != 0 || header&checksumVersion > overHandle {
		return fmt.Errorf("checksum header %#02x is unknown", header)
	}
	size := 1 + 4
	if header&checksumExtra != 0 {
		size += 4
	}
	if len(v.trailer) != size {
		return fmt.Errorf("a checksum of %d bytes, its header asks for %d", len(v.trailer), size)
	}
	return nil
}

// checksums are those that the row carries, and their version.
func (v *rowV2) checksums() (version byte, first, second uint32) {
	header := v.trailer[0]
	first = binary.LittleEndian.Uint32(v.trailer[1:])
	second = first
	if header&checksumExtra != 0 {
		second = binary.LittleEndian.Uint32(v.trailer[5:])
	}
	return header & checksumVersion, first, second
}

// verifyBytes compares the checksums that are taken over bytes.
func (r *reader) verifyBytes(v *rowV2) error {
	if len(v.trailer) == 0 {
		return nil
	}
	version, stored, _ := v.checksums()
	if version == overColumns {
		return nil
	}
	rest := r.handle
	if version == overKey {
		rest = r.key
	}
	covered := v.value[:len(v.value)-len(v.trailer)+1]
	sum := crc32.Update(crc32.ChecksumIEEE(covered), crc32.IEEETable, rest)
	if sum != stored {
		return checksumError(version, stored, sum)
	}
	return nil
}

// verifyColumns compares the checksum that is taken over cells. It covers what
// the row had when it was written: not a column that is absent from it, and the
// cells of columns that the table does not show in one of two checksums only,
// or in the only one. They cannot be had without their types, so a row with
// such cells that matches neither proves nothing. Nor does the value before a
// change: the columns may have had other types when it was written, and with
// them other text (a TIMESTAMP that has become TIMESTAMP(3)); it was verified
// when it came as the value after.
func (r *reader) verifyColumns(v *rowV2, cells event.Image, unknown int) error {
	if len(v.trailer) == 0 {
		return nil
	}
	version, first, second := v.checksums()
	if version != overColumns {
		return nil
	}
	sum := columnChecksum(r.t.Columns, cells)
	if sum == first || sum == second || unknown > 0 {
		return nil
	}
	return checksumError(version, first, sum)
}

func checksumError(version byte, stored, computed uint32) error {
	return cdcerr.ChecksumMismatch.New("checksum of version %d: the row carries %08X, its bytes give %08X", version, stored, computed)
}

// columnChecksum is over the cells in order of their columns' ids. Cells that
// are NULL or that the row does not have add nothing.
func columnChecksum(columns []event.Column, cells event.Image) uint32 {
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(columns[a].ID - columns[b].ID) })
	var buf []byte
	sum := uint32(0)
	for _, i := range order {
		buf = appendForChecksum(buf[:0], &columns[i], cells[i])
		sum = crc32.Update(sum, crc32.IEEETable, buf)
	}
	return sum
}

// appendForChecksum appends numbers as 8 bytes, little endian; strings, and
// the text of times, decimals and JSON, after their length in 4; and a vector
// as it is stored. TIMESTAMP text is UTC.
func appendForChecksum(dst []byte, c *event.Column, v event.Value) []byte {
	switch v.Kind() {
	case event.Int:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.Int()))
	case event.Uint, event.Enum, event.Set, event.Bit:
		return binary.LittleEndian.AppendUint64(dst, v.Uint())
	case event.Float:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case event.Bytes, event.Time, event.Duration, event.Decimal, event.JSON:
		start := len(dst)
		dst = v.AppendText(append(dst, 0, 0, 0, 0), c)
		binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
		return dst
	case event.Vector:
		return append(dst, v.Raw()...)
	}
	return dst
}
