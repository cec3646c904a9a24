package verify

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/sluice-cdc/sluice/tso"
)

// Stream is what a recorded change stream says of commits: which physical ids had
// rows written at which commit-ts. It is read from the file, beside everything
// that carries the rows.
type Stream struct {
	commits map[place]bool // true where what a table holds changed
}

// backfill is the bit of a transaction's source by which TiKV withholds a column
// reorganisation's own writes.
const backfill = 1 << 8

// ReadStream reads a NAME.jsonl.gz; name is for messages.
func ReadStream(name string, r io.Reader) (*Stream, error) {
	type write struct {
		key   string
		start tso.TS
	}
	s := &Stream{commits: map[place]bool{}}
	held := map[write]bool{} // what was deleted and had been there
	deletes := map[write]place{}
	err := readLines(name, r, func(l *line) error {
		if l.Type != "PREWRITE" && l.Type != "COMMIT" && l.Type != "COMMITTED" || l.TxnSource&backfill != 0 {
			return nil
		}
		key, err := hex.DecodeString(l.Key)
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		id, ok := physicalID(key)
		if !ok {
			return nil
		}
		w, at := write{l.Key, l.StartTS}, place{l.CommitTS, id}
		put := l.Op != "DELETE"
		if !put && l.Old != "" {
			held[w] = true
		}
		if l.Type != "PREWRITE" {
			s.commits[at] = s.commits[at] || put
			if !put {
				deletes[w] = at
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for w, at := range deletes {
		s.commits[at] = s.commits[at] || held[w]
	}
	return s, nil
}

// has tells whether rows of a physical id were committed at that ts.
func (s *Stream) has(at place) bool {
	_, ok := s.commits[at]
	return ok
}

// still tells whether that commit did nothing but delete what was not there: no
// event comes of it.
func (s *Stream) still(at place) bool {
	changed, ok := s.commits[at]
	return ok && !changed
}

// physicalID is the table or partition of a record key.
func physicalID(key []byte) (int64, bool) {
	key = withoutKeyspace(key)
	if len(key) <= tablePrefix || key[0] != 't' || string(key[9:tablePrefix]) != "_r" {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(key[1:9]) ^ 1<<63), true
}
