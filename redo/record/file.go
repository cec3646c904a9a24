package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// End is what a file says of itself at its end: that it has one, and what should
// have come before.
type End struct {
	Rows   uint64
	DDLs   uint64
	Min    tso.TS
	Max    tso.TS
	Blocks uint64
}

// Entry is one change with its table, or a DDL.
type Entry struct {
	Raw   *event.RawKV
	Table *event.Table
	DDL   *event.DDL
}

// TS is the commit-ts of a change, the switch-ts of a DDL.
func (e *Entry) TS() tso.TS {
	if e.DDL != nil {
		return e.DDL.SwitchTS
	}
	return e.Raw.CommitTS
}

// rawsChunk is how many changes are allocated at once: what keeps one keeps the bytes
// of its block, beside which they are little.
const rawsChunk = 128

// File is one that is read. It belongs to one goroutine.
type File struct {
	Head Head
	End  End // once Next has given io.EOF

	name   string // for errors
	unpack *Unpacker
	size   int
	rest   []byte // frames to come
	block  []byte // entries to come
	tables []*event.Table
	raws   []event.RawKV // of those to come
	start  tso.TS        // of the transaction that is read
	commit tso.TS
	seen   End
	done   bool
}

// Open reads a file's head. The file's bytes must not change while it is read, nor
// while what came of it is in use.
func Open(name string, data []byte, u *Unpacker) (*File, error) {
	f := &File{name: name, unpack: u, size: len(data)}
	if len(data) <= len(magic) {
		return nil, f.torn()
	}
	if string(data[:len(magic)]) != magic {
		return nil, cdcerr.RedoCorrupted.New("%s: it begins with %q, a redo log's file with %q", name, data[:len(magic)], magic)
	}
	if v := data[len(magic)]; v != Version {
		return nil, cdcerr.RedoVersion.New("%s: version %d of the format, this release reads %d", name, v, Version)
	}
	f.rest = data[len(magic)+1:]
	head, err := f.frame()
	if err != nil {
		return nil, err
	}
	if head.kind != frameHeadKind {
		return nil, f.corrupted(fmt.Errorf("the first frame is of kind %d, a head of %d", head.kind, frameHeadKind))
	}
	plain, err := u.unpack(head)
	if err == nil {
		err = parseHead(plain, &f.Head)
	}
	if err != nil {
		return nil, f.corrupted(err)
	}
	return f, nil
}

// at is how many bytes have been read.
func (f *File) at() int { return f.size - len(f.rest) }

func (f *File) torn() error {
	return cdcerr.RedoTorn.New("%s: it ends after %d bytes, in the midst of what should be there", f.name, f.size)
}

func (f *File) corrupted(err error) error {
	return cdcerr.RedoCorrupted.Wrap(err, "%s: before byte %d of %d", f.name, f.at(), f.size)
}

func (f *File) frame() (frame, error) {
	fr, rest, torn, err := cutFrame(f.rest)
	switch {
	case torn:
		return fr, f.torn()
	case err != nil:
		return fr, f.corrupted(err)
	}
	f.rest = rest
	return fr, nil
}

// Next is the next entry, io.EOF after the last of a file that is whole.
func (f *File) Next() (Entry, error) {
	for {
		if f.done {
			return Entry{}, io.EOF
		}
		if len(f.block) == 0 {
			if err := f.nextBlock(); err != nil {
				return Entry{}, err
			}
			continue
		}
		e, ok, err := f.entry()
		if err != nil {
			return Entry{}, f.corrupted(err)
		}
		if ok {
			return e, nil
		}
	}
}

