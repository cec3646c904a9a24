package catalog_test

import (
	"fmt"

	"github.com/sluice-cdc/sluice/tso"
	"github.com/sluice-cdc/sluice/upstream/fake/catalog"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

// A cluster from nothing: two statements and a row. Every step is one
// transaction; between steps, servers that know the last version still write.
func Example() {
	now := tso.TS(1)
	c, _, err := catalog.Bootstrap(now) // commit the keys that it returns
	if err != nil {
		panic(err)
	}
	session := catalog.Session{DB: "shop", SQLMode: catalog.DefaultSQLMode}
	for _, sql := range []string{
		"create database shop", "create table items (id int primary key, name varchar(20))",
		"alter table items add column price decimal(10,2) not null default 1.5",
	} {
		jobs, err := c.Plan(sql, session)
		if err != nil {
			panic(err)
		}
		for _, j := range jobs {
			for !j.Ended() {
				now++
				s, err := j.Next(now) // commit s.Writes, started at now; then carry out s.Backfill
				if err != nil {
					panic(err)
				}
				fmt.Printf("action %d, state %d, schema state %d, %d keys\n", s.Job.Type, s.Job.State, s.Job.SchemaState, len(s.Writes))
			}
		}
	}
	items, err := c.Shape("shop", "items")
	if err != nil {
		panic(err)
	}
	row := catalog.Row{Values: []encode.Value{int64(7), []byte("chair"), encode.Decimal("99.50")}}
	kvs, err := items.Put(row, encode.Plain{}, encode.NoChecksum)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", kvs[0].Key)
	// Output:
	// action 1, state 8, schema state 0, 2 keys
	// action 1, state 4, schema state 5, 4 keys
	// action 1, state 6, schema state 5, 3 keys
	// action 3, state 8, schema state 0, 2 keys
	// action 3, state 4, schema state 5, 4 keys
	// action 3, state 6, schema state 5, 3 keys
	// action 5, state 8, schema state 0, 2 keys
	// action 5, state 1, schema state 1, 4 keys
	// action 5, state 1, schema state 2, 4 keys
	// action 5, state 1, schema state 3, 4 keys
	// action 5, state 4, schema state 5, 4 keys
	// action 5, state 6, schema state 5, 3 keys
	// 7480000000000000055f728000000000000007
}
