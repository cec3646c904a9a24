package schemafeed_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/schemafeed"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is an upstream in memory: rows that are committed already, given out in
// batches of a few, with the resolved-ts behind each.
type store struct {
	rows  []event.RawKV // in commit order
	end   tso.TS
	batch int

	mu   sync.Mutex
	subs int
}

func (s *store) put(ts tso.TS, key []byte, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	s.rows = append(s.rows, event.RawKV{Op: event.Put, StartTS: ts - 1, CommitTS: ts, Key: key, Value: b})
	s.end = max(s.end, ts)
}

// job writes one row of a job table, in the old row format.
func (s *store) job(ts tso.TS, table span.TableID, job map[string]any) {
	job["version"] = 2
	column := map[span.TableID]int64{mount.JobTableID: 5, mount.HistoryTableID: 2}[table]
	key := span.AppendInt(span.RecordPrefix(table), int64(job["id"].(int)))
	s.put(ts, key, job)
	last := &s.rows[len(s.rows)-1]
	value := binary.AppendVarint([]byte{0x08}, column)
	value = binary.AppendVarint(append(value, 0x02), int64(len(last.Value)))
	last.Value = append(value, last.Value...)
}

func (s *store) Scan(_ context.Context, start, end []byte, at tso.TS, fn func(key, value []byte) error) error {
	newest := map[string][]byte{}
	var keys []string
	for _, kv := range s.rows {
		if kv.CommitTS > at || bytes.Compare(kv.Key, start) < 0 || bytes.Compare(kv.Key, end) >= 0 {
			continue
		}
		if _, ok := newest[string(kv.Key)]; !ok {
			keys = append(keys, string(kv.Key))
		}
		newest[string(kv.Key)] = kv.Value
	}
	slices.Sort(keys)
	for _, k := range keys {
		if err := fn([]byte(k), newest[k]); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	s.mu.Lock()
	s.subs++
	s.mu.Unlock()
	if sub.FilterLoop {
		return errors.New("job rows of another writer must come too")
	}
	var rows []event.RawKV
	for _, kv := range s.rows {
		if kv.CommitTS > sub.StartTS && sub.Span.Contains(span.EncodeKey(kv.Key)) {
			rows = append(rows, kv)
		}
	}
	for len(rows) > 0 {
		n := min(s.batch, len(rows))
		for n < len(rows) && rows[n].CommitTS == rows[n-1].CommitTS {
			n++
		}
		if err := out(upstream.Batch{Rows: rows[:n], Resolved: rows[n-1].CommitTS}); err != nil {
			return fmt.Errorf("rows of %v: %w", sub.Span, err)
		}
		rows = rows[n:]
	}
	if err := out(upstream.Batch{Resolved: s.end}); err != nil {
		return fmt.Errorf("rows of %v: %w", sub.Span, err)
	}
	<-ctx.Done()
	return ctx.Err()
}

func name(s string) map[string]string { return map[string]string{"O": s, "L": s} }

func info(id int, table string) map[string]any {
	column := map[string]any{"id": 1, "name": name("id"), "state": 5, "type": map[string]any{"Tp": 3}}
	return map[string]any{"id": id, "name": name(table), "state": 5, "cols": []any{column}}
}

func databaseKey(id int) []byte {
	start, _ := schema.DatabasesRange()
	key := binary.BigEndian.AppendUint64(span.AppendKey([]byte{'m'}, []byte("DBs")), 'h')
	if !bytes.HasPrefix(start, key) {
		panic("the range of databases has moved")
	}
	return span.AppendKey(key, fmt.Appendf(nil, "DB:%d", id))
}

func tableKey(db, id int) []byte {
	key := binary.BigEndian.AppendUint64(span.AppendKey([]byte{'m'}, fmt.Appendf(nil, "DB:%d", db)), 'h')
	return span.AppendKey(key, fmt.Appendf(nil, "Table:%d", id))
}

// newStore has one database with one table, since 10.
func newStore() *store {
	s := &store{batch: 3, end: 100}
	s.put(10, databaseKey(1), map[string]any{"id": 1, "db_name": name("app"), "state": 5})
	s.put(10, tableKey(1, 10), info(10, "t"))
	s.put(10, append(tableKey(1, 10), 0), "a counter between the tables") // no key of a table
	return s
}

// drive runs the feed beside fn.
func drive(t *testing.T, f *schemafeed.Feed, fn func()) {
	t.Helper()
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }() // waited for below
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	fn()
}

