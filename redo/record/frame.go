package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Version is that of the format. A reader refuses what is newer.
const Version = 1

// magic begins every file; the version is its last byte.
const magic = "SLUICER"

// frameHead is kind, codec, length as stored, length in plain, checksum.
const frameHead = 1 + 1 + 4 + 4 + 4

// plainMax bounds a block: the largest row that TiDB can be told to take has an old
// value of the same size, and a block ends with the entry that fills it.
const plainMax = 1 << 30

// The kinds of frames.
const (
	frameHeadKind  = 1
	frameBlockKind = 2
	frameEndKind   = 3
)

// Codec is how a block is compressed.
type Codec uint8

// The codecs.
const (
	Plain Codec = iota
	LZ4
	Zstd
)

// ParseCodec reads the word of the configuration; empty is Plain.
func ParseCodec(word string) (Codec, error) {
	switch word {
	case "", "none":
		return Plain, nil
	case "lz4":
		return LZ4, nil
	case "zstd":
		return Zstd, nil
	}
	return Plain, cdcerr.RedoConfigInvalid.New("consistent.compression %q: must be empty, lz4 or zstd", word)
}

func (c Codec) String() string {
	if int(c) >= len(codecNames) {
		return fmt.Sprintf("codec %d", c)
	}
	return codecNames[c]
}

var codecNames = [...]string{"none", "lz4", "zstd"}

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Packer compresses blocks. It belongs to one goroutine.
type Packer struct {
	codec Codec
	lz4   lz4.Compressor
	zstd  *zstd.Encoder
}

// NewPacker is one for a codec.
func NewPacker(codec Codec) (*Packer, error) {
	p := &Packer{codec: codec}
	if codec != Zstd {
		return p, nil
	}
	var err error
	// One at a time, without its own goroutines: whoever wants more has more Packers.
	p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return p, nil
}

// frame appends a frame. What gets no smaller stays plain.
func (p *Packer) frame(dst []byte, kind byte, plain []byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	codec := p.codec
	switch codec {
	case Zstd:
		dst = p.zstd.EncodeAll(plain, dst)
	case LZ4:
		dst = append(dst, make([]byte, lz4.CompressBlockBound(len(plain)))...)
		n, err := p.lz4.CompressBlock(plain, dst[at+frameHead:])
		if err != nil {
			return nil, fmt.Errorf("lz4: %w", err)
		}
		dst = dst[:at+frameHead+n]
	case Plain:
	}
	if stored := len(dst) - at - frameHead; stored == 0 || stored >= len(plain) {
		codec = Plain
		dst = append(dst[:at+frameHead], plain...)
	}
	head := dst[at : at+frameHead]
	head[0], head[1] = kind, byte(codec)
	binary.LittleEndian.PutUint32(head[2:], uint32(len(dst)-at-frameHead))
	binary.LittleEndian.PutUint32(head[6:], uint32(len(plain)))
	binary.LittleEndian.PutUint32(head[10:], checksum(head, dst[at+frameHead:]))
	return dst, nil
}

// checksum covers all of a frame but itself.
func checksum(head, stored []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:frameHead-4], castagnoli), castagnoli, stored)
}

// Unpacker decompresses blocks. It belongs to one goroutine.
type Unpacker struct{ zstd *zstd.Decoder }

// NewUnpacker is one for all codecs.
func NewUnpacker() (*Unpacker, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(plainMax))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Unpacker{zstd: d}, nil
}

// frame is one that was cut from a file.
type frame struct {
	kind   byte
	codec  Codec
	plain  int
	stored []byte
}

// cutFrame takes the frame at the front of b. Torn says that b ends too soon.
func cutFrame(b []byte) (f frame, rest []byte, torn bool, err error) {
	if len(b) < frameHead {
		return f, nil, true, nil
	}
	head := b[:frameHead]
	stored := binary.LittleEndian.Uint32(head[2:])
	f = frame{kind: head[0], codec: Codec(head[1]), plain: int(binary.LittleEndian.Uint32(head[6:]))}
	if uint64(stored) > uint64(len(b)-frameHead) {
		// A damaged length looks like a torn end: it is an error to its reader either way.
		return f, nil, true, nil
	}
	f.stored, rest = b[frameHead:frameHead+int(stored)], b[frameHead+int(stored):]
	if want, got := binary.LittleEndian.Uint32(head[10:]), checksum(head, f.stored); want != got {
		return f, nil, false, fmt.Errorf("checksum %08x, the bytes have %08x", want, got)
	}
	if f.plain > plainMax {
		return f, nil, false, fmt.Errorf("a block of %d bytes, at most %d", f.plain, plainMax)
	}
	return f, rest, false, nil
}

// unpack is a frame's content.
func (u *Unpacker) unpack(f frame) (plain []byte, err error) {
	switch f.codec {
	case Plain:
		plain = f.stored
	case Zstd:
		// The claimed length is believed as far as what is stored can bear it.
		plain, err = u.zstd.DecodeAll(f.stored, make([]byte, 0, min(f.plain, 64*len(f.stored))))
	case LZ4:
		if f.plain > 256*len(f.stored)+64 {
			return nil, fmt.Errorf("lz4: %d bytes cannot become %d", len(f.stored), f.plain)
		}
		plain = make([]byte, f.plain)
		n := 0
		n, err = lz4.UncompressBlock(f.stored, plain)
		plain = plain[:max(n, 0)]
	default:
		return nil, fmt.Errorf("codec %d is not one", f.codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", f.codec, err)
	}
	if len(plain) != f.plain {
		return nil, fmt.Errorf("%v: %d bytes, %d were put in", f.codec, len(plain), f.plain)
	}
	return plain, nil
}
