package fake

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/mvcc"
)

// journalLocked writes a committed version down, before anybody is told of it: what a
// subscriber has is in the journal, however this process ends.
func (c *Cluster) journalLocked(ch *mvcc.Change) {
	if c.cfg.Journal == nil || c.journalErr != nil || ch.Kind != mvcc.Commit && ch.Kind != mvcc.Committed || !ch.Op.Data() {
		return
	}
	for _, v := range c.store.Versions(ch.Key) {
		if v.CommitTS == ch.CommitTS { // a change has no long value
			_, c.journalErr = c.cfg.Journal.Write(appendRecord(nil, ch.Key, v))
			return
		}
	}
	c.journalErr = fmt.Errorf("key %X has no version of %d, which was committed", ch.Key, ch.CommitTS)
}

// appendRecord adds a version: its length, op, start-ts, commit-ts, key and value.
func appendRecord(dst []byte, key []byte, v mvcc.Version) []byte {
	body := []byte{byte(v.Op)}
	body = binary.BigEndian.AppendUint64(body, uint64(v.StartTS))
	body = binary.BigEndian.AppendUint64(body, uint64(v.CommitTS))
	body = binary.AppendUvarint(body, uint64(len(key)))
	body = append(append(body, key...), v.Value...)
	return append(binary.AppendUvarint(dst, uint64(len(body))), body...)
}

// ReadJournal is the data of a cluster whose journal this is. What was cut off at its end
// nobody has been told of.
func ReadJournal(from io.Reader) (mvcc.Snapshot, error) {
	store := mvcc.New()
	r := bufio.NewReader(from)
	for {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return store.Snapshot(), ended(err)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return store.Snapshot(), ended(err)
		}
		const head = 1 + 8 + 8
		if len(body) < head {
			return store.Snapshot(), fmt.Errorf("a record of %d bytes", len(body))
		}
		size, width := binary.Uvarint(body[head:])
		if rest := body[head:]; width <= 0 || size > uint64(len(rest)-width) {
			return store.Snapshot(), fmt.Errorf("a record with a key of %d bytes", size)
		}
		key, value := body[head+width:][:size:size], body[head+width:][size:]
		store.Load(key, mvcc.Version{
			Op: mvcc.Op(body[0]), StartTS: tso.TS(binary.BigEndian.Uint64(body[1:])), CommitTS: tso.TS(binary.BigEndian.Uint64(body[9:])), Value: value,
		})
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
