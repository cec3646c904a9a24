package mysql

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/sluice-cdc/sluice/tso"
)

// The record of executed DDLs outlives the server that wrote it: what is in it is a format,
// and what reads it as another one has another number.
func TestRecordGolden(t *testing.T) {
	all := noted{
		Version: notedVersion, Life: "life", Rows: 9, Since: 1, Below: 5,
		Done: []ddlNote{{Job: 7, TS: 8, Tables: []int64{70, 71}}},
		Begun: []underway{{
			ddlNote: ddlNote{Job: 8, TS: 9, Tables: []int64{80}}, Script: "digest", Statement: 2, Refused: true,
			Before: marks{Server: "id", Version: "8.5", Started: 1700000000, LastJob: 6, Tables: map[string]mark{"`d`.`t`": {Text: "text", Made: "made", IDs: "ids"}}},
		}},
		Building: []building{{Job: 6, TableID: 60, Schema: "d", Name: "t", Index: "i", Text: "ALTER", Newest: 5}},
	}
	const want = `{"version":2,"life":"life","rows":9,"since":1,"below":5,"executed":[{"job":7,"ts":8,"tables":[70,71]}],` +
		`"begun":[{"job":8,"ts":9,"tables":[80],"script":"digest","statement":2,"before":{"server":"id","version":"8.5","started":1700000000,"job":"6","tables":{"` + "`d`.`t`" + `":{"text":"text","made":"made","ids":"ids"}}},"refused":true}],` +
		`"building":[{"job":6,"table":60,"schema":"d","name":"t","index":"i","text":"ALTER","newest":"5"}]}`
	got, err := json.Marshal(&all)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	s := &Sink{cfg: Config{Life: "life"}}
	found, err := s.parseNoted(want)
	if err != nil {
		t.Fatal(err)
	}
	all.reached()
	if !reflect.DeepEqual(*found, all) {
		t.Errorf("%+v\nwant %+v", *found, all)
	}
	// Format 1, as the release before left it.
	found, err = s.parseNoted(`{"version":1,"life":"life","ts":9,"done":[7],"now":{"job":8,"script":"digest","statement":2,"before":{"server":"id"}},` +
		`"building":[{"job":6,"table":60,"schema":"d","name":"t","index":"i","text":"ALTER","newest":"5"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	before := noted{
		Version: notedVersion, Life: "life", Rows: 9, Below: 9, Done: []ddlNote{{Job: 7, TS: 9}}, Building: all.Building,
		Begun: []underway{{ddlNote: ddlNote{Job: 8, TS: tso.TS(9)}, Script: "digest", Statement: 2, Before: marks{Server: "id"}}},
	}
	before.reached()
	if !reflect.DeepEqual(*found, before) {
		t.Errorf("format 1: %+v\nwant %+v", *found, before)
	}
	if other, err := s.parseNoted(`{"version":9,"life":"another"}`); other != nil || err != nil {
		t.Errorf("another life's: %+v, %v", other, err)
	}
}
