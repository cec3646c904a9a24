package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/schema"
	"github.com/sluice-cdc/sluice/tso"
)

var app = &schema.DBInfo{ID: 1, Name: folded("app")}

// tableOf reads a table's JSON and builds it.
func tableOf(t *testing.T, text string) *event.Table {
	t.Helper()
	info, err := schema.ParseTableInfo([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	table, err := info.Table(app, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// columnJSON is a public column; more is more of its JSON, type keys first.
func columnJSON(id int, name string, tp event.Type, flag event.Flag, more string) string {
	return fmt.Sprintf(`{"id":%d,"name":{"O":%q,"L":%q},"offset":%d,"state":5,"version":2,"type":{"Tp":%d,"Flag":%d,"Flen":10,"Decimal":2}%s}`,
		id, name, strings.ToLower(name), id-1, tp, flag, more)
}

func indexJSON(id int, name string, flags string, columns ...string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		var offset, length int
		if _, err := fmt.Sscanf(c, "%d:%d", &offset, &length); err != nil {
			panic(err)
		}
		parts[i] = fmt.Sprintf(`{"offset":%d,"length":%d}`, offset, length)
	}
	return fmt.Sprintf(`{"id":%d,"idx_name":{"O":%q,"L":%q},"state":5,"idx_cols":[%s]%s}`, id, name, name, strings.Join(parts, ","), flags)
}

func TestKey(t *testing.T) {
	const notNull = event.FlagNotNull
	columns := strings.Join([]string{
		columnJSON(1, "a", event.TypeLong, notNull, ""),
		columnJSON(2, "b", event.TypeLong, notNull, ""),
		columnJSON(3, "n", event.TypeLong, 0, ""),
		columnJSON(4, "v", event.TypeLong, notNull, `,"generated_expr_string":"a+1"`),
		columnJSON(5, "h", event.TypeLong, notNull, `,"hidden":true,"generated_expr_string":"lower(s)"`),
		columnJSON(6, "s", event.TypeVarchar, notNull, ""),
	}, ",")
	const unique = `,"is_unique":true`
	for name, c := range map[string]struct{ indexes, flags, want string }{
		"none":                              {"", "", "[]"},
		"not unique":                        {indexJSON(1, "k", "", "0:-1"), "", "[]"},
		"unique":                            {indexJSON(1, "k", unique, "0:-1"), "", "[0]"},
		"a column that may be NULL":         {indexJSON(1, "k", unique, "2:-1"), "", "[]"},
		"a virtual column":                  {indexJSON(1, "k", unique, "3:-1"), "", "[]"},
		"a hidden column":                   {indexJSON(1, "k", unique, "4:-1"), "", "[]"},
		"a prefix":                          {indexJSON(1, "k", unique, "5:3"), "", "[]"},
		"whole strings":                     {indexJSON(1, "k", unique, "5:-1"), "", "[4]"}, // the hidden column is not counted
		"some rows only":                    {indexJSON(1, "k", unique+`,"condition_expr_string":"a>1"`, "0:-1"), "", "[]"},
		"per element":                       {indexJSON(1, "k", unique+`,"mv_index":true`, "0:-1"), "", "[]"},
		"not public":                        {strings.Replace(indexJSON(1, "k", unique, "0:-1"), `"state":5`, `"state":3`, 1), "", "[]"},
		"fewest columns":                    {indexJSON(1, "k", unique, "0:-1", "1:-1") + "," + indexJSON(2, "l", unique, "5:-1"), "", "[4]"},
		"smallest id":                       {indexJSON(3, "k", unique, "1:-1") + "," + indexJSON(2, "l", unique, "0:-1"), "", "[0]"},
		"a primary key before all":          {indexJSON(1, "k", unique, "0:-1") + "," + indexJSON(2, "PRIMARY", unique+`,"is_primary":true`, "1:-1", "5:2"), "", "[1 4]"},
		"an invisible index is kept up too": {indexJSON(1, "k", unique+`,"is_invisible":true`, "1:-1"), "", "[1]"},
	} {
		table := tableOf(t, fmt.Sprintf(`{"id":7,"name":{"O":"t","L":"t"},"state":5,"cols":[%s],"index_info":[%s]%s}`, columns, c.indexes, c.flags))
		if got := fmt.Sprint(table.Key); got != c.want {
			t.Errorf("%s: key %s, want %s", name, got, c.want)
		}
	}
}

func TestHandle(t *testing.T) {
	a := columnJSON(1, "a", event.TypeLong, event.FlagNotNull|event.FlagPriKey, "")
	b := columnJSON(2, "b", event.TypeVarchar, event.FlagNotNull, "")
	rowid := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"cols":[`+a+`]}`)
	if rowid.Handle.Kind != event.RowIDHandle || len(rowid.Handle.Parts) != 0 || rowid.Eligible() {
		t.Errorf("rowid: %+v", rowid.Handle)
	}
	integer := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"pk_is_handle":true,"cols":[`+b+","+a+`]}`)
	if integer.Handle.Kind != event.IntHandle || fmt.Sprint(integer.Handle.Parts) != "[{1 -1 }]" || fmt.Sprint(integer.Key) != "[1]" || len(integer.Indexes) != 1 || integer.Indexes[0].ID != 0 {
		t.Errorf("integer: %+v %+v", integer.Handle, integer.Indexes)
	}
	common := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"is_common_handle":true,"cols":[`+a+","+b+`],"index_info":[`+
		indexJSON(1, "PRIMARY", `,"is_primary":true`, "1:3", "0:-1")+`]}`)
	if common.Handle.Kind != event.CommonHandle || fmt.Sprint(common.Handle.Parts) != "[{1 3 } {0 -1 }]" || !common.Indexes[0].Unique {
		t.Errorf("common: %+v", common.Handle)
	}
	for _, broken := range []string{
		`{"id":7,"name":{"O":"t","L":"t"},"is_common_handle":true,"cols":[` + a + `]}`,
		`{"id":7,"name":{"O":"t","L":"t"},"pk_is_handle":true,"cols":[` + b + `]}`,
		`{"id":7,"name":{"O":"t","L":"t"},"cols":[` + a + `],"index_info":[` + indexJSON(1, "k", "", "9:-1") + `]}`,
	} {
		info, err := schema.ParseTableInfo([]byte(broken))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := info.Table(app, nil); !cdcerr.SchemaSnapshot.Is(err) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

func TestShownColumns(t *testing.T) {
	table := tableOf(t, `{"id":7,"name":"bare","charset":"utf8mb4","cols":[`+strings.Join([]string{
		columnJSON(1, "a", event.TypeLong, 0, `,"default":"5","comment":"c"`),
		columnJSON(2, "h", event.TypeLong, 0, `,"hidden":true,"generated_expr_string":"lower(x)"`),
		strings.Replace(columnJSON(3, "w", event.TypeLong, 0, ""), `"state":5`, `"state":2`, 1),
		columnJSON(4, "s", event.TypeLong, 0, `,"generated_expr_string":"a+1","generated_stored":true`),
		columnJSON(5, "v", event.TypeLong, event.FlagNotNull, `,"generated_expr_string":"a+2"`),
		columnJSON(6, "b", event.TypeBit, 0, `,"default":"\u0005","default_bit":"BQ=="`),
		columnJSON(7, "n", event.TypeLong, 0, `,"default":12`),
		columnJSON(8, "e", event.TypeLong, 0, `,"default":"uuid()","default_is_expr":true`),
	}, ",")+`],"index_info":[`+indexJSON(1, "ie", "", "1:-1", "3:-1")+`]}`)
	var got []string
	for _, c := range table.Columns {
		def := "-"
		if c.Default != nil {
			def = fmt.Sprintf("%s/%v", *c.Default, c.DefaultIsExpr)
		}
		got = append(got, fmt.Sprintf("%d:%s:%d:%s:%s:missing=%v", c.ID, c.Name, c.Generated, c.GenExpr, def, c.Absent.IsMissing()))
	}
	want := "1:a:0::5/false:missing=false 4:s:2:a+1:-:missing=false 5:v:1:a+2:-:missing=true 6:b:0::b'101'/false:missing=false " +
		"7:n:0::12/false:missing=false 8:e:0::uuid()/true:missing=false"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("columns\n%s\nwant\n%s", s, want)
	}
	if table.Name != "bare" || fmt.Sprint(table.Indexes[0].Parts) != "[{-1 -1 lower(x)} {1 -1 }]" {
		t.Errorf("%s %+v", table.Name, table.Indexes)
	}
}

// A row older than its column has the origin default, cast to what the column
// is today; else NULL; else the zero of the type.
func TestAbsent(t *testing.T) {
	const notNull = event.FlagNotNull
	at := tso.At(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
	for _, c := range []struct {
		name     string
		tp       event.Type
		flag     event.Flag
		more     string
		want     string
		isOrigin bool
	}{
		{"nullable", event.TypeLong, 0, `,"default":"7"`, "NULL", false},
		{"int", event.TypeLong, notNull, `,"default":"7"`, "0", false},
		{"unsigned", event.TypeLonglong, notNull | event.FlagUnsigned, "", "0", false},
		{"bigint unsigned", event.TypeLonglong, notNull | event.FlagUnsigned, `,"origin_default":"18446744073709551615"`, "18446744073709551615", true},
		{"a number in the JSON", event.TypeLong, 0, `,"origin_default":12`, "12", true},
		{"decimal", event.TypeNewDecimal, notNull, "", "0.00", false},
		{"decimal not padded", event.TypeNewDecimal, 0, `,"origin_default":"1.5"`, "1.50", true},
		{"varchar", event.TypeVarchar, notNull, "", "", false},
		{"varchar with a word", event.TypeVarchar, 0, `,"origin_default":"CURRENT_TIMESTAMP"`, "CURRENT_TIMESTAMP", true},
		{"date", event.TypeDate, notNull, "", "0000-00-00", false},
		{"date word", event.TypeDate, 0, `,"origin_default":"CURRENT_DATE"`, "2024-05-06", true},
		{"datetime word", event.TypeDatetime, 0, `,"origin_default":"current_timestamp(2)"`, "2024-05-06 07:08:09.00", true},
		{"timestamp", event.TypeTimestamp, 0, `,"origin_default":"2021-06-01 04:00:00.123"`, "2021-06-01 04:00:00.12", true},
		{"zero timestamp", event.TypeTimestamp, 0, `,"origin_default":"0000-00-00 00:00:00"`, "0000-00-00 00:00:00.00", true},
		{"time", event.TypeDuration, notNull, `,"origin_default":"-01:02:03.04"`, "-01:02:03.04", true},
		{"year", event.TypeYear, notNull, "", "0000", false},
		{"bit", event.TypeBit, 0, `,"origin_default":"\u0001","origin_default_bit":"Acc="`, "\x01\xc7", true},
		{"json", event.TypeJSON, notNull, "", "null", false},
		{"stored generated", event.TypeLong, 0, `,"generated_expr_string":"1","generated_stored":true`, "NULL", false},
	} {
		table := tableOf(t, fmt.Sprintf(`{"id":7,"name":{"O":"t","L":"t"},"update_timestamp":%d,"cols":[%s]}`, at, columnJSON(1, "c", c.tp, c.flag, c.more)))
		col := &table.Columns[0]
		got := "NULL"
		if !col.Absent.IsNull() {
			got = col.Absent.Text(col)
		}
		if got != c.want || col.HasOrigin != c.isOrigin {
			t.Errorf("%s: %q (origin %v), want %q (%v)", c.name, got, col.HasOrigin, c.want, c.isOrigin)
		}
	}
}

func TestAbsentMembers(t *testing.T) {
	members := func(tp event.Type, more string) string {
		return fmt.Sprintf(`{"id":7,"name":{"O":"t","L":"t"},"cols":[{"id":1,"name":{"O":"c","L":"c"},"state":5,"type":{"Tp":%d,"Flag":1,"Elems":["p","q","r"]}%s}]}`, tp, more)
	}
	for _, c := range []struct {
		text string
		want event.Value
	}{
		{members(event.TypeEnum, ""), event.EnumValue(1)},
		{members(event.TypeEnum, `,"origin_default":"q"`), event.EnumValue(2)},
		{members(event.TypeSet, ""), event.SetValue(0)},
		{members(event.TypeSet, `,"origin_default":"p,r"`), event.SetValue(5)},
	} {
		if got := tableOf(t, c.text).Columns[0].Absent; !got.Equal(c.want) {
			t.Errorf("%s: %+v", c.text, got)
		}
	}
	info, err := schema.ParseTableInfo([]byte(members(event.TypeEnum, `,"origin_default":"none of them"`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := info.Table(app, nil); !cdcerr.SchemaSnapshot.Is(err) {
		t.Errorf("a default that is no member: %v", err)
	}
}

// Columns of version 0 keep TIMESTAMP defaults in the servers' zone.
func TestOldColumnVersion(t *testing.T) {
	zone := time.FixedZone("east", 8*3600)
	for version, want := range map[int]string{0: "2024-01-01 00:00:00.00", 1: "2024-01-01 08:00:00.00", 2: "2024-01-01 08:00:00.00"} {
		column := strings.Replace(columnJSON(1, "c", event.TypeTimestamp, 0, `,"origin_default":"2024-01-01 08:00:00"`), `"version":2`, fmt.Sprintf(`"version":%d`, version), 1)
		info, err := schema.ParseTableInfo([]byte(`{"id":7,"name":{"O":"t","L":"t"},"cols":[` + column + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		table, err := info.Table(app, zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Columns[0].Absent.Text(&table.Columns[0]); got != want {
			t.Errorf("version %d: %s, want %s", version, got, want)
		}
	}
}

func TestPartitionsAndViews(t *testing.T) {
	table := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"cols":[],"partition":{"type":1,"expr":"","columns":[{"O":"A","L":"a"}],"enable":true,
		"definitions":[{"id":8,"name":{"O":"p0","L":"p0"},"less_than":["10"]},{"id":9,"name":{"O":"P1","L":"p1"},"in_values":[["1","2"]]}],
		"adding_definitions":[{"id":10,"name":{"O":"x","L":"x"}}]}}`)
	if fmt.Sprint(table.PhysicalIDs()) != "[8 9]" || fmt.Sprint(*table.PartitionBy) != "{1  [A]}" || fmt.Sprint(table.Partitions) != "[{8 p0 [10] []} {9 P1 [] [[1 2]]}]" {
		t.Errorf("%+v %+v", table.Partitions, table.PartitionBy)
	}
	off := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"cols":[],"partition":{"enable":false,"definitions":[{"id":8}]}}`)
	alone := tableOf(t, `{"id":7,"name":{"O":"t","L":"t"},"cols":[],"partition":{"enable":true,"definitions":[{"id":7,"name":{"O":"pFullTable","L":"pfulltable"}}]}}`)
	for _, plain := range []*event.Table{off, alone} {
		if fmt.Sprint(plain.PhysicalIDs()) != "[7]" || plain.PartitionBy != nil {
			t.Errorf("%+v", plain)
		}
	}
	view := tableOf(t, `{"id":7,"name":{"O":"v","L":"v"},"cols":[],"view":{"view_select":"SELECT 1","view_cols":[{"O":"X","L":"x"}]}}`)
	if view.Kind != event.View || view.View.Select != "SELECT 1" || view.View.Columns[0] != "X" || view.PhysicalIDs() != nil {
		t.Errorf("%+v", view)
	}
	if temp := tableOf(t, `{"id":7,"name":{"O":"v","L":"v"},"cols":[],"temp_table_type":1}`); temp.Kind != event.TemporaryTable {
		t.Errorf("%+v", temp)
	}
}

// What the session of a job was travels with the DDL.
func TestDescription(t *testing.T) {
	s := schema.NewStore(100)
	s.LoadDatabase(app)
	if err := s.LoadTable(1, &schema.TableInfo{ID: 10, Name: folded("t")}); err != nil {
		t.Fatal(err)
	}
	job, err := schema.ParseJob([]byte(`{"id":5,"type":17,"schema_id":1,"table_id":10,"state":4,"start_ts":95,"query":"alter table t comment 'x'","version":2,
		"binlog":{"SchemaVersion":77,"TableInfo":{"id":10,"name":{"O":"t","L":"t"},"comment":"x","update_timestamp":96}},
		"reorg_meta":{"sql_mode":3,"location":{"name":"Asia/Shanghai","offset":28800}},"charset":"gbk","collate":"gbk_bin","sql_mode":1436549152,
		"bdr_role":"primary","cdc_write_source":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Step(schema.JobRow{StartTS: 101, CommitTS: 102, Job: job}); err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(102); err != nil {
		t.Fatal(err)
	}
	d := s.Ready().DDLs[0]
	d.Tables = nil
	got, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"JobID":5,"Action":17,"StartTS":95,"SwitchTS":102,"FinishedTS":102,"SchemaVersion":77,"Query":"alter table t comment 'x'","Schema":"app","SQLMode":1436549152,` +
		`"Charset":"gbk","Collation":"gbk_bin","ZoneName":"Asia/Shanghai","ZoneOffset":28800,"DatabaseBefore":null,"DatabaseAfter":null,"Tables":null,"Conversions":null,` +
		`"WithValidation":false,"Partition":"","BDRRole":"primary","WriteSource":2}`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if table, _ := s.TableAt(10, 103); table.Comment != "x" || table.Version != 96 {
		t.Errorf("%+v", table)
	}
}

func TestBadJSON(t *testing.T) {
	for _, text := range []string{``, `{`, `[]`, `{"id":1}`, `{"name":{"O":"t"}}`} {
		if _, err := schema.ParseTableInfo([]byte(text)); !cdcerr.SchemaSnapshot.Is(err) {
			t.Errorf("table %q: %v", text, err)
		}
		if _, err := schema.ParseDBInfo([]byte(text)); !cdcerr.SchemaSnapshot.Is(err) {
			t.Errorf("database %q: %v", text, err)
		}
	}
	for _, text := range []string{``, `{`, `[]`, `{}`, `{"id":"x"}`} {
		if _, err := schema.ParseJob([]byte(text)); !cdcerr.InvalidDDLJob.Is(err) {
			t.Errorf("job %q: %v", text, err)
		}
	}
}

func TestMetaKeys(t *testing.T) {
	start, end := schema.DatabasesRange()
	if k, ok := schema.ParseMetaKey(append(start, 0)); ok {
		t.Errorf("%+v", k)
	}
	if string(start[:4]) != "mDBs" || string(start) >= string(end) {
		t.Errorf("%q %q", start, end)
	}
	for _, key := range []string{"", "m", "t", "mDBs", "x" + string(start)} {
		if k, ok := schema.ParseMetaKey([]byte(key)); ok {
			t.Errorf("%q: %+v", key, k)
		}
	}
}

func BenchmarkTableAt(b *testing.B) {
	s := schema.NewStore(100)
	s.LoadDatabase(app)
	for id := range int64(10000) {
		if err := s.LoadTable(1, &schema.TableInfo{ID: id + 1, Name: folded(fmt.Sprint("t", id))}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range b.N {
		if _, ok := s.TableAt(int64(i%10000)+1, 200); !ok {
			b.Fatal(i)
		}
	}
}
