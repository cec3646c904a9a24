package pipeline_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/pipeline"
	"github.com/sluice-cdc/sluice/sorter"
	"github.com/sluice-cdc/sluice/tso"
)

// Rows that move between the partitions of a unit come in the order in which they were
// committed, however late one partition is, and while the sink is held on one of them.
func TestAUnitIsInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), func(c *pipeline.SpansConfig) { c.BatchRows = 1 }, unit(9, "u", 91, 92))
		p.resolve(200)
		p.s.Prepare(tableSpan(9), 100)
		synctest.Wait()
		p.up.send(91, 110, put(91, 103, 1, 7), remove(91, 106, 1))
		p.wantNews() // there may be more of 92
		p.up.send(92, 108, put(92, 107, 2, 7), remove(92, 108, 2))
		p.wantNews("9 arrived 108")
		p.down.free = make(chan struct{})
		p.down.blockOn = "106 u"
		p.s.Write(tableSpan(9), 100)
		p.want("103 u:insert:1=7")
		p.up.send(91, 120, put(91, 112, 1, 7))
		p.up.send(92, 120)
		p.want() // 107 would be refused: the value is not given up yet
		close(p.down.free)
		p.want("106 u:delete:1=0", "107 u:insert:2=7", "108 u:delete:2=0", "112 u:insert:1=7")
		p.s.Stop(tableSpan(9))
		p.want()
		if ids := p.up.ids(); len(ids) > 0 || p.rows.Used().Memory != 0 {
			t.Fatal(ids, p.rows.Used())
		}
	})
}

func remove(physical int64, commit tso.TS, id int64) event.RawKV {
	return event.RawKV{Op: event.Delete, StartTS: commit - 5, CommitTS: commit, Key: rowKey(physical, id), Old: rowValue(0)}
}

// A unit goes on behind a DDL with the partitions that there are then: it stands at the
// DDL for as long as its limit does, and passes some at once that are done.
func TestAUnitChangesItsPartitionsAtDDLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := unit(9, "u", 91, 92), unit(9, "u", 92, 93), unit(9, "u", 93)
		p := partOf(t, sorter.NewMemory(1<<30), nil, one)
		p.sc.ddl(&event.DDL{SwitchTS: 120, Tables: []event.TableChange{change(one, two)}})
		p.resolve(110)
		p.hold(9, 120)
		p.s.Write(tableSpan(9), 100)
		synctest.Wait()
		for _, id := range []int64{91, 92} {
			p.up.send(id, 200, put(id, 101+tso.TS(id)-90, id, 1), put(id, 130+tso.TS(id)-90, id, 2))
			synctest.Wait()
		}
		p.want("102 u:insert:91=1", "103 u:insert:92=1")
		p.resolve(130)
		p.wantNews("9 at 110 of 110", "9 at 120 of 120")
		wantIDs(p, 91, 92)
		p.hold(9, 160)
		p.s.Look()
		p.want()
		wantIDs(p, 92, 93)
		if p.up.from[93] != 120 {
			t.Fatal(p.up.from)
		}
		p.up.send(93, 200, put(93, 125, 93, 1))
		p.want("125 u:insert:93=1")
		p.sc.ddl(&event.DDL{SwitchTS: 140, Tables: []event.TableChange{change(two, three)}})
		p.resolve(200)
		p.want("132 u:insert:92=2")
		p.wantNews("9 at 130 of 130", "9 at 140 of 140", "9 at 160 of 160")
		wantIDs(p, 93)
	})
}

func wantIDs(p *part, ids ...int64) {
	p.Helper()
	synctest.Wait()
	if got := p.up.ids(); !slices.Equal(got, ids) {
		p.Fatalf("%v are followed, want %v", got, ids)
	}
}

