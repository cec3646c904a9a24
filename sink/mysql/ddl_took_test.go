package mysql

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// What two marks say: parts that one of them lacks say nothing, nor do another
// server's moments and ids, nor another version's texts.
func TestWhatMarksTell(t *testing.T) {
	tab := &event.Table{Schema: "s", Name: "t"}
	alter := &event.DDL{Action: event.ActionAddColumn, Tables: []event.TableChange{{Before: tab, After: tab}}}
	exchange := &event.DDL{Action: event.ActionExchangePartition, Tables: alter.Tables}
	truncate := &event.DDL{Action: event.ActionTruncateTable, Tables: alter.Tables}
	on := func(server, version string, m mark) marks {
		return marks{Server: server, Version: version, Tables: map[string]mark{tab.FullName(): m}}
	}
	was := on("a", "1", mark{"text", "made", "ids"})
	began := func(m marks, at int64) marks { m.Started = at; return m }
	other := &event.Table{Schema: "s", Name: "t", Columns: []event.Column{{ID: 1, Name: "c"}}}
	same := &event.Table{Schema: "s", Name: "t", Columns: []event.Column{{ID: 2, Name: "c"}}}
	inPlace := &event.DDL{Action: event.ActionMultiSchemaChange, Tables: []event.TableChange{{Before: other, After: same}}}
	for _, c := range []struct {
		name   string
		ddl    *event.DDL
		before marks
		after  marks
		want   verdict
	}{
		{"nothing differs", alter, was, was, didNot},
		{"the text", alter, was, on("a", "1", mark{"other", "made", "ids"}), tookPlace},
		{"the moment", alter, was, on("a", "1", mark{"text", "other", "ids"}), tookPlace},
		{"the moment, as its clock was cut", alter, began(was, 100), began(on("a", "1", mark{"text", "other", "ids"}), 102), tookPlace},
		{"the moment, taken back by a restart", alter, began(was, 100), began(on("a", "1", mark{"text", "other", "ids"}), 200), didNot},
		{"the moment alone could tell, and a restart", inPlace, began(was, 100), began(on("a", "1", mark{"text", "other", "ids"}), 200), cannotTell},
		{"the ids, after a restart", exchange, began(was, 100), began(on("a", "1", mark{"text", "other", "other"}), 200), tookPlace},
		{"the ids", exchange, was, on("a", "1", mark{"text", "made", "other"}), tookPlace},
		{"no ids", exchange, was, on("a", "1", mark{"text", "made", ""}), cannotTell},
		{"ids now", exchange, on("a", "1", mark{"text", "made", ""}), was, cannotTell},
		{"no ids, which it does without", alter, was, on("a", "1", mark{"text", "made", ""}), didNot},
		{"no text", alter, was, on("a", "1", mark{"", "made", "ids"}), cannotTell},
		{"another server", alter, was, on("b", "1", mark{"text", "b's", "b's"}), didNot},
		{"another server, the text", alter, was, on("b", "1", mark{"other", "b's", "b's"}), tookPlace},
		{"another server, exchange", exchange, was, on("b", "1", mark{"other", "b's", "b's"}), cannotTell},
		{"another server, truncate", truncate, was, on("b", "1", mark{"text", "b's", "b's"}), didNot},
		{"another version", alter, was, on("a 2", "2", mark{"other", "other", "other"}), cannotTell},
		{"another version, dropped", alter, was, on("a 2", "2", absent), tookPlace},
		{"another version, absent as before", alter, on("a", "1", absent), on("a 2", "2", absent), didNot},
		{"nobody says who it is", alter, on("", "1", mark{"text", "made", "ids"}), on("", "1", mark{"text", "other", "other"}), didNot},
		{"a record of another form", alter, marks{}, was, cannotTell},
	} {
		if got := c.before.compare(c.after, c.ddl); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A statement about a whole database may be repeated: its tables, which may be very
// many, are not looked at.
func TestDatabasesTablesAreNotLookedAt(t *testing.T) {
	w := newWorld(t)
	tab := w.create("create table t (a int primary key)")
	d := w.numbered(&event.DDL{Action: event.ActionDropSchema, DatabaseBefore: &event.Database{Name: w.schema}, Tables: []event.TableChange{{Before: tab}}})
	r := ddlRun{Sink: w.sink, leave: sink.Endless, ddl: d}
	if m, err := r.marks(t.Context()); err != nil || len(m.Tables) != 0 || m.Server == "" || m.Version == "" {
		t.Errorf("%v, %v", m, err)
	}
	w.ddl(d)
}
