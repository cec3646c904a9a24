package encode_test

import (
	"slices"
	"testing"

	"github.com/sluice-cdc/sluice/internal/golden"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

// change is a committed write of one key; Old is what stood there before.
type change struct {
	commitTS   tso.TS
	key        []byte
	value, old []byte
}

// replay hands out all of a recording's committed changes: the snapshot's
// metadata first, then the stream's, each when its commit comes.
func replay(t *testing.T, recording string, use func(change) error) {
	t.Helper()
	must := func(c change) {
		if err := use(c); err != nil {
			t.Fatalf("%s: key %X at %d: %v", recording, c.key, c.commitTS, err)
		}
	}
	golden.Meta(t, recording, func(key, value []byte) { must(change{key: key, value: value}) })
	type id struct {
		key   string
		start tso.TS
	}
	open := map[id]golden.Line{}
	golden.Stream(t, recording, func(l golden.Line) {
		at := id{string(l.Key), l.StartTS}
		switch l.Type {
		case "PREWRITE":
			open[at] = l
		case "ROLLBACK":
			delete(open, at)
		case "COMMIT":
			w, ok := open[at]
			if !ok {
				return // its prewrite is still to come, or comes as COMMITTED
			}
			delete(open, at)
			must(change{commitTS: l.CommitTS, key: w.Key, value: w.Value, old: w.Old})
		case "COMMITTED":
			must(change{commitTS: l.CommitTS, key: l.Key, value: l.Value, old: l.Old})
		}
	})
}

// shapes is what every table looked like at every moment, with all that TiDB
// keeps in its rows: hidden columns, those on their way in or out, and those
// that are gone but still in rows that nobody has written since.
type shapes struct {
	databases map[int64]*schema.DBInfo
	versions  map[int64][]version // by physical id
}

type version struct {
	from tso.TS
	info *schema.TableInfo
	db   int64
}

// learn takes in a change of the metadata; it does nothing with other changes.
func (s *shapes) learn(c change) error {
	k, ok := schema.ParseMetaKey(c.key)
	if !ok || len(c.value) == 0 {
		return nil // rows of a table that is gone may still come
	}
	if k.TableID == 0 {
		db, err := schema.ParseDBInfo(c.value)
		if err == nil {
			s.databases[db.ID] = db
		}
		return err
	}
	info, err := schema.ParseTableInfo(c.value)
	if err != nil {
		return err
	}
	for i := range info.Columns {
		info.Columns[i].State = schema.SchemaPublic
		info.Columns[i].Hidden = false
		// While a column is being rewritten TiDB stores virtual ones as well.
		info.Columns[i].GeneratedStored = true
	}
	if before, ok := s.at(info.ID, tso.Max); ok {
		for _, c := range before.info.Columns {
			if !slices.ContainsFunc(info.Columns, func(now schema.ColumnInfo) bool { return now.ID == c.ID }) {
				info.Columns = append(info.Columns, c)
			}
		}
	}
	ids := []int64{info.ID}
	if p := info.Partition; p != nil {
		for _, defs := range [][]schema.PartitionDef{p.Definitions, p.Adding, p.Dropping} {
			for _, d := range defs {
				ids = append(ids, d.ID)
			}
		}
	}
	for _, id := range ids {
		s.versions[id] = append(s.versions[id], version{from: c.commitTS, info: info, db: k.SchemaID})
	}
	return nil
}

// at is the last version of a physical table below a commit-ts.
func (s *shapes) at(physicalID int64, commitTS tso.TS) (version, bool) {
	var best version
	for _, v := range s.versions[physicalID] {
		if v.from < commitTS && v.from >= best.from {
			best = v
		}
	}
	return best, best.info != nil
}
