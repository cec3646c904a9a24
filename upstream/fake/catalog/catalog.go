package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// KV is one raw key of the store and its new value, nil where it is deleted.
type KV struct {
	Key   []byte
	Value []byte
}

// Catalog is a cluster's metadata, as the last committed step left it. It is
// not safe for concurrent use.
type Catalog struct {
	// OldCollations says that the cluster was set up without new collations.
	OldCollations bool

	dbs    map[int64]*DBInfo
	tables map[int64]map[int64]*TableInfo // by database and table
	other  map[string][]byte              // by readable key: counters, policies, whatever stands beside
	lost   map[string][]byte              // of other: counters that are gone, with their last value
	past   []version                      // databases and tables that were replaced or dropped, oldest first
	jobs   map[int64]*JobInfo             // finished
	seq    uint64                         // of finished jobs since the server started
}

// version is what a database or a table was until another took its place.
type version struct {
	until uint64 // commit-ts of the change
	db    int64
	table *TableInfo // nil: the version of a database
	info  *DBInfo
}

// New is the catalog of a store without any key.
func New() *Catalog {
	return &Catalog{
		dbs:    map[int64]*DBInfo{},
		tables: map[int64]map[int64]*TableInfo{},
		other:  map[string][]byte{},
		lost:   map[string][]byte{},
		jobs:   map[int64]*JobInfo{},
	}
}

// Apply takes a change of one key that was committed at commit. Keys other
// than those of metadata are passed over.
func (c *Catalog) Apply(kv KV, commit uint64) error {
	name, field, ok := splitKey(kv.Key)
	if !ok {
		return nil
	}
	if err := c.apply(name, field, kv.Value, commit); err != nil {
		return fmt.Errorf("catalog: key %s/%s: %w", name, field, err)
	}
	return nil
}

func (c *Catalog) apply(name, field string, value []byte, commit uint64) error {
	db, isDB := strings.CutPrefix(name, "DB:")
	table, isTable := strings.CutPrefix(field, "Table:")
	switch {
	case name == "DBs":
		return c.applyDB(strings.TrimPrefix(field, "DB:"), value, commit)
	case isDB && isTable:
		return c.applyTable(db, table, value, commit)
	case name == "DDLJobHistory":
		if len(field) != 8 {
			return fmt.Errorf("a job id of %d bytes", len(field))
		}
		id := int64(binary.BigEndian.Uint64([]byte(field)))
		job := &JobInfo{}
		if value == nil {
			delete(c.jobs, id)
			return nil
		}
		if err := json.Unmarshal(value, job); err != nil {
			return err
		}
		c.jobs[id] = job
		return nil
	}
	c.set(otherKey(name, field), value)
	return nil
}

func (c *Catalog) applyDB(id string, value []byte, commit uint64) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return err
	}
	if old := c.dbs[n]; old != nil {
		c.past = append(c.past, version{until: commit, db: n, info: old})
	}
	if value == nil {
		delete(c.dbs, n)
		return nil
	}
	db := &DBInfo{}
	if err := json.Unmarshal(value, db); err != nil {
		return err
	}
	c.dbs[n] = db
	return nil
}

func (c *Catalog) applyTable(db, table string, value []byte, commit uint64) error {
	schema, err := strconv.ParseInt(db, 10, 64)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(table, 10, 64)
	if err != nil {
		return err
	}
	if old := c.tables[schema][id]; old != nil {
		c.past = append(c.past, version{until: commit, db: schema, table: old})
	}
	if value == nil {
		delete(c.tables[schema], id)
		return nil
	}
	info := &TableInfo{}
	if err := json.Unmarshal(value, info); err != nil {
		return err
	}
	if c.tables[schema] == nil {
		c.tables[schema] = map[int64]*TableInfo{}
	}
	c.tables[schema][id] = info
	return nil
}

func (c *Catalog) set(key string, value []byte) {
	if value == nil {
		if old := c.other[key]; old != nil {
			c.lost[key] = old
		}
		delete(c.other, key)
		return
	}
	c.other[key] = value
}

// Version is the schema version.
func (c *Catalog) Version() int64 { return c.number("SchemaVersionKey") }

// number reads a counter that is kept as decimal text; one that is not there is 0.
func (c *Catalog) number(key string) int64 { return number(c.other[key]) }