// nextBlock unpacks the next block, or reads the end.
func (f *File) nextBlock() error {
	fr, err := f.frame()
	if err != nil {
		return err
	}
	plain, err := f.unpack.unpack(fr)
	if err != nil {
		return f.corrupted(err)
	}
	switch fr.kind {
	case frameBlockKind:
		if len(plain) == 0 {
			return f.corrupted(errors.New("an empty block"))
		}
		f.block = plain
		f.seen.Blocks++
		return nil
	case frameEndKind:
		if err := parseEnd(plain, &f.End); err != nil {
			return f.corrupted(err)
		}
		if f.End != f.seen || len(f.rest) > 0 {
			return f.corrupted(fmt.Errorf("its end says %+v, there was %+v and %d bytes more", f.End, f.seen, len(f.rest)))
		}
		f.done = true
		return nil
	}
	return f.corrupted(fmt.Errorf("a frame of kind %d among blocks", fr.kind))
}

// entry takes one from the block; ok says that it is one to hand on.
func (f *File) entry() (e Entry, ok bool, err error) {
	kind := f.block[0]
	f.block = f.block[1:]
	switch kind {
	case entryTable:
		return e, false, f.table()
	case entryTxn:
		f.start, f.commit = tso.TS(f.uvarint(&err)), tso.TS(f.uvarint(&err))
		return e, false, err
	case entryChange:
		e, err = f.change()
		return e, err == nil, err
	case entryDDL:
		d := &event.DDL{}
		if body := f.bytes(&err); err == nil {
			err = parseDDL(body, d)
		}
		f.see(d.SwitchTS)
		f.seen.DDLs++
		return Entry{DDL: d}, err == nil, err
	}
	return e, false, fmt.Errorf("an entry of kind %d", kind)
}

func (f *File) table() (err error) {
	id, body := f.uvarint(&err), f.bytes(&err)
	if err != nil {
		return err
	}
	if id != uint64(len(f.tables)) {
		return fmt.Errorf("table %d after %d tables", id, len(f.tables))
	}
	t := &event.Table{}
	if err := parseTable(body, t); err != nil {
		return err
	}
	f.tables = append(f.tables, t)
	return nil
}

func (f *File) change() (e Entry, err error) {
	if len(f.block) == 0 || f.commit == 0 {
		return e, errors.New("a change without its operation or its transaction")
	}
	op := event.Op(f.block[0])
	f.block = f.block[1:]
	id := f.uvarint(&err)
	key, value, old := f.bytes(&err), f.bytes(&err), f.bytes(&err)
	if err != nil {
		return e, err
	}
	if id >= uint64(len(f.tables)) || op != event.Put && op != event.Delete {
		return e, fmt.Errorf("a change of table %d of %d, operation %d", id, len(f.tables), op)
	}
	if len(f.raws) == 0 {
		f.raws = make([]event.RawKV, rawsChunk)
	}
	raw := &f.raws[0]
	f.raws = f.raws[1:]
	*raw = event.RawKV{Op: op, StartTS: f.start, CommitTS: f.commit, Key: key, Value: value, Old: old}
	f.see(raw.CommitTS)
	f.seen.Rows++
	return Entry{Raw: raw, Table: f.tables[id]}, nil
}

func (f *File) see(ts tso.TS) {
	if f.seen.Rows+f.seen.DDLs == 0 || ts < f.seen.Min {
		f.seen.Min = ts
	}
	f.seen.Max = max(f.seen.Max, ts)
}

// uvarint and bytes take the next of the block; after an error they take nothing.
func (f *File) uvarint(err *error) uint64 {
	if *err != nil {
		return 0
	}
	v, n := binary.Uvarint(f.block)
	if n <= 0 {
		*err = errors.New("a number that does not end")
		return 0
	}
	f.block = f.block[n:]
	return v
}

func (f *File) bytes(err *error) []byte {
	if *err != nil {
		return nil
	}
	v, n := protowire.ConsumeBytes(f.block)
	if n < 0 {
		*err = fmt.Errorf("bytes that do not end: %w", protowire.ParseError(n))
		return nil
	}
	f.block = f.block[n:]
	if len(v) == 0 {
		return nil
	}
	return v[:len(v):len(v)]
}
