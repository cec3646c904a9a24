package record

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// The kinds of entries in a block.
const (
	entryTable  = 1
	entryTxn    = 2
	entryChange = 3
	entryDDL    = 4
)

// blockBytes is how large a block grows before another one begins: enough for a
// compressor to find what repeats, little enough that many readers each hold one.
const blockBytes = 512 << 10

// Head is what a file says of itself.
type Head struct {
	Kind        Kind
	Cluster     uint64 // of the upstream
	Namespace   string
	Changefeed  string
	Incarnation string // of the changefeed: one for each time it was created or set anew
	Writer      string
	Run         uint64
	Number      uint64
	// BeforeMax is the largest commit-ts in the writer's files before this one: what
	// tells files that were removed, because nobody needs them, from such as are missing.
	BeforeMax tso.TS
	Program   string // who wrote it
}

// Builder gathers what becomes one file. Every change that it is given must follow
// what it was given before, in (commit-ts, start-ts, key): RawKV.Less.
type Builder struct {
	kind   Kind
	blocks [][]byte // full ones
	block  []byte
	tables map[*event.Table]uint64
	bytes  int

	rows, ddls    uint64
	min, max      tso.TS
	start, commit tso.TS // of the transaction at the end
}

// NewBuilder is an empty one.
func NewBuilder(kind Kind) *Builder {
	return &Builder{kind: kind, tables: map[*event.Table]uint64{}}
}

// Bytes is how much it holds, in plain.
func (b *Builder) Bytes() int { return b.bytes + len(b.block) }

// Empty tells whether there is anything in it.
func (b *Builder) Empty() bool { return b.rows == 0 && b.ddls == 0 }

// Max is the largest commit-ts in it.
func (b *Builder) Max() tso.TS { return b.max }

// Change adds one change with the table by which it is to be decoded.
func (b *Builder) Change(raw *event.RawKV, t *event.Table) {
	id, known := b.tables[t]
	if !known {
		id = uint64(len(b.tables))
		b.tables[t] = id
		b.block = append(b.block, entryTable)
		b.block = binary.AppendUvarint(b.block, id)
		b.block = protowire.AppendBytes(b.block, appendTable(nil, t))
	}
	if b.rows == 0 || raw.StartTS != b.start || raw.CommitTS != b.commit {
		b.block = append(b.block, entryTxn)
		b.block = binary.AppendUvarint(b.block, uint64(raw.StartTS))
		b.block = binary.AppendUvarint(b.block, uint64(raw.CommitTS))
		b.start, b.commit = raw.StartTS, raw.CommitTS
	}
	b.block = append(b.block, entryChange, byte(raw.Op))
	b.block = binary.AppendUvarint(b.block, id)
	b.block = protowire.AppendBytes(b.block, raw.Key)
	b.block = protowire.AppendBytes(b.block, raw.Value)
	b.block = protowire.AppendBytes(b.block, raw.Old)
	b.span(raw.CommitTS)
	b.rows++
	b.cut()
}

// DDL adds a DDL.
func (b *Builder) DDL(d *event.DDL) {
	b.block = append(b.block, entryDDL)
	b.block = protowire.AppendBytes(b.block, appendDDL(nil, d))
	b.span(d.SwitchTS)
	b.ddls++
	b.cut()
}

func (b *Builder) span(ts tso.TS) {
	if b.Empty() || ts < b.min {
		b.min = ts
	}
	b.max = max(b.max, ts)
}

// cut ends a block that is full.
func (b *Builder) cut() {
	if len(b.block) >= blockBytes {
		b.blocks = append(b.blocks, b.block)
		b.bytes += len(b.block)
		b.block = make([]byte, 0, blockBytes+blockBytes/8)
	}
}

// Encode is the file, and its name. What of h the Builder knows itself is not
// looked at. The Builder is used up: each block is given up as soon as it is in the file,
// so that the two together take little more than the larger of them.
func (b *Builder) Encode(h Head, p *Packer) (Name, []byte, error) {
	if b.Empty() {
		return Name{}, nil, cdcerr.Bug("a file of a redo log with nothing in it")
	}
	h.Kind = b.kind
	blocks, left := b.blocks, b.Bytes()
	if len(b.block) > 0 {
		blocks = append(blocks, b.block)
	}
	b.blocks, b.block = nil, nil
	plain := &Packer{codec: Plain}
	out, err := plain.frame(append([]byte(magic), Version), frameHeadKind, appendHead(nil, &h))
	if err != nil {
		return Name{}, nil, err
	}
	for i, block := range blocks {
		at := len(out)
		if out, err = p.frame(out, frameBlockKind, block); err != nil {
			return Name{}, nil, err
		}
		left -= len(block)
		// The rest will be about as dense as this block.
		if rest := int(float64(left) * float64(len(out)-at) / float64(len(block))); i == 0 || cap(out)-len(out) < blockBytes {
			out = slices.Grow(out, rest+rest/8+endBytes)
		}
		blocks[i] = nil
	}
	end := End{Rows: b.rows, DDLs: b.ddls, Min: b.min, Max: b.max, Blocks: uint64(len(blocks))}
	if out, err = plain.frame(out, frameEndKind, appendEnd(nil, &end)); err != nil {
		return Name{}, nil, err
	}
	return Name{Kind: b.kind, Min: b.min, Max: b.max, Writer: h.Writer, Run: h.Run, Number: h.Number}, out, nil
}

// endBytes is more than the last frame takes.
const endBytes = 256
