package mysql

import (
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

// A refusal is a DDL that the downstream does not carry out, and what somebody does
// about it before the changefeed is resumed.
type refusal struct {
	name   string
	before string // the table; empty: the DDL makes it
	after  string
	action event.Action
	query  string
	rename string // its name after
	alien  string // what stands in the way
	code   *cdcerr.Code
	mend   string
	again  string // what is still missing then; empty: nothing
	check  string
	want   []string
}

const (
	indexesOfT = "select index_name from information_schema.statistics where table_schema = database() and table_name = 't'"
	typesOfT   = "select column_name, column_type from information_schema.columns where table_schema = database() and table_name = 't'"
)

func refusals() []refusal {
	const pair, decimals = "create table t (id int primary key, v varchar(10))", "create table t (id int primary key, d decimal(10,2), v varchar(10))"
	modified := strings.Replace(strings.Replace(decimals, "10,2", "12,4", 1), "(10))", "(10), unique key uv (v))", 1)
	unique := strings.Replace(pair, "(10))", "(10), unique key uv (v))", 1)
	const twice = "insert into t (id, v) values (90, 'dup'), (91, 'dup')"
	both := refusal{
		before: decimals, after: modified, action: event.ActionMultiSchemaChange, query: "alter table t modify d decimal(12,4), add unique index uv (v)", alien: twice, code: cdcerr.ExecDDLFailed,
		check: typesOfT, want: []string{"id|int(11)", "d|decimal(12,4)", "v|varchar(10)"},
	}
	half := both
	both.name, both.mend = "what was twice is deleted", "delete from t where id >= 90; alter table t comment = 'mended'"
	half.name, half.mend, half.again = "half of it by hand", "delete from t where id >= 90; alter table t add unique index uv (v)", "column d is decimal(10,2), want decimal(12,4)"
	return []refusal{
		{
			name: "the name is taken", before: pair, after: pair, action: event.ActionRenameTable, rename: "u", alien: "create table u (id int primary key)", code: cdcerr.ExecDDLFailed,
			mend: "drop table u", check: "show tables", want: []string{"u"},
		},
		both, half,
		{
			name: "the table is made anew by hand", before: pair, after: unique, action: event.ActionAddIndex, query: "alter table t add unique index uv (v)", alien: twice, code: cdcerr.ExecDDLFailed,
			mend: "delete from t where id >= 90; optimize table t", check: indexesOfT, want: []string{"PRIMARY", "uv"},
		},
		{
			name: "an alien table is dropped", after: pair, action: event.ActionCreateTable, query: pair, alien: "create table t (id int primary key, other varchar(5))", code: cdcerr.MySQLTableDiffers,
			mend: "drop table t", check: typesOfT, want: []string{"id|int(11)", "v|varchar(10)"},
		},
		{
			name: "it is done by hand", before: pair, after: unique, action: event.ActionAddIndex, query: "alter table t add unique index uv (v)", alien: twice, code: cdcerr.ExecDDLFailed,
			mend: "delete from t where id >= 90; alter table t add unique index uv (v)", check: indexesOfT, want: []string{"PRIMARY", "uv"},
		},
	}
}

// ddl is the refusal's, with its table made.
func (c refusal) ddl(w *world) *event.DDL {
	after := tableOf(w, w.schema, c.after)
	change := event.TableChange{After: after}
	if c.before != "" {
		change.Before = w.create(c.before)
		after.ID = change.Before.ID
	}
	if c.rename != "" {
		change.After = named(after, c.rename)
	}
	w.each(c.alien)
	return w.numbered(&event.DDL{Action: c.action, Query: c.query, Tables: []event.TableChange{change}})
}

// each runs statements in the test's database.
func (w *world) each(texts string) {
	w.Helper()
	for _, text := range strings.Split(texts, "; ") {
		w.rows(text)
	}
}

// inRoles runs a test with the sinks that carry DDLs out: open gives the next one, as
// whoever comes when the one before has ended.
func inRoles(t *testing.T, test func(w *world, open func(uri string) (*Sink, sink.Leave))) {
	t.Run("whole", func(t *testing.T) {
		w := newWorld(t)
		test(w, func(uri string) (*Sink, sink.Leave) { return w.ended(lived(w, uri, "x", nil)), sink.Endless })
	})
	t.Run("owner", func(t *testing.T) {
		w, revision := newWorld(t), uint64(0)
		test(w, func(uri string) (*Sink, sink.Leave) { revision++; return w.owner(uri, revision), under(revision) })
	})
}

// What the downstream refused is not under way any more: what somebody has done about
// it is not taken for its effect.
func TestARefusedDDLIsNotUnderWay(t *testing.T) {
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			inRoles(t, func(w *world, open func(string) (*Sink, sink.Leave)) {
				d := c.ddl(w)
				for range 2 { // and still refused when the changefeed comes again by itself
					s, leave := open(server.URI())
					if err := s.DDL(w.Context(), leave, d); !c.code.Is(err) {
						w.Fatal(err)
					}
				}
				w.each(c.mend)
				s, leave := open(server.URI())
				c.resumed(w, s, leave, d)
			})
		})
	}
}

