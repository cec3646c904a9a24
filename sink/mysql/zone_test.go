package mysql

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-cdc/sluice/event"
)

// convert runs a MODIFY of column c of t(id, before, c, after) in a session of
// that zone.
func (w *world) convert(zoneName string, offset int, from, to string, values ...string) {
	w.Helper()
	mustExec(w, w.db, "DROP TABLE IF EXISTS "+qualified(w.schema, "t"))
	const shape = "create table t (id int, x int, c %s, y timestamp null default current_timestamp on update current_timestamp, primary key (id%s), key kc (c), unique key ku (c, id))"
	text := fmt.Sprintf(shape, from, "")
	before := w.create(text)
	for i, v := range values {
		w.insert(before, cells(fmt.Sprint(i), "7", v, "2001-01-01 00:00:00"))
	}
	after := tableOf(w, w.schema, fmt.Sprintf(shape, to, ""))
	after.ID = before.ID
	after.Columns[2].ID = 77
	d := &event.DDL{Action: event.ActionModifyColumn, Query: "alter table t modify column c " + to, ZoneName: zoneName, ZoneOffset: offset,
		Tables:      []event.TableChange{{Before: before, After: after}},
		Conversions: []event.Conversion{{TableID: before.ID, FromID: 3, ToID: 77, Name: "c"}}}
	w.ddl(d)
	w.ddl(d) // delivered again
	w.want("select count(*) from t where y <> '2001-01-01 00:00:00' or x <> 7", "0")
	w.want("select column_name from information_schema.columns where table_schema=database() and table_name='t'", "id", "x", "c", "y")
	w.want("select concat(index_name, seq_in_index, column_name, non_unique) from information_schema.statistics where table_schema=database() and table_name='t'",
		"PRIMARY1id0", "kc1c1", "ku1c0", "ku2id0")
	w.want("select column_comment from information_schema.columns where table_schema=database() and column_name='c'", "")
}

// A TIMESTAMP is converted by the zone of the session that ran the statement,
// also on a server that has no time zone tables, on both sides of a change of
// clocks.
func TestConversionInAZone(t *testing.T) {
	w := newWorld(t)
	const newYork = "America/New_York"
	moments := cells("2024-01-15 12:00:00.789", "2024-07-15 12:00:00.001", "2024-03-10 06:59:59.999", "2024-03-10 07:00:00.000",
		"2024-11-03 05:30:00.000", "2024-11-03 06:30:00.000", "1970-01-01 00:00:01.000", "2038-01-19 03:14:07.999", "NULL", "0000-00-00 00:00:00.000")
	w.convert(newYork, -18000, "timestamp(3) null", "datetime(3)", moments...)
	w.want("select c from t", "2024-01-15 07:00:00.789", "2024-07-15 08:00:00.001", "2024-03-10 01:59:59.999", "2024-03-10 03:00:00.000",
		"2024-11-03 01:30:00.000", "2024-11-03 01:30:00.000", "1969-12-31 19:00:01.000", "2038-01-18 22:14:07.999", "NULL", "0000-00-00 00:00:00.000")
	w.convert(newYork, -18000, "timestamp(3) null", "varchar(30)", moments[:2]...)
	w.want("select c from t", "2024-01-15 07:00:00.789", "2024-07-15 08:00:00.001")
	w.convert(newYork, -18000, "timestamp(3) null", "bigint", moments[:2]...)
	w.want("select c from t", "20240115070001", "20240715080000")
	w.convert(newYork, -18000, "datetime(3)", "timestamp(3) null", "2024-01-15 07:00:00.789", "2024-07-15 08:00:00.001", "2024-03-10 01:59:59.999", "2024-03-10 03:00:00.000", "NULL")
	w.want("select c from t", "2024-01-15 12:00:00.789", "2024-07-15 12:00:00.001", "2024-03-10 06:59:59.999", "2024-03-10 07:00:00.000", "NULL")
	w.convert(newYork, -18000, "varchar(30)", "timestamp null", "2024-01-15 07:00:00", "2024-07-15 08:00:00")
	w.want("select c from t", "2024-01-15 12:00:00", "2024-07-15 12:00:00")
	w.convert(newYork, -18000, "timestamp not null default '2020-06-01 00:00:00'", "datetime not null default '2020-06-01 00:00:00'")
	w.want("select * from t")
	// offsets have no name, and need none
	w.convert("", 19800, "timestamp null", "datetime", "2024-01-15 12:00:00")
	w.want("select c from t", "2024-01-15 17:30:00")
	w.convert("Etc/UTC", 0, "timestamp null", "datetime", "2024-01-15 12:00:00")
	w.want("select c from t", "2024-01-15 12:00:00")
}

// Where the server knows the zone's name, it is left to it.
func TestConversionInANamedZone(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{
		"replace into mysql.time_zone (time_zone_id, use_leap_seconds) values (901, 'N')",
		"replace into mysql.time_zone_name (name, time_zone_id) values ('Asia/Kolkata', 901)",
		"replace into mysql.time_zone_transition_type (time_zone_id, transition_type_id, `offset`, is_dst, abbreviation) values (901, 0, 19800, 0, 'IST')",
	} {
		mustExec(t, w.db, text)
	}
	w.convert("Asia/Kolkata", 19800, "timestamp null", "datetime", "2024-01-15 12:00:00", "2030-07-15 12:00:00")
	w.want("select c from t", "2024-01-15 17:30:00", "2030-07-15 17:30:00")
	w.want("select @@session.time_zone", "+00:00")
}

