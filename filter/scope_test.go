package filter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/filter"
)

// table is "schema.name" with an id, physical ids of partitions, and a key
// unless the name ends with _nokey.
func table(id int64, name string, parts ...int64) *event.Table {
	s, n := split(name)
	t := &event.Table{ID: id, Schema: s, Name: n, Columns: []event.Column{{Name: "a"}}}
	if !strings.HasSuffix(n, "_nokey") {
		t.Key = []int{0}
	}
	for _, p := range parts {
		t.Partitions = append(t.Partitions, event.Partition{ID: p})
	}
	return t
}

func keyless(t *event.Table) *event.Table {
	c := *t
	c.Key = nil
	return &c
}

func change(before, after *event.Table) event.TableChange {
	return event.TableChange{Before: before, After: after}
}

func scope(t *testing.T, rules ...string) filter.Scope {
	t.Helper()
	f, err := filter.New(filter.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return filter.Scope{Rules: f}
}

func names(d *event.DDL) string {
	if d == nil {
		return "nothing"
	}
	var out []string
	for _, c := range d.Tables {
		b, a := "-", "-"
		if c.Before != nil {
			b = c.Before.FullName()
		}
		if c.After != nil {
			a = c.After.FullName()
		}
		out = append(out, b+">"+a)
	}
	return strings.Join(out, " ")
}

func TestDDLDecisions(t *testing.T) {
	in, out := table(1, "in.a"), table(1, "out.a")
	for _, c := range []struct {
		what           string
		action         event.Action
		tables         []event.TableChange
		send           string
		added, removed []int64
		skipped        int
	}{
		{"create", 3, []event.TableChange{change(nil, in)}, "->in.a", []int64{1}, nil, 0},
		{"create outside", 3, []event.TableChange{change(nil, out)}, "nothing", nil, nil, 0},
		{"create with partitions", 3, []event.TableChange{change(nil, table(9, "in.p", 11, 10))}, "->in.p", []int64{10, 11}, nil, 0},
		{"create keyless", 3, []event.TableChange{change(nil, table(1, "in.t_nokey"))}, "nothing", nil, nil, 1},
		{"truncate keyless", 11, []event.TableChange{change(table(1, "in.t_nokey"), table(2, "in.t_nokey"))}, "nothing", nil, nil, 0},
		{"drop keyless", 4, []event.TableChange{change(table(1, "in.t_nokey"), nil)}, "nothing", nil, nil, 0},
		{"drop", 4, []event.TableChange{change(in, nil)}, "in.a>-", nil, []int64{1}, 0},
		{"drop outside", 4, []event.TableChange{change(out, nil)}, "nothing", nil, nil, 0},
		{"truncate", 11, []event.TableChange{change(in, table(2, "in.a"))}, "in.a>in.a", []int64{2}, []int64{1}, 0},
		{"add column", 5, []event.TableChange{change(in, in)}, "in.a>in.a", nil, nil, 0},
		{"rename inside", 14, []event.TableChange{change(in, table(1, "in.b"))}, "in.a>in.b", nil, nil, 0},
		{"rename out of scope", 14, []event.TableChange{change(in, out)}, "in.a>out.a", nil, []int64{1}, 0},
		{"rename into a system schema", 14, []event.TableChange{change(in, table(1, "mysql.a"))}, "nothing", nil, []int64{1}, 0},
		{"rename outside", 14, []event.TableChange{change(out, table(1, "out.b"))}, "nothing", nil, nil, 0},
		{"rename keyless into scope", 14, []event.TableChange{change(keyless(out), keyless(in))}, "nothing", nil, nil, 1},
		{"rename keyless out of scope", 14, []event.TableChange{change(keyless(in), keyless(out))}, "nothing", nil, nil, 0},
		{"truncate partition", 23, []event.TableChange{change(table(9, "in.p", 10, 11), table(9, "in.p", 10, 12))}, "in.p>in.p", []int64{12}, []int64{11}, 0},
		{"partition by", 71, []event.TableChange{change(in, table(9, "in.a", 10, 11))}, "in.a>in.a", []int64{10, 11}, []int64{1}, 0},
		{"exchange partition", 42, []event.TableChange{change(table(9, "in.p", 10, 11), table(9, "in.p", 10, 1)), change(in, table(11, "in.a"))},
			"in.p>in.p in.a>in.a", nil, nil, 0},
		{"view", 21, []event.TableChange{change(nil, &event.Table{ID: 5, Schema: "in", Name: "v", Kind: event.View})}, "->in.v", nil, nil, 0},
		{"nothing that rows or names show", 51, nil, "nothing", nil, nil, 0},
	} {
		d := &event.DDL{JobID: 7, Action: c.action, SwitchTS: 100, Tables: c.tables, Query: "q"}
		got, err := scope(t, "in.*").DDL(d)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if names(got.Send) != c.send || !slices.Equal(got.Added, c.added) || !slices.Equal(got.Removed, c.removed) || len(got.Keyless) != c.skipped {
			t.Errorf("%s: sent %s, added %v, removed %v, skipped %d", c.what, names(got.Send), got.Added, got.Removed, len(got.Keyless))
		}
	}
}

func TestForceReplicateTakesKeylessTables(t *testing.T) {
	s := scope(t, "*.*")
	s.ForceReplicate = true
	a, b := table(1, "x.t_nokey"), table(2, "x.t_nokey")
	got, err := s.DDL(&event.DDL{Action: 11, Tables: []event.TableChange{change(a, b)}})
	if err != nil || got.Send == nil || !slices.Equal(got.Added, []int64{2}) || !slices.Equal(got.Removed, []int64{1}) {
		t.Fatalf("%+v %v", got, err)
	}
	if got, err = s.DDL(&event.DDL{Tables: []event.TableChange{change(table(1, "x.a"), keyless(table(1, "x.a")))}}); err != nil || got.Send == nil {
		t.Fatalf("losing the key: %+v %v", got, err)
	}
}

// Of two clusters that replicate both ways the primary alone sends its DDLs, and not
// those that came to it. Rows of what such a DDL brings are wanted all the same.
func TestPrimaryOnly(t *testing.T) {
	s := scope(t, "in.*")
	s.PrimaryOnly = true
	for _, c := range []struct {
		role   string
		source uint64
		sent   string
		said   int
	}{
		{"primary", 0, "->in.a", 0},
		{"primary", 1, "nothing", 1},
		{"secondary", 0, "nothing", 1},
		{"", 0, "nothing", 1},
	} {
		d := &event.DDL{JobID: 7, Action: 3, SwitchTS: 100, BDRRole: c.role, WriteSource: c.source, Tables: []event.TableChange{change(nil, table(1, "in.a"))}}
		got, err := s.DDL(d)
		if err != nil || names(got.Send) != c.sent || len(got.Ignored) != c.said || !slices.Equal(got.Added, []int64{1}) {
			t.Errorf("%q, source %d: %s, %v, %v, %v", c.role, c.source, names(got.Send), got.Ignored, got.Added, err)
		}
		d.Tables = []event.TableChange{change(nil, table(1, "out.a"))}
		if got, err = s.DDL(d); err != nil || got.Send != nil || len(got.Ignored) != 0 {
			t.Errorf("out of the rules, %q: %s, %v, %v", c.role, names(got.Send), got.Ignored, err)
		}
	}
}

func TestDDLErrorsNameBothSides(t *testing.T) {
	in, out := table(1, "in.a"), table(1, "out.a")
	for _, c := range []struct {
		what   string
		action event.Action
		tables []event.TableChange
		code   *cdcerr.Code
		words  []string
	}{
		{"rename into scope", 14, []event.TableChange{change(out, in)}, cdcerr.RenameIntoScope, []string{"out.a", "in.a", "100"}},
		{"rename view into scope", 14, []event.TableChange{change(
			&event.Table{ID: 1, Schema: "out", Name: "v", Kind: event.View}, &event.Table{ID: 1, Schema: "in", Name: "v", Kind: event.View})},
			cdcerr.RenameIntoScope, []string{"out.v", "in.v"}},
		{"exchange with a table outside", 42, []event.TableChange{change(table(9, "in.p", 11), table(9, "in.p", 1)), change(out, table(11, "out.a"))},
			cdcerr.RenameIntoScope, []string{"in.p", "out.a"}},
		{"exchange of a partition outside", 42, []event.TableChange{change(table(9, "out.p", 11), table(9, "out.p", 1)), change(in, table(11, "in.a"))},
			cdcerr.RenameIntoScope, []string{"out.p", "in.a"}},
		{"losing the only key", 8, []event.TableChange{change(in, keyless(in))}, cdcerr.TableIneligible, []string{"in.a", "lost", "drop it"}},
		{"gaining the first key", 7, []event.TableChange{change(keyless(in), in)}, cdcerr.TableIneligible, []string{"in.a", "never replicated"}},
		{"neither", 7, []event.TableChange{{}}, cdcerr.Unexpected, nil},
	} {
		got, err := scope(t, "in.*").DDL(&event.DDL{JobID: 7, Action: c.action, SwitchTS: 100, Tables: c.tables, Query: "drop it"})
		if !c.code.Is(err) || got.Send != nil || got.Added != nil {
			t.Errorf("%s: %+v, %v", c.what, got, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in %v", c.what, w, err)
			}
		}
	}
}

// A swap through a name that the rules leave out is one change per table: a to b
// and b to a, both wanted before and after.
func TestRenameSwapIsJudgedByItsEnds(t *testing.T) {
	a, b, tmp := table(1, "in.a"), table(2, "in.b"), table(1, "out.tmp")
	d := &event.DDL{Action: 47, Query: "RENAME TABLE in.a TO out.tmp, in.b TO in.a, out.tmp TO in.b", Tables: []event.TableChange{
		change(a, tmp), change(b, table(2, "in.a")), change(tmp, table(1, "in.b")),
	}}
	got, err := scope(t, "in.*").DDL(d)
	if err != nil || got.Send != d || got.Added != nil || got.Removed != nil {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestMultiRenameIsCutToItsWantedPart(t *testing.T) {
	d := &event.DDL{Action: 47, Query: "as typed", Tables: []event.TableChange{
		change(table(1, "in.a"), table(1, "ignore1.a")),
		change(table(2, "out.x"), table(2, "out.y")),
		change(table(3, "in.b`q"), table(3, "in.c")),
	}}
	got, err := scope(t, "in.*").DDL(d)
	if err != nil {
		t.Fatal(err)
	}
	if want := "RENAME TABLE `in`.`a` TO `ignore1`.`a`, `in`.`b``q` TO `in`.`c`"; got.Send.Query != want {
		t.Errorf("query %s", got.Send.Query)
	}
	if names(got.Send) != "in.a>ignore1.a in.b`q>in.c" || !slices.Equal(got.Removed, []int64{1}) {
		t.Errorf("%s, removed %v", names(got.Send), got.Removed)
	}
	if d.Query != "as typed" || len(d.Tables) != 3 {
		t.Error("the DDL handed in was changed")
	}
}

func TestCreateTablesIsCutToItsWantedStatements(t *testing.T) {
	d := &event.DDL{JobID: 4, Action: 60, Tables: []event.TableChange{
		change(nil, table(1, "in.a")), change(nil, table(2, "in.t_nokey")), change(nil, table(3, "in.c")),
	}, Query: "create table a (x int primary key comment 'it''s; \\'so'); create table t_nokey (x int) /* ; */; create table `c;` (x int primary key) -- ; end\n; "}
	got, err := scope(t, "in.*").DDL(d)
	if err != nil {
		t.Fatal(err)
	}
	if want := "create table a (x int primary key comment 'it''s; \\'so'); create table `c;` (x int primary key) -- ; end"; got.Send.Query != want {
		t.Errorf("query %s", got.Send.Query)
	}
	if !slices.Equal(got.Added, []int64{1, 3}) || len(got.Keyless) != 1 {
		t.Errorf("%+v", got)
	}
	d.SQLMode = 1 << 20 // NO_BACKSLASH_ESCAPES: the string ends before so'
	if _, err := scope(t, "in.*").DDL(d); !cdcerr.InvalidDDLJob.Is(err) {
		t.Errorf("statements that do not fit the tables: %v", err)
	}
}

func TestDatabases(t *testing.T) {
	db := &event.Database{Name: "in"}
	tables := []event.TableChange{change(table(1, "in.a"), nil), change(table(2, "in.skip"), nil), change(table(3, "in.t_nokey"), nil)}
	s := scope(t, "in.*", "!in.skip")
	got, err := s.DDL(&event.DDL{Action: 2, DatabaseBefore: db, Tables: tables, Query: "drop database `in`"})
	if err != nil || names(got.Send) != "in.a>-" || got.Send.Query != "drop database `in`" || !slices.Equal(got.Removed, []int64{1}) {
		t.Fatalf("drop: %+v %v", got, err)
	}
	if got, err = s.DDL(&event.DDL{Action: 1, DatabaseAfter: db}); err != nil || got.Send == nil {
		t.Fatalf("create: %+v %v", got, err)
	}
	if got, err = s.DDL(&event.DDL{Action: 1, DatabaseAfter: &event.Database{Name: "out"}}); err != nil || got.Send != nil {
		t.Fatalf("create outside: %+v %v", got, err)
	}
	if got, err = scope(t, "*.*").DDL(&event.DDL{Action: 1, DatabaseAfter: &event.Database{Name: "Sys"}}); err != nil || got.Send != nil {
		t.Fatalf("system schema: %+v %v", got, err)
	}
	recovered := []event.TableChange{change(nil, table(1, "in.a")), change(nil, table(5, "in.p", 6, 7))}
	if got, err = s.DDL(&event.DDL{Action: 63, DatabaseAfter: db, Tables: recovered}); err != nil || !slices.Equal(got.Added, []int64{1, 6, 7}) {
		t.Fatalf("recover: %+v %v", got, err)
	}
}

// It changes rows of every table without an event, whatever the rules take.
func TestFlashbackClusterEndsTheChangefeed(t *testing.T) {
	d := &event.DDL{JobID: 7, Action: event.ActionFlashbackCluster, SwitchTS: 100, Query: "flashback cluster to timestamp '2024-01-01'"}
	got, err := scope(t, "in.*").DDL(d)
	if !cdcerr.FlashbackCluster.Is(err) || got.Send != nil || !strings.Contains(err.Error(), "job 7") {
		t.Fatalf("%v, %v", got, err)
	}
}