// until waits for the resolved-ts by the feed's own signal.
func until(t *testing.T, f *schemafeed.Feed, ts tso.TS) {
	t.Helper()
	const patience = 3 * time.Minute
	timeout := time.After(patience)
	for f.Resolved() < ts {
		select {
		case <-f.Advanced():
		case <-timeout:
			t.Fatalf("resolved-ts %d after %v, want %d", f.Resolved(), patience, ts)
		}
	}
}

func TestFeed(t *testing.T) {
	s := newStore()
	s.job(50, mount.JobTableID, map[string]any{"id": 1, "type": 3, "state": 1, "table_id": 11, "binlog": map[string]any{}})
	s.job(100, mount.JobTableID, map[string]any{"id": 1, "type": 3, "state": 4, "schema_id": 1, "table_id": 11, "schema_name": "app",
		"query": "create table u(id int)", "binlog": map[string]any{"SchemaVersion": 7, "TableInfo": info(11, "u")}})
	s.job(101, mount.HistoryTableID, map[string]any{"id": 1, "type": 3, "state": 6, "schema_id": 1, "table_id": 11, "binlog": map[string]any{"SchemaVersion": 7, "TableInfo": info(11, "u")}})
	s.job(110, mount.JobTableID, map[string]any{"id": 2, "type": 4, "state": 4, "schema_id": 1, "table_id": 10, "binlog": map[string]any{"SchemaVersion": 8}})
	s.put(120, []byte("zend"), "")
	var moves []tso.Move
	f := schemafeed.New(schemafeed.Config{StartTS: 100, Record: func(m []tso.Move) { moves = append(moves, m...) }}, s)
	drive(t, f, func() {
		until(t, f, 120)
		if got := f.DDLs(109); len(got) != 1 || got[0].JobID != 1 || got[0].SwitchTS != 100 {
			t.Errorf("up to 109: %+v", got)
		}
		if got := f.DDLs(109); got != nil {
			t.Errorf("twice: %+v", got)
		}
		if got := f.DDLs(120); len(got) != 1 || got[0].JobID != 2 {
			t.Errorf("up to 120: %+v", got)
		}
		for _, want := range []struct {
			id int64
			ts tso.TS
			ok bool
		}{{10, 110, true}, {10, 111, false}, {11, 100, false}, {11, 101, true}} {
			if _, ok := f.TableAt(want.id, want.ts); ok != want.ok {
				t.Errorf("table %d at %d: %v", want.id, want.ts, ok)
			}
		}
		if got := f.Tables(105); len(got) != 2 {
			t.Errorf("tables at 105: %v", got)
		}
		f.Forget(115)
		if _, ok := f.TableAt(10, 110); ok {
			t.Error("the dropped table is remembered")
		}
	})
	if len(moves) == 0 || moves[len(moves)-1].To != 120 || moves[0].From != 99 {
		t.Errorf("moves %v", moves)
	}
}

// A new changefeed gets the DDL at its start-ts; one that is resumed at that DDL
// begins a timestamp later, with the DDL in its tables, also where the job was
// not done yet when its switch was.
func TestStartBesideADDL(t *testing.T) {
	s := newStore()
	changed := info(10, "t")
	changed["cols"] = append(changed["cols"].([]any), map[string]any{"id": 2, "offset": 1, "name": name("v"), "state": 5, "type": map[string]any{"Tp": 3}})
	running := map[string]any{"id": 1, "type": 12, "state": 1, "schema_state": 5, "schema_id": 1, "table_id": 10, "schema_name": "app",
		"binlog": map[string]any{}}
	s.put(100, tableKey(1, 10), changed)
	s.job(100, mount.JobTableID, running)
	s.job(105, mount.JobTableID, map[string]any{"id": 1, "type": 12, "state": 4, "schema_id": 1, "table_id": 10, "schema_name": "app",
		"query": "alter table t modify v int", "binlog": map[string]any{"SchemaVersion": 7, "TableInfo": changed}})
	s.put(120, []byte("zend"), "")
	for _, c := range []struct {
		start          tso.TS
		ddls           int
		columns, after int
	}{{100, 1, 1, 2}, {101, 0, 2, 2}, {106, 0, 2, 2}} {
		f := schemafeed.New(schemafeed.Config{StartTS: c.start}, s)
		drive(t, f, func() {
			until(t, f, 120)
			before := f.Tables(c.start.Prev())
			if got := f.DDLs(120); len(got) != c.ddls || len(before) != 1 || len(before[0].Columns) != c.columns {
				t.Errorf("from %d: DDLs %v, tables %v", c.start, got, before)
			}
			if got := f.Begun(); (len(got) == 1) != (c.start == 101) {
				t.Errorf("from %d: %d jobs count as carried out", c.start, len(got))
			}
			if table, ok := f.TableAt(10, 107); !ok || len(table.Columns) != c.after {
				t.Errorf("from %d: table %v", c.start, table)
			}
		})
	}
}

