package catalog

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/mount"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

var worldSeed = flag.Uint64("seed", 0, "run this one seed of the random worlds")

// world is a cluster that only a catalog and writers make, and a changefeed's
// reader of schemas and rows beside it, which knows nothing of either.
type world struct {
	t      *testing.T
	rnd    *rand.Rand
	c      *Catalog
	now    uint64
	meta   map[string]KV // of metadata, by raw key
	reader *schema.Store
	sort   encode.Sorter
	before map[string]*Shape // what servers one version behind know, by table
	after  map[string]*Shape
	rows   []written
	rowID  int64
	log    []string // statements and steps, for failures
	tally  map[string]int

	failing bool // the next job that can is made to fail
}

// written is a row that some server has committed under one key.
type written struct {
	kv     KV
	commit uint64
	cells  map[int64]string // as text, by column id; NULL has none
	nulls  map[int64]bool
	set    int  // rows of one write share a number
	newest bool // by a server that knows the last version
	what   string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), now: uint64(tso.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))),
		meta: map[string]KV{}, sort: encode.Plain{}, before: map[string]*Shape{}, after: map[string]*Shape{}, tally: map[string]int{},
	}
	c, kvs, err := Bootstrap(tso.TS(w.now))
	if err != nil {
		t.Fatal(err)
	}
	c.OldCollations = true
	w.c = c
	w.keep(kvs)
	w.reader = w.load(tso.TS(w.tick()))
	return w
}

// tick is the next timestamp.
func (w *world) tick() uint64 {
	w.now += 1 << 18
	return w.now
}

func (w *world) keep(kvs []KV) {
	for _, kv := range kvs {
		if kv.Key[0] != 'm' {
			continue
		}
		if kv.Value == nil {
			delete(w.meta, string(kv.Key))
		} else {
			w.meta[string(kv.Key)] = kv
		}
	}
}

