package binlog

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/internal/mariadb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a server did, seen through its log: transactions whole and in order, the
// state after each.
func TestFoldOfALog(t *testing.T) {
	server := mariadb.Start(t, mariadb.BinLog()...)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{
		"CREATE DATABASE b", "CREATE TABLE b.t (id bigint PRIMARY KEY, name varchar(10), v bigint)",
		"INSERT INTO b.t VALUES (1, 'x', 10), (2, 'y', 20)",
		"UPDATE b.t SET v = 12 WHERE id = 1",
		"REPLACE INTO b.t VALUES (2, 'z', 18)",
		"FLUSH BINARY LOGS",
		"UPDATE b.t SET id = 3 WHERE id = 1",
		"DELETE FROM b.t WHERE id = 2",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(q, err)
		}
	}
	f := &Fold{Wanted: func(schema, _ string) bool { return schema == "b" }}
	var sums []int64
	var queries, gtids []string
	err := Read(t.Context(), server, func(x Txn) error {
		if x.Query != "" {
			queries = append(queries, x.Query)
		}
		gtids = append(gtids, x.GTID)
		if err := f.Apply(x); err != nil {
			return err
		}
		sum, _ := f.Sum("v")
		if len(x.Changes) > 0 {
			sums = append(sums, sum)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sums, []int64{30, 32, 30, 30, 12}) || len(queries) < 2 || slices.Contains(gtids, "") {
		t.Errorf("sums %d, DDLs %q, GTIDs %q", sums, queries, gtids)
	}
	if rows := f.Rows("b.t"); len(rows) != 1 || rows["3"]["name"] != "x" || !slices.Equal(f.Tables(), []string{"b.t"}) {
		t.Errorf("%v of %v", rows, f.Tables())
	}
}

func TestFoldRefusesWhatCannotBe(t *testing.T) {
	in := Change{Schema: "b", Table: "t", Columns: []string{"id"}, Key: []int{0}, After: []any{int64(1)}}
	gone := Change{Schema: "b", Table: "t", Columns: []string{"id"}, Key: []int{0}, Before: []any{int64(2)}}
	keyless := Change{Schema: "b", Table: "t", Columns: []string{"id"}, After: []any{int64(1)}}
	for want, changes := range map[string][]Change{"there already": {in, in}, "is not there": {in, gone}, "no primary key": {keyless}} {
		f := new(Fold)
		if err := f.Apply(Txn{GTID: "0-1-2", Changes: changes}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
