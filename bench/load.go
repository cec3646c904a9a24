package bench

import (
	"bytes"
	"fmt"

	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/span"
	"github.com/sluice-cdc/sluice/upstream/fake"
	"github.com/sluice-cdc/sluice/upstream/fake/encode"
)

const (
	schemaID = 100
	tableID  = 101
	// rowBytes is the size of a row's value.
	rowBytes = 200
)

// The metadata of bench.rows (id bigint primary key, k int, c char(120), pad char(60)).
const (
	schemaJSON = `{"id":%d,"db_name":{"O":"bench","L":"bench"},"charset":"utf8mb4","collate":"utf8mb4_bin","state":5}`
	tableJSON  = `{"id":%d,"name":{"O":"rows","L":"rows"},"charset":"utf8mb4","collate":"utf8mb4_bin","state":5,"pk_is_handle":true,"version":5,"cols":[` +
		`{"id":1,"name":{"O":"id","L":"id"},"offset":0,"state":5,"version":2,"type":{"Tp":8,"Flag":4099,"Flen":20,"Decimal":0,"Charset":"binary","Collate":"binary"}},` +
		`{"id":2,"name":{"O":"k","L":"k"},"offset":1,"state":5,"version":2,"type":{"Tp":3,"Flag":0,"Flen":11,"Decimal":0,"Charset":"binary","Collate":"binary"}},` +
		`{"id":3,"name":{"O":"c","L":"c"},"offset":2,"state":5,"version":2,"type":{"Tp":254,"Flag":0,"Flen":120,"Decimal":0,"Charset":"utf8mb4","Collate":"utf8mb4_bin"}},` +
		`{"id":4,"name":{"O":"pad","L":"pad"},"offset":3,"state":5,"version":2,"type":{"Tp":254,"Flag":0,"Flen":60,"Decimal":0,"Charset":"utf8mb4","Collate":"utf8mb4_bin"}}]}`
)

// columns are those that a row's value holds; its id is in its key.
func columns() []event.Column {
	return []event.Column{
		{ID: 2, Name: "k", Type: event.TypeLong, Flen: 11},
		{ID: 3, Name: "c", Type: event.TypeString, Flen: 120, Charset: "utf8mb4", Collation: "utf8mb4_bin"},
		{ID: 4, Name: "pad", Type: event.TypeString, Flen: 60, Charset: "utf8mb4", Collation: "utf8mb4_bin"},
	}
}

// load is n inserts of rows of rowBytes bytes into one table.
func load(n int) (*fake.Bulk, error) {
	cols := columns()
	value := func(i, pad int) ([]byte, error) {
		return encode.Row2([]encode.Cell{
			{Column: &cols[0], Value: int64(1_000_000 + i)},
			{Column: &cols[1], Value: bytes.Repeat([]byte{byte('a' + i%26)}, 120)},
			{Column: &cols[2], Value: bytes.Repeat([]byte{byte('A' + i%26)}, pad)},
		}, encode.Checksum{})
	}
	bare, err := value(0, 0)
	if err != nil {
		return nil, err
	}
	pad := rowBytes - len(bare)
	if v, err := value(n-1, pad); err != nil || len(v) != rowBytes {
		return nil, fmt.Errorf("a row of %d bytes, want %d: %w", len(v), rowBytes, err)
	}
	return &fake.Bulk{
		Snapshot: []fake.KV{
			{Key: encode.HashKey("DBs", fmt.Sprintf("DB:%d", schemaID)), Value: fmt.Appendf(nil, schemaJSON, schemaID)},
			{Key: encode.HashKey(fmt.Sprintf("DB:%d", schemaID), fmt.Sprintf("Table:%d", tableID)), Value: fmt.Appendf(nil, tableJSON, tableID)},
		},
		Rows: n,
		Row: func(i int) (k, v []byte) {
			v, _ = value(i, pad) // proved above: only numbers differ
			return encode.RecordKey(tableID, encode.IntHandle(int64(i))), v
		},
	}, nil
}

// loadSpan is where the rows are.
func loadSpan() span.Span { return span.OfTable(tableID) }