// Rows that no event touches are converted by the downstream; it must make of
// them what TiDB did.
func TestConversionsLikeTiDB(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		from, to   string
		have, want []string
	}{
		{"datetime(6)", "datetime", cells("2024-01-01 00:00:00.500000", "2024-12-31 23:59:59.999999"), cells("2024-01-01 00:00:01", "2025-01-01 00:00:00")},
		{"timestamp(6) null", "timestamp(3) null", cells("2024-01-01 00:00:00.123500"), cells("2024-01-01 00:00:00.124")},
		{"datetime(6)", "bigint", cells("2024-01-01 00:00:00.500000", "NULL"), cells("20240101000001", "NULL")},
		{"time(3)", "int", cells("01:02:03.500", "-00:00:01.499"), cells("10204", "-1")},
		{"datetime(2)", "varchar(30)", cells("2024-01-01 00:00:00.50"), cells("2024-01-01 00:00:00.50")},
		{"varchar(20)", "json", cells(`{"b":1,"a":[1,2]}`, "NULL", "1"), cells(`{"b": 1, "a": [1, 2]}`, "NULL", "1")},
		{"varchar(20)", "decimal(10,2)", cells("18.555", "-1"), cells("18.56", "-1.00")},
		{"decimal(10,4)", "decimal(5,1)", cells("1.2345", "9.9999"), cells("1.2", "10.0")},
		{"int", "varchar(20)", cells("-5", "0"), cells("-5", "0")},
		{"bigint", "tinyint", cells("5", "-128"), cells("5", "-128")},
		{"double", "varchar(30)", cells("0.1", "1e20", "-2.5"), cells("0.1", "1e20", "-2.5")},
		{"enum('x','y')", "varchar(5)", cells("y", "x"), cells("y", "x")},
		{"enum('x','y')", "int", cells("y", "x"), cells("2", "1")},
		{"varchar(5)", "enum('x','y','z')", cells("z", "x"), cells("z", "x")},
		{"set('a','b')", "varchar(9)", cells("a,b", ""), cells("a,b", "")},
		{"bit(9)", "int", cells("\x01\x00", "\x00\x05"), cells("256", "5")},
		{"int", "year", cells("2024", "1999"), cells("2024", "1999")},
		{"date", "datetime(3)", cells("2024-02-29"), cells("2024-02-29 00:00:00.000")},
		{"int", "bigint unsigned", cells("7"), cells("7")},
	} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			w := &world{T: t, db: w.db, sink: w.sink, schema: w.schema, ts: w.ts}
			w.convert("Etc/UTC", 0, c.from, c.to, c.have...)
			w.want("select concat(c) from t", c.want...)
		})
	}
}

// A literal in the statement was typed in the session's zone.
func TestLiteralInAZone(t *testing.T) {
	for _, zoneName := range []string{"America/New_York", ""} {
		w := newWorld(t)
		before := w.create("create table t (id int primary key, c datetime)")
		after := tableOf(t, w.schema, "create table t (id int primary key, c timestamp default '2024-01-15 07:00:00')")
		after.ID, after.Columns[1].ID = before.ID, 77
		utc := "2024-01-15 12:00:00"
		after.Columns[1].Default = &utc
		w.ddl(&event.DDL{Action: event.ActionModifyColumn, Query: "alter table t modify column c timestamp default '2024-01-15 07:00:00'", ZoneName: zoneName, ZoneOffset: -18000,
			Tables: []event.TableChange{{Before: before, After: after}}, Conversions: []event.Conversion{{TableID: before.ID, FromID: 2, ToID: 77, Name: "c"}}})
		mustExec(t, w.db, "insert into "+qualified(w.schema, "t")+" (id) values (1)")
		w.want("select c from t", "2024-01-15 12:00:00")
		mustExec(t, w.db, "drop database "+ident(w.schema))
	}
}

// Stretches agree with the zone itself at every moment, and with its clock at
// every reading.
func TestStretches(t *testing.T) {
	names := []string{"America/New_York", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "Africa/Casablanca", "Pacific/Apia"}
	rapid.Check(t, func(rt *rapid.T) {
		location, err := time.LoadLocation(rapid.SampledFrom(names).Draw(rt, "zone"))
		if err != nil {
			rt.Fatal(err)
		}
		z := &zone{location: location}
		draw := func(name string) time.Time {
			return time.Unix(rapid.Int64Range(0, 1<<31-1).Draw(rt, name), 0).UTC()
		}
		from, to, at := draw("from"), draw("to"), draw("at")
		if to.Before(from) {
			from, to = to, from
		}
		if at.Before(from) || at.After(to) {
			at = from
		}
		offsetAt := func(utc bool) int {
			for _, s := range z.stretches(from, to, utc) {
				if s.until.IsZero() || at.Before(s.until) {
					return s.offset
				}
			}
			return 1 << 30
		}
		if _, want := at.In(location).Zone(); offsetAt(true) != want {
			rt.Fatalf("at %v: %d, want %d", at, offsetAt(true), want)
		}
		meant := z.onClock(at)
		if got := at.Add(-time.Duration(offsetAt(false)) * time.Second); !got.Equal(meant) && meant.In(location).Format(timeLayout) == at.Format(timeLayout) {
			rt.Fatalf("clock %v: %v, want %v", at, got, meant.UTC())
		}
	})
}
