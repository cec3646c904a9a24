package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// What only an upstream can tell is known before a DDL is carried out: of which tables, on
// which downstreams, and whether the DDL can be carried out at all.
func TestForesee(t *testing.T) {
	plain := tableOf(t, "d", "create table p (a int primary key)")
	keyed := tableOf(t, "d", "create table k (a int primary key) partition by key (a) partitions 2")
	keyed.ID = plain.ID + 1
	wider := tableOf(t, "d", "create table p (a int primary key, b bigint)")
	for name, c := range map[string]struct {
		d    *event.DDL
		want string
	}{
		"nothing": {&event.DDL{Action: event.ActionTruncateTable, Query: "truncate table p", Tables: []event.TableChange{{Before: plain, After: plain}}}, ""},
		"a column": {&event.DDL{Action: event.ActionModifyColumn, Query: "alter table p modify b bigint", Tables: []event.TableChange{{Before: wider, After: wider}},
			Conversions: []event.Conversion{{TableID: wider.ID, Name: "b"}}}, "d.p: in b"},
		"a table back": {&event.DDL{Action: event.ActionRecoverTable, Query: "recover table p", Tables: []event.TableChange{{After: plain}}},
			"d.p stops: (on MariaDB, MySQL)"},
		"a partition": {&event.DDL{Action: event.ActionTruncatePartition, Query: "alter table k truncate partition p0", Tables: []event.TableChange{{Before: keyed, After: keyed}}},
			"d.k stops: (on MariaDB, MySQL)"},
		"an exchange": {&event.DDL{Action: event.ActionExchangePartition, Query: "alter table k exchange partition p0 with table p", Partition: "p0",
			Tables: []event.TableChange{{Before: keyed, After: keyed}, {Before: plain, After: plain}}}, "d.k stops: (on MariaDB, MySQL); d.p stops: (on MariaDB, MySQL)"},
	} {
		c.d.Schema = "d"
		if got := doubtWords(Foresee(c.d)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func doubtWords(doubts []sink.Doubt) string {
	var out []string
	for _, d := range doubts {
		words := d.Table.FullName()
		if d.Stops {
			words += " stops"
		}
		words += ":"
		for _, part := range []string{"in b", "(on MariaDB, MySQL)"} {
			if strings.Contains(d.Why, part) {
				words += " " + part
			}
		}
		out = append(out, words)
	}
	return strings.Join(out, "; ")
}

// What the record has as done was done while there was an upstream.
func TestForeseeWhatIsDone(t *testing.T) {
	w := newWorld(t)
	s := lived(t, server.URI(), "x", nil)
	defer w.closed(s)
	tab := w.create("create table t (a int primary key, b int)")
	d := w.numbered(&event.DDL{Action: event.ActionModifyColumn, Query: "alter table t modify b varchar(9)", Tables: []event.TableChange{{Before: tab, After: tab}},
		Conversions: []event.Conversion{{TableID: tab.ID, Name: "b"}}})
	if got := s.Foresee(d); len(got) != 1 || got[0].Stops {
		t.Errorf("%+v", got)
	}
	if err := s.DDL(t.Context(), sink.Endless, d); err != nil {
		t.Fatal(err)
	}
	if got := s.Foresee(d); len(got) != 0 {
		t.Errorf("done: %+v", got)
	}
}
