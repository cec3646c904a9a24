package catalog

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// Whatever text comes: it is refused, or its jobs run to their end.
func FuzzPlan(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 4 * len(statements) {
		f.Add(randomStatement(rnd))
	}
	for _, sql := range []string{
		"create table t9 (a int as (1+1) stored, b set('x','y') default 3, c timestamp(6) default current_timestamp(6) on update current_timestamp(6))",
		"create table t9 (a varchar(99999))",
		"create table t9 (d datetime) partition by range columns(d) interval (1 month) first partition less than ('2024-01-01') last partition less than ('2024-04-01')",
		"alter table t0 add column x int, drop column x, rename index a to b",
		"alter table t1 last partition less than (100)",
		"create view v as (select 1 union select 2)",
		"alter table t0 placement policy = p, ttl = `d` + interval 1 day",
	} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		c, _, err := Bootstrap(1)
		if err != nil {
			t.Fatal(err)
		}
		start := uint64(100)
		run := func(sql string) {
			jobs, err := c.Plan(sql, Session{DB: "d0", SQLMode: DefaultSQLMode, Now: tso.TS(1 << 58).Time()})
			var refused *Error
			if err != nil && !errors.As(err, &refused) && len(jobs) > 0 {
				t.Fatalf("%v beside jobs", err)
			}
			for _, j := range jobs {
				for steps := 0; !j.Ended(); steps++ {
					start += 10
					if _, err := j.Next(tso.TS(start)); err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
					if steps > 200 {
						t.Fatalf("%s: the job does not end: %+v", sql, j.Info())
					}
				}
			}
		}
		for _, first := range []string{
			"create database d0", "create table t0 (id int primary key, a int, b varchar(20), d date, key a(a))",
			"create table t1 (id int, a int, b varchar(20)) partition by range(id) (partition p0 values less than (10), partition p1 values less than (20))",
		} {
			run(first)
		}
		run(sql)
	})
}