// Database finds a database by its name, without regard to case.
func (c *Catalog) Database(name string) *DBInfo {
	lower := strings.ToLower(name)
	for _, id := range slices.Sorted(maps.Keys(c.dbs)) {
		if db := c.dbs[id]; db.Name.L == lower {
			return db
		}
	}
	return nil
}

// Databases are all databases, by id.
func (c *Catalog) Databases() []*DBInfo {
	out := make([]*DBInfo, 0, len(c.dbs))
	for _, id := range slices.Sorted(maps.Keys(c.dbs)) {
		out = append(out, c.dbs[id])
	}
	return out
}

// Tables are all tables of a database, by id. They must not be changed.
func (c *Catalog) Tables(db int64) []*TableInfo {
	out := make([]*TableInfo, 0, len(c.tables[db]))
	for _, id := range slices.Sorted(maps.Keys(c.tables[db])) {
		out = append(out, c.tables[db][id])
	}
	return out
}

// Table finds a table by its names, nil where there is none. It must not be
// changed: a later step puts another in its place.
func (c *Catalog) Table(db, name string) *TableInfo {
	d := c.Database(db)
	if d == nil {
		return nil
	}
	return c.tableIn(d.ID, name)
}

func (c *Catalog) tableIn(db int64, name string) *TableInfo {
	lower := strings.ToLower(name)
	for _, t := range c.Tables(db) {
		if t.Name.L == lower {
			return t
		}
	}
	return nil
}

// tableAt is a table as it was in a snapshot at ts.
func (c *Catalog) tableAt(db, id int64, ts uint64) *TableInfo {
	for _, v := range c.past {
		if v.table != nil && v.db == db && v.table.ID == id && v.until > ts {
			return v.table
		}
	}
	return c.tables[db][id]
}

// tablesAt are the tables of a database in a snapshot at ts, by id. Only tables
// that were replaced or dropped since are looked for.
func (c *Catalog) tablesAt(db int64, ts uint64) []*TableInfo {
	at := map[int64]*TableInfo{}
	for _, v := range slices.Backward(c.past) {
		if v.table != nil && v.db == db && v.until > ts {
			at[v.table.ID] = v.table
		}
	}
	out := make([]*TableInfo, 0, len(at))
	for _, id := range slices.Sorted(maps.Keys(at)) {
		out = append(out, at[id])
	}
	return out
}

// dbAt is a database as it was in a snapshot at ts.
func (c *Catalog) dbAt(id int64, ts uint64) *DBInfo {
	for _, v := range c.past {
		if v.info != nil && v.db == id && v.until > ts {
			return v.info
		}
	}
	return c.dbs[id]
}

// otherKey is the readable form of a key: "Policies/Policy:2", "NextGlobalID".
func otherKey(name, field string) string {
	if field == "" {
		return name
	}
	return name + "/" + field
}

// rawKey is the stored form of a readable key.
func rawKey(key string) []byte {
	name, field, ok := strings.Cut(key, "/")
	if !ok {
		return encode.StringKey(name)
	}
	return encode.HashKey(name, field)
}

// splitKey takes a stored key of metadata apart; field is empty for a value of
// its own. Lists and the counts of old hashes are not looked at.
func splitKey(key []byte) (name, field string, ok bool) {
	if len(key) == 0 || key[0] != 'm' {
		return "", "", false
	}
	first, rest, ok := cutBytes(key[1:])
	if !ok || len(rest) < 8 {
		return "", "", false
	}
	kind := binary.BigEndian.Uint64(rest)
	switch rest = rest[8:]; kind {
	case 's':
		return string(first), "", len(rest) == 0
	case 'h':
		second, rest, ok := cutBytes(rest)
		return string(first), string(second), ok && len(rest) == 0
	}
	return "", "", false
}

// cutBytes takes a memory-comparable byte string from the front of b.
func cutBytes(b []byte) (out, rest []byte, ok bool) {
	const group = 8
	for len(b) > group {
		pad := 0xff - int(b[group])
		if pad < 0 || pad > group {
			return nil, nil, false
		}
		out = append(out, b[:group-pad]...)
		b = b[group+1:]
		if pad > 0 {
			return out, b, true
		}
	}
	return nil, nil, false
}

// Forget drops what is kept of databases and tables that another took the place
// of before ts. What was dropped before cannot be recovered any more.
func (c *Catalog) Forget(before uint64) {
	c.past = slices.DeleteFunc(c.past, func(v version) bool { return v.until < before })
}