func (c refusal) resumed(w *world, s *Sink, leave sink.Leave, d *event.DDL) {
	w.Helper()
	err := s.DDL(w.Context(), leave, d)
	if c.again != "" {
		if !cdcerr.MySQLTableDiffers.Is(err) || !strings.Contains(err.Error(), c.again) {
			w.Errorf("%v, want %s", err, c.again)
		}
		return
	}
	if err != nil {
		w.Error(err)
	}
	w.want(c.check, c.want...)
}

// As long as it is not noted that a DDL was refused the error is one with which the
// changefeed comes again by itself. What is mended all the same is not taken for the
// DDL's effect where the effect does not show.
func TestARefusalThatCouldNotBeNoted(t *testing.T) {
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			inRoles(t, func(w *world, open func(string) (*Sink, sink.Leave)) {
				d := c.ddl(w)
				p := newProxy(w, server.Addr())
				s, leave := open(p.uri("reconnect-timeout=1ms"))
				p.cutAt(cut{`"refused":true`, true}, cut{"", true}, cut{"", true}, cut{"", true}, cut{"", true})
				err := s.DDL(w.Context(), leave, d)
				if !cdcerr.MySQLConnection.Is(err) || !strings.Contains(err.Error(), "noting that the downstream refused it") {
					w.Fatal(err)
				}
				p.spare()
				w.each(c.mend)
				s, leave = open(server.URI())
				c.resumed(w, s, leave, d)
			})
		})
	}
}

// Of several statements those before the one that was refused are not carried out again.
func TestALaterStatementIsRefused(t *testing.T) {
	inRoles(t, func(w *world, open func(string) (*Sink, sink.Leave)) {
		tab := w.create("create table t (id int primary key)")
		w.insert(tab, cells("1"))
		after := tableOf(w, w.schema, "create table t (id int primary key, c datetime default current_timestamp)")
		after.ID = tab.ID
		after.Columns[1].HasOrigin, after.Columns[1].Absent = true, image(w, after, "1", "2020-01-02 03:04:05")[1]
		d := w.numbered(&event.DDL{Action: event.ActionAddColumn, Query: "alter table t add column c datetime default current_timestamp", Tables: []event.TableChange{{Before: tab, After: after}}})
		p := newProxy(w, server.Addr())
		p.instead = [][2]string{{"MODIFY COLUMN", "MODIFY XOLUMN"}}
		s, leave := open(p.uri())
		if err := s.DDL(w.Context(), leave, d); !cdcerr.ExecDDLFailed.Is(err) || !strings.Contains(err.Error(), "4161") {
			w.Fatal(err)
		}
		w.each("alter table t comment = 'mended'")
		s, leave = open(server.URI())
		if err := s.DDL(w.Context(), leave, d); err != nil {
			w.Fatal(err)
		}
		w.want("select column_default from information_schema.columns where table_schema = database() and column_name = 'c'", "current_timestamp()")
		w.want("select * from t", "1|2020-01-02 03:04:05")
	})
}

// A statement whose answer is that of a proxy which lost its server may have run.
func TestAProxysWordOfALostServer(t *testing.T) {
	for _, number := range []uint16{2003, 2006, 2013, 2026, 2055} {
		if f := faultOfNumber(number); f != gone {
			t.Errorf("%d: %d", number, f)
		}
	}
}