// The tables of a recovered database are read at the moment of its return.
func TestRecoveredDatabase(t *testing.T) {
	s := newStore()
	s.put(105, tableKey(1, 12), info(12, "late"))
	s.job(105, mount.JobTableID, map[string]any{"id": 2, "type": 2, "state": 4, "schema_id": 1, "binlog": map[string]any{"SchemaVersion": 8}})
	s.job(110, mount.JobTableID, map[string]any{"id": 3, "type": 63, "state": 4, "schema_id": 1,
		"binlog": map[string]any{"SchemaVersion": 9, "DBInfo": map[string]any{"id": 1, "db_name": name("back"), "state": 5}}})
	s.put(111, tableKey(1, 13), info(13, "later"))
	s.put(120, []byte("zend"), "")
	f := schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	drive(t, f, func() {
		until(t, f, 120)
		var tables []string
		for _, c := range f.DDLs(120)[1].Tables {
			tables = append(tables, c.After.FullName())
		}
		if got := strings.Join(tables, " "); got != "back.t back.late" {
			t.Errorf("came back: %s", got)
		}
	})
}

// A TIMESTAMP column from before TiDB 2.1 keeps its default in the zone that
// the cluster was made in.
func TestZoneOfOldColumns(t *testing.T) {
	s := newStore()
	old := info(20, "old")
	old["cols"] = []any{map[string]any{"id": 1, "name": name("ts"), "state": 5, "version": 0,
		"type": map[string]any{"Tp": 7}, "origin_default": "2018-01-01 08:00:00"}}
	s.put(20, tableKey(1, 20), old)
	f := schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	if err := f.Load(t.Context()); !cdcerr.SchemaSnapshot.Is(err) {
		t.Errorf("without mysql.tidb: %v", err)
	}
	s.put(20, databaseKey(2), map[string]any{"id": 2, "db_name": name("mysql"), "state": 5})
	variables := info(21, "tidb")
	text := map[string]any{"Tp": 15, "Charset": "utf8mb4"}
	variables["cols"] = []any{
		map[string]any{"id": 1, "name": name("VARIABLE_NAME"), "state": 5, "type": text},
		map[string]any{"id": 2, "name": name("VARIABLE_VALUE"), "state": 5, "type": text},
	}
	s.put(20, tableKey(2, 21), variables)
	for i, pair := range [][2]string{{"bootstrapped", "True"}, {"system_tz", "Asia/Shanghai"}} {
		row := append([]byte{0x80, 0, 2, 0, 0, 0, 1, 2, byte(len(pair[0])), 0, byte(len(pair[0]) + len(pair[1])), 0}, pair[0]+pair[1]...)
		s.rows = append(s.rows, event.RawKV{Op: event.Put, CommitTS: 20, Key: span.AppendInt(span.RecordPrefix(21), int64(i)), Value: row})
	}
	f = schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	table, _ := f.TableAt(20, 100)
	if got := table.Columns[0].Absent.Text(&table.Columns[0]); got != "2018-01-01 00:00:00" {
		t.Errorf("08:00 in Shanghai is %s in UTC", got)
	}
}

// However many DDLs come, only so many wait: the feed lets go of its
// subscription and takes it up again, and none is lost or told twice.
func TestManyDDLs(t *testing.T) {
	const jobs = 10000
	s := newStore()
	s.batch = 100
	for i := range jobs {
		s.job(tso.TS(200+2*i), mount.JobTableID, map[string]any{"id": i + 1, "type": 3, "state": 4, "schema_id": 1, "table_id": 1000 + i,
			"binlog": map[string]any{"SchemaVersion": i + 1, "TableInfo": info(1000+i, "n")}})
		s.job(tso.TS(201+2*i), mount.HistoryTableID, map[string]any{"id": i + 1, "type": 3, "state": 6, "binlog": map[string]any{"SchemaVersion": i + 1, "TableInfo": info(1000+i, "n")}})
	}
	f := schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	taken, most := 0, 0
	drive(t, f, func() {
		for taken < jobs {
			until(t, f, tso.TS(200+2*taken))
			ddls := f.DDLs(f.Resolved())
			most = max(most, len(ddls))
			for _, d := range ddls {
				if taken++; d.JobID != int64(taken) {
					t.Fatalf("job %d comes as number %d", d.JobID, taken)
				}
			}
		}
	})
	if most > 4096+200 {
		t.Errorf("%d DDLs waited", most)
	}
}