// load is a reader that starts from the metadata as it is.
func (w *world) load(start tso.TS) *schema.Store {
	w.t.Helper()
	s := schema.NewStore(start)
	for _, dbs := range []bool{true, false} {
		for _, kv := range w.meta {
			k, ok := schema.ParseMetaKey(kv.Key)
			if !ok || (k.TableID == 0) != dbs {
				continue
			}
			if dbs {
				db, err := schema.ParseDBInfo(kv.Value)
				if err != nil {
					w.t.Fatal(err)
				}
				s.LoadDatabase(db)
				continue
			}
			info, err := schema.ParseTableInfo(kv.Value)
			if err == nil {
				err = s.LoadTable(k.SchemaID, info)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return s
}

// run plans a statement and takes its jobs through all their steps, while
// servers of the present and of the last version write.
func (w *world) run(sql string) error {
	jobs, err := w.c.Plan(sql, w.session())
	if err != nil {
		return err
	}
	w.log = append(w.log, sql)
	for _, j := range jobs {
		for steps := 1; !j.Ended(); steps++ {
			if steps > 80 {
				return fmt.Errorf("job %d does not end: %+v", j.Info().ID, j.Info())
			}
			if w.failing && steps > 2 && w.rnd.IntN(3) == 0 && j.Fail(1062, "Duplicate entry") == nil {
				w.tally["failed"]++
				w.failing = false
			}
			if err := w.step(j); err != nil {
				return err
			}
		}
		w.tally[fmt.Sprint("action ", j.Info().Type)]++
	}
	return nil
}

func (w *world) step(j *Job) error {
	start := w.tick()
	s, err := j.Next(tso.TS(start))
	if err != nil {
		return err
	}
	commit := w.tick()
	w.log = append(w.log, fmt.Sprintf("  %d job %d/%d state %d schema state %d version %d", commit, s.Job.ID, s.Job.Type, s.Job.State, s.Job.SchemaState, s.Version))
	w.keep(s.Writes)
	if err := w.tell(s, start, commit); err != nil {
		return err
	}
	w.before = w.after
	w.after = map[string]*Shape{}
	for _, db := range w.c.Databases() {
		for _, t := range w.c.Tables(db.ID) {
			if db.Name.L == "mysql" || t.View != nil || t.Sequence != nil || t.TempTableType != 0 {
				continue
			}
			shape, err := NewShape(db, t, true)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", db.Name.O, t.Name.O, err)
			}
			w.after[db.Name.L+"."+t.Name.L] = shape
		}
	}
	return w.write()
}

// tell lets the reader follow a step.
func (w *world) tell(s *Step, start, commit uint64) error {
	for _, kv := range s.Writes {
		if kv.Key[0] == 'm' {
			continue
		}
		raw := &event.RawKV{Op: event.Put, Key: kv.Key, Value: kv.Value, StartTS: tso.TS(start), CommitTS: tso.TS(commit)}
		if kv.Value == nil {
			raw.Op = event.Delete
		}
		row, ok, err := mount.JobRow(raw)
		if err != nil || !ok {
			return fmt.Errorf("job row %x: %v, %w", kv.Key, ok, err)
		}
		if err := w.reader.Step(row); err != nil {
			return err
		}
	}
	if err := w.reader.Resolve(tso.TS(commit)); err != nil {
		return err
	}
	for _, r := range w.reader.Ready().Reads {
		var tables []*schema.TableInfo
		for _, kv := range w.meta {
			if k, ok := schema.ParseMetaKey(kv.Key); ok && k.SchemaID == r.SchemaID && k.TableID != 0 {
				info, err := schema.ParseTableInfo(kv.Value)
				if err != nil {
					return err
				}
				tables = append(tables, info)
			}
		}
		if err := w.reader.Answer(r, tables); err != nil {
			return err
		}
	}
	return nil
}

// write lets servers of both versions write a row into some tables.
func (w *world) write() error {
	for _, shapes := range []map[string]*Shape{w.after, w.before} {
		names := make([]string, 0, len(shapes))
		for name, s := range shapes {
			if s.Info.State == StatePublic {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for range min(3, len(names)) {
			if err := w.writeRow(shapes[names[w.rnd.IntN(len(names))]], reflect.ValueOf(shapes).Pointer() == reflect.ValueOf(w.after).Pointer()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) writeRow(s *Shape, newest bool) error {
	w.rowID++
	r := Row{RowID: w.rowID}
	for i := range s.Table.Columns {
		r.Values = append(r.Values, w.value(&s.Table.Columns[i]))
	}
	kvs, err := s.Put(r, w.sort, encode.OverHandle)
	var refused *Error
	if errors.As(err, &refused) {
		w.tally["refused rows"]++
		return nil // no partition takes it, or it does not fit the column under way
	}
	if err != nil {
		return err
	}
	row := written{commit: w.tick(), cells: map[int64]string{}, nulls: map[int64]bool{}, set: len(w.rows), newest: newest}
	note := func(c *event.Column, v encode.Value) error {
		if v == nil {
			row.nulls[c.ID] = true
			return nil
		}
		text, err := textOf(c, v)
		row.cells[c.ID] = text
		return err
	}
	for i := range s.Table.Columns {
		if c := &s.Table.Columns[i]; c.Generated != event.Virtual {
			if err := note(c, r.Values[i]); err != nil {
				return err
			}
		}
	}
	cells, err := s.row(r)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if err := note(c.Column, c.Value); err != nil {
			return err
		}
	}
	for _, kv := range kvs {
		row.kv, row.what = kv, fmt.Sprintf("%s, newest %v, after %s", s.Table.FullName(), newest, w.log[len(w.log)-1])
		w.rows = append(w.rows, row)
	}
	if len(kvs) > 1 {
		w.tally["doubled rows"]++
	}
	return nil
}

// value is some value of a column, of a kind that most types can be turned into.
func (w *world) value(c *event.Column) encode.Value {
	n := w.rnd.IntN(90) + 10
	switch {
	case c.Generated == event.Virtual, !c.NotNull() && w.rnd.IntN(8) == 0:
		return nil
	case c.Type == event.TypeYear:
		return int64(2000 + n)
	case c.Type == event.TypeEnum, c.Type == event.TypeSet, c.Type == event.TypeBit:
		return uint64(1)
	case isNumber(c.Type) && c.Type != event.TypeFloat && c.Type != event.TypeDouble && c.Type != event.TypeNewDecimal:
		if c.Unsigned() {
			return uint64(n)
		}
		return int64(n)
	}
	switch c.Type {
	case event.TypeFloat, event.TypeDouble:
		return float64(n)
	case event.TypeNewDecimal:
		return encode.Decimal(strconv.Itoa(n))
	case event.TypeDate:
		return encode.Moment{Year: 2024, Month: 5, Day: n%28 + 1}
	case event.TypeDatetime, event.TypeTimestamp:
		return encode.Moment{Year: 2024, Month: 5, Day: n%28 + 1, Hour: 1}
	case event.TypeDuration:
		return time.Duration(n) * time.Second
	case event.TypeJSON:
		return encode.JSON(strconv.Itoa(n))
	}
	if c.IsBinary() && c.Type == event.TypeString {
		return []byte(strconv.Itoa(n) + strings.Repeat("\x00", max(c.Flen-2, 0)))
	}
	return []byte(strconv.Itoa(n))
}

// check lets the reader decode every row by what it knows of its commit-ts.
func (w *world) check() error {
	known := map[int]bool{}
	for _, r := range w.rows {
		id, _, _ := mount.ParseRecordKey(r.kv.Key)
		table, ok := w.reader.TableAt(id, tso.TS(r.commit))
		if !ok {
			w.tally["rows of unknown ids"]++
			continue
		}
		known[r.set] = true
		row, err := mount.Row(&event.RawKV{Op: event.Put, Key: r.kv.Key, Value: r.kv.Value, CommitTS: tso.TS(r.commit)}, table)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", r.what, r.commit, err)
		}
		for i := range row.After {
			if err := r.compare(&table.Columns[i], row.After[i]); err != nil {
				return fmt.Errorf("%s at %d, by version %d of %s: %w", r.what, r.commit, table.Version, table.FullName(), err)
			}
		}
		w.tally["rows"]++
	}
	for _, r := range w.rows {
		if r.newest && !known[r.set] {
			return fmt.Errorf("%s at %d: no table is known for any of its keys, such as %x", r.what, r.commit, r.kv.Key)
		}
	}
	return nil
}

// compare holds a decoded cell against what was written.
func (r *written) compare(c *event.Column, v event.Value) error {
	if c.Generated == event.Virtual {
		return nil
	}
	text, has := r.cells[c.ID]
	got, err := valueOf(c, v)
	if err != nil {
		return err
	}
	switch {
	case has:
		is, err := textOf(c, got)
		if got == nil || err != nil || is != text && (c.Type != event.TypeJSON) {
			return fmt.Errorf("column %s is %v, want %q", c.Name, got, text)
		}
	case r.nulls[c.ID]:
		if got != nil {
			return fmt.Errorf("column %s is %v, want NULL", c.Name, got)
		}
	default:
		if !v.Equal(c.Absent) {
			return fmt.Errorf("column %s is %v, want what rows have that are older than it", c.Name, got)
		}
	}
	return nil
}

// agree holds what the reader has followed against the metadata itself.
func (w *world) agree() error {
	fresh := w.load(tso.TS(w.tick()))
	got, want := w.reader.Tables(tso.TS(w.now)), fresh.Tables(tso.TS(w.now))
	byID := func(a, b *event.Table) int { return int(a.ID - b.ID) }
	got = slices.DeleteFunc(slices.Clone(got), func(t *event.Table) bool { return t.Schema == "mysql" })
	want = slices.DeleteFunc(slices.Clone(want), func(t *event.Table) bool { return t.Schema == "mysql" })
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if len(got) != len(want) {
		return fmt.Errorf("%d tables followed, %d in the metadata", len(got), len(want))
	}
	for i := range got {
		g, x := *got[i], *want[i]
		g.Version, x.Version = 0, 0
		if !reflect.DeepEqual(g, x) {
			return fmt.Errorf("table %s (%d) is followed as\n%+v\nand in the metadata\n%+v", x.FullName(), x.ID, g, x)
		}
	}
	return nil
}

// follow runs a statement, and holds the reader against the metadata after it.
func (w *world) follow(sql string) {
	w.t.Helper()
	if err := w.run(sql); err != nil {
		w.fatal(fmt.Errorf("%s: %w", sql, err))
	}
	if err := w.agree(); err != nil {
		w.fatal(fmt.Errorf("after %s: %w", sql, err))
	}
}

func (w *world) session() Session {
	return Session{DB: "d0", SQLMode: DefaultSQLMode, Now: tso.TS(w.now).Time()}
}

func (w *world) fatal(err error) {
	w.t.Helper()
	w.t.Fatalf("%v\n%s", err, strings.Join(w.log[max(0, len(w.log)-60):], "\n"))
}