// A span that was got ready before a DDL, and is written from behind it, has by then the
// partitions of then.
func TestAUnitIsPreparedBeforeADDL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := unit(9, "u", 91, 92), unit(9, "u", 92, 93)
		p := partOf(t, sorter.NewMemory(1<<30), nil, one)
		p.resolve(110)
		p.s.Prepare(tableSpan(9), 100)
		wantIDs(p, 91, 92)
		p.up.send(92, 200, put(92, 130, 1, 1), put(92, 150, 2, 2))
		p.sc.ddl(&event.DDL{SwitchTS: 120, Tables: []event.TableChange{change(one, two)}})
		p.s.Write(tableSpan(9), 140) // the schema is behind
		p.want()
		p.resolve(200)
		wantIDs(p, 92, 93)
		p.up.send(93, 200, put(93, 145, 3, 3))
		p.want("145 u:insert:3=3", "150 u:insert:2=2")
		p.wantNews("9 at 200 of 200")
	})
}

// Where a table becomes a unit, or is none any more, its rows have another writer from
// there on: those who had them write none of these, whatever their limits are.
func TestAUnitBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, some, none2 := table(9, "u", 91, 92), unit(9, "u", 91, 92), table(9, "u", 91, 92)
		p := partOf(t, sorter.NewMemory(1<<30), nil, none)
		p.sc.ddl(&event.DDL{SwitchTS: 120, Tables: []event.TableChange{change(none, some)}})
		p.sc.ddl(&event.DDL{SwitchTS: 140, Tables: []event.TableChange{change(some, none2)}})
		p.resolve(200)
		p.s.Write(tableSpan(91), 100)
		synctest.Wait()
		p.up.send(91, 200, put(91, 110, 1, 1), put(91, 130, 2, 2), put(91, 150, 3, 3))
		p.want("110 u:insert:1=1", "150 u:insert:3=3")
		p.s.Stop(tableSpan(91))
		p.s.Write(tableSpan(9), 120)
		synctest.Wait()
		p.up.send(91, 200, put(91, 110, 1, 1), put(91, 130, 2, 2), put(91, 150, 3, 3))
		p.up.send(92, 200)
		p.want("130 u:insert:2=2")
		if got := p.s.Progress(); got.LeftOut != 0 || got.Unknown != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// A partition that is exchanged with a table is the unit's up to the DDL, and the
// table's from there on, and the other way around.
func TestAUnitExchangesAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, a := unit(9, "u", 91, 92), table(1, "a")
		u2, a2 := unit(9, "u", 91, 1), table(92, "a")
		p := partOf(t, sorter.NewMemory(1<<30), nil, u, a)
		p.sc.ddl(&event.DDL{SwitchTS: 120, Tables: []event.TableChange{change(u, u2), change(a, a2)}})
		p.resolve(200)
		p.hold(1, 120)
		p.s.Write(tableSpan(9), 100)
		p.s.Write(tableSpan(1), 100)
		p.s.Write(tableSpan(92), 120)
		wantIDs(p, 1, 91, 92)
		for _, id := range []int64{1, 92} {
			p.up.send(id, 200, put(id, 110+tso.TS(id)/10, id, 1), put(id, 130+tso.TS(id)/10, id, 2))
			synctest.Wait()
		}
		p.up.send(91, 200)
		synctest.Wait()
		got := p.down.take()
		slices.Sort(got)
		if want := []string{"110 a:insert:1=1", "119 u:insert:92=1", "130 u:insert:1=2", "139 a:insert:92=2"}; !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// Nobody splits a unit: its rows are not under its id.
func TestAPartOfAUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := partOf(t, sorter.NewMemory(1<<30), nil, unit(9, "u", 91, 92))
		p.resolve(200)
		half := tableSpan(9)
		half.Start += "x"
		p.s.Write(half, 100)
		if err := p.ended(); err == nil || !strings.Contains(err.Error(), "all of whose rows are in one order") {
			t.Fatal(err)
		}
	})
}

// unit is such a table with one unique index over all partitions.
func unit(id int64, name string, ids ...int64) *event.Table {
	t := table(id, name, ids...)
	t.Indexes = []event.Index{{ID: 1, Name: "v", Parts: []event.IndexPart{{Column: 1, Length: event.FullLength}}, Unique: true, Global: true}}
	return t
}

// now is the table that a physical id belongs to.
func (s *tables) now(id int64) *event.Table {
	t, _ := s.TableAt(id, tso.Max)
	return t
}

func (s *tables) Version(id int64, ts tso.TS) (*event.Table, tso.TS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if v.table.ID == id && v.from <= ts && ts < v.to {
			return v.table, v.to
		}
	}
	return nil, tso.Max
}