// A taker that waits does not stop the feed for good, nor fill memory.
func TestNobodyTakes(t *testing.T) {
	s := newStore()
	s.batch = 50
	for i := range 9000 {
		s.job(tso.TS(200+i), mount.JobTableID, map[string]any{"id": i + 1, "type": 17, "state": 4, "schema_id": 1, "table_id": 10,
			"binlog": map[string]any{"SchemaVersion": i + 1, "TableInfo": info(10, "t")}})
	}
	f := schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	drive(t, f, func() {
		until(t, f, 200+4095)
		first := f.DDLs(tso.Max)
		until(t, f, tso.TS(200+len(first)+4095))
		second := f.DDLs(tso.Max)
		until(t, f, 200+8999)
		third := f.DDLs(tso.Max)
		all := slices.Concat(first, second, third)
		if len(first) > 4096+50 || len(all) != 9000 || !slices.IsSortedFunc(all, func(a, b *event.DDL) int { return cmp.Compare(a.SwitchTS, b.SwitchTS) }) {
			t.Errorf("%d, %d and %d DDLs", len(first), len(second), len(third))
		}
	})
	if s.subs < 4 {
		t.Errorf("%d subscriptions, the feed never let go", s.subs)
	}
}

// One job table far ahead of the other lets go until the other has come on: its
// rows can only wait.
func TestOneAhead(t *testing.T) {
	s := &lagging{store: newStore(), full: make(chan struct{})}
	s.batch = 50
	for i := range 9000 {
		s.job(tso.TS(200+i), mount.JobTableID, map[string]any{"id": i + 1, "type": 17, "state": 4, "schema_id": 1, "table_id": 10,
			"binlog": map[string]any{"SchemaVersion": i + 1, "TableInfo": info(10, "t")}})
	}
	f := schemafeed.New(schemafeed.Config{StartTS: 100}, s)
	drive(t, f, func() {
		for taken := 0; taken < 9000; {
			until(t, f, tso.TS(200+taken))
			taken += len(f.DDLs(f.Resolved()))
		}
	})
}

// lagging gives nothing of the history before the job table was let go once.
type lagging struct {
	*store
	once sync.Once
	full chan struct{}
}

func (s *lagging) Subscribe(ctx context.Context, sub upstream.Subscription, out func(upstream.Batch) error) error {
	if sub.Span.TableID == mount.HistoryTableID {
		select {
		case <-s.full:
		case <-ctx.Done():
			return ctx.Err()
		}
		return s.store.Subscribe(ctx, sub, out)
	}
	err := s.store.Subscribe(ctx, sub, out)
	s.once.Do(func() { close(s.full) })
	return err
}

func TestErrors(t *testing.T) {
	broken := newStore()
	broken.rows = append(broken.rows, event.RawKV{Op: event.Put, CommitTS: 105, Key: span.AppendInt(span.RecordPrefix(mount.JobTableID), 1), Value: []byte{0x08, 0x0a, 0x02, 0x7f}})
	unknown := newStore()
	unknown.job(105, mount.JobTableID, map[string]any{"id": 1, "type": 999, "state": 4, "binlog": map[string]any{"SchemaVersion": 1}})
	otherTable, otherDatabase := newStore(), newStore()
	otherTable.put(20, tableKey(1, 20), info(21, "u"))
	otherDatabase.put(20, databaseKey(2), map[string]any{"id": 3, "db_name": name("other"), "state": 5})
	half := newStore()
	half.put(20, tableKey(1, 20), "no table")
	for _, c := range []struct {
		name  string
		up    schemafeed.Upstream
		start tso.TS
		code  *cdcerr.Code
	}{
		{"a job row that cannot be read", broken, 100, cdcerr.InvalidDDLJob},
		{"an unknown action", unknown, 100, cdcerr.UnknownDDL},
		{"no database", &store{batch: 1}, 100, cdcerr.SchemaSnapshot},
		{"a table under another one's id", otherTable, 100, cdcerr.SchemaSnapshot},
		{"a database under another one's id", otherDatabase, 100, cdcerr.SchemaSnapshot},
		{"a table that cannot be read", half, 100, cdcerr.SchemaSnapshot},
		{"no start-ts", newStore(), 0, cdcerr.InvalidArgument},
		{"a subscription that just ends", quitter{newStore()}, 100, cdcerr.Unexpected},
	} {
		f := schemafeed.New(schemafeed.Config{StartTS: c.start}, c.up)
		err := f.Load(t.Context())
		if err == nil {
			err = f.Run(t.Context())
		}
		if !c.code.Is(err) {
			t.Errorf("%s: %v, want %s", c.name, err, c.code.ID)
		}
	}
}

// quitter ends every subscription at once.
type quitter struct{ *store }

func (quitter) Subscribe(context.Context, upstream.Subscription, func(upstream.Batch) error) error {
	return nil
}
