package schema

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/span"
)

// MetaKey is one of the m keys that hold databases and tables. Field of hash
// Hash, both raw:
//
//	DBs        DB:<id>     a DBInfo
//	DB:<dbid>  Table:<id>  a TableInfo (and TID:<id>, IID:<id>, … counters)
type MetaKey struct {
	SchemaID int64
	TableID  int64 // 0: the key is the database's own
}

const hashFlag = 'h'

// ParseMetaKey reads a raw key; ok is false for all that is neither a database
// nor a table.
func ParseMetaKey(raw []byte) (k MetaKey, ok bool) {
	if len(raw) == 0 || raw[0] != 'm' {
		return k, false
	}
	hash, rest, err := span.CutKey(raw[1:])
	if err != nil || len(rest) < 8 || binary.BigEndian.Uint64(rest) != hashFlag {
		return k, false
	}
	field, rest, err := span.CutKey(rest[8:])
	if err != nil || len(rest) != 0 {
		return k, false
	}
	if string(hash) == "DBs" {
		k.SchemaID, ok = idAfter(string(field), "DB:")
		return k, ok
	}
	if k.SchemaID, ok = idAfter(string(hash), "DB:"); !ok {
		return k, false
	}
	k.TableID, ok = idAfter(string(field), "Table:")
	return k, ok
}

// Names tells that the value's id is the one that the key has: what stands under
// another's key would be taken for that other one.
func (k MetaKey) Names(id int64) error {
	if at := cmp.Or(k.TableID, k.SchemaID); at != id {
		return cdcerr.SchemaSnapshot.New("the metadata under id %d says that it is of id %d", at, id)
	}
	return nil
}

// DatabasesRange is the raw key range of all databases.
func DatabasesRange() (start, end []byte) { return hashRange("DBs", "DB:") }

// TablesRange is the raw key range of all tables of one database.
func TablesRange(schemaID int64) (start, end []byte) {
	return hashRange("DB:"+strconv.FormatInt(schemaID, 10), "Table:")
}

// AllTablesRange is the raw key range of the tables of all databases, and of
// the counters among them.
func AllTablesRange() (start, end []byte) { return []byte("mDB:"), []byte("mDB;") }

// hashRange covers the fields that begin with prefix, which is shorter than a
// memcomparable group and so stands at the front of its bytes as it is.
func hashRange(hash, prefix string) (start, end []byte) {
	start = span.AppendKey([]byte{'m'}, []byte(hash))
	start = binary.BigEndian.AppendUint64(start, hashFlag)
	start = append(start, prefix...)
	end = append([]byte(nil), start...)
	end[len(end)-1]++
	return start, end
}

// idAfter is the number behind prefix, as TiDB writes it: ids begin with 1, and
// one that is written otherwise is nobody's.
func idAfter(s, prefix string) (int64, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil
}
