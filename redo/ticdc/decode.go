package ticdc

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// Record is one row or one DDL.
type Record struct {
	Row *event.Row // its Raw and Key are nil: TiCDC does not keep them
	DDL *event.DDL // its tables are not known
}

// version is that of the record that is read, behind two bytes of 0xff.
const version = 2

// The flags of TiCDC's columns.
const (
	flagBinary     = 1 << 0
	flagHandleKey  = 1 << 1
	flagPrimaryKey = 1 << 3
	flagUniqueKey  = 1 << 4
	flagNullable   = 1 << 6
	flagUnsigned   = 1 << 7
)

// Decode reads a record. Zone is that of the TiCDC server that wrote it, in which
// its TIMESTAMP columns stand.
func Decode(record []byte, zone *time.Location) (Record, error) {
	if len(record) < 4 || record[0] != 0xff || record[1] != 0xff {
		return Record{}, cdcerr.RedoVersion.New("a record of TiCDC before version %d: upgrade TiCDC and let it write a log, or recover with the TiCDC that wrote this one", version)
	}
	if v := binary.BigEndian.Uint16(record[2:]); v != version {
		return Record{}, cdcerr.RedoVersion.New("a record of TiCDC's version %d, known is %d", v, version)
	}
	log, err := fieldsOf(record[4:])
	if err != nil {
		return Record{}, cdcerr.RedoCorrupted.Wrap(err, "a record of TiCDC")
	}
	var out Record
	switch log.uint("type") {
	case 1:
		out.Row, err = rowOf(log.inner("row"), zone)
	case 2:
		out.DDL, err = ddlOf(log.inner("ddl"))
	default:
		err = fmt.Errorf("a record of type %d", log.uint("type"))
	}
	if err != nil {
		return Record{}, cdcerr.RedoCorrupted.Wrap(err, "a record of TiCDC")
	}
	return out, nil
}

// Marks are what a meta says.
type Marks struct{ Checkpoint, Resolved tso.TS }

// DecodeMeta reads a meta. Of several the largest checkpoint and the largest
// resolved-ts count, as TiCDC takes them.
func DecodeMeta(data []byte) (Marks, error) {
	m, err := fieldsOf(data)
	if err != nil {
		return Marks{}, cdcerr.RedoCorrupted.Wrap(err, "a meta of TiCDC")
	}
	out := Marks{tso.TS(m.uint("checkpointTs")), tso.TS(m.uint("resolvedTs"))}
	if out.Resolved == 0 {
		return Marks{}, cdcerr.RedoCorrupted.New("a meta of TiCDC without a resolved-ts")
	}
	return out, nil
}

// fields is a map of MessagePack. What is not there, or of another kind, is zero.
type fields map[string]any

func fieldsOf(b []byte) (fields, error) {
	v, _, err := value(b, 0)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T and no map", v)
	}
	return m, nil
}

func (f fields) inner(name string) fields {
	m, _ := f[name].(map[string]any)
	return m
}

func (f fields) list(name string) []any {
	l, _ := f[name].([]any)
	return l
}

func (f fields) uint(name string) uint64 {
	switch v := f[name].(type) {
	case int64:
		return uint64(v)
	case uint64:
		return v
	}
	return 0
}

// text is the first of the names that is there.
func (f fields) text(names ...string) string {
	for _, name := range names {
		if s, ok := f[name].(string); ok {
			return s
		}
	}
	return ""
}

func rowOf(r fields, zone *time.Location) (*event.Row, error) {
	in := r.inner("row")
	table := in.inner("table")
	t := &event.Table{ID: int64(table.uint("tbl-id")), Schema: table.text("db-name", "schema"), Name: table.text("tbl-name", "table")}
	after, before := r.list("columns"), r.list("pre-columns")
	shape, values := in.list("columns"), after
	if len(shape) == 0 {
		shape, values = in.list("pre-columns"), before
	}
	if t.Name == "" || len(shape) == 0 || len(values) != len(shape) {
		return nil, fmt.Errorf("a row of table %q with %d columns and %d values", t.FullName(), len(shape), len(values))
	}
	for i := range shape {
		s, _ := shape[i].(map[string]any)
		v, _ := values[i].(map[string]any)
		t.Columns = append(t.Columns, columnOf(s, fields(v).uint("flag")))
	}
	keys(t, in.list("index-columns"), values)
	row := &event.Row{StartTS: tso.TS(in.uint("start-ts")), CommitTS: tso.TS(in.uint("commit-ts")), Table: t, PhysicalID: t.ID}
	var err error
	if row.After, err = imageOf(t, after, zone); err == nil {
		row.Before, err = imageOf(t, before, zone)
	}
	if err != nil || row.CommitTS == 0 || row.Before == nil && row.After == nil {
		return nil, fmt.Errorf("a row of table %s committed at %d: %w", t.FullName(), row.CommitTS, orNothing(err))
	}
	return row, nil
}

func orNothing(err error) error {
	if err == nil {
		return fmt.Errorf("it has no commit-ts or no values")
	}
	return err
}

func columnOf(s fields, flag uint64) event.Column {
	c := event.Column{Name: s.text("name"), Type: event.Type(s.uint("type")), Charset: s.text("charset"), Collation: s.text("collation"), Flen: -1, Decimal: -1}
	for bit, is := range map[uint64]event.Flag{flagPrimaryKey: event.FlagPriKey, flagUniqueKey: event.FlagUniqueKey, flagUnsigned: event.FlagUnsigned, flagBinary: event.FlagBinary} {
		if flag&bit != 0 {
			c.Flag |= is
		}
	}
	if flag&flagNullable == 0 {
		c.Flag |= event.FlagNotNull
	}
	if flag&flagBinary != 0 && c.Charset == "" && c.IsString() {
		c.Charset, c.Collation = "binary", "binary"
	}
	return c
}

// keys takes the table's indexes, and the columns that name a row.
func keys(t *event.Table, indexes []any, values []any) {
	for i, list := range indexes {
		columns, _ := list.([]any)
		index := event.Index{ID: int64(i + 1), Name: fmt.Sprintf("index %d", i+1), Unique: true}
		for _, c := range columns {
			if at := (fields{"": c}).uint(""); at < uint64(len(t.Columns)) {
				index.Parts = append(index.Parts, event.IndexPart{Column: int(at), Length: event.FullLength})
			}
		}
		t.Indexes = append(t.Indexes, index)
	}
	for i := range values {
		if v, _ := values[i].(map[string]any); fields(v).uint("flag")&flagHandleKey != 0 {
			t.Key = append(t.Key, i)
		}
	}
}

func imageOf(t *event.Table, values []any, zone *time.Location) (event.Image, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) != len(t.Columns) {
		return nil, fmt.Errorf("%d values of %d columns", len(values), len(t.Columns))
	}
	out := make(event.Image, len(values))
	for i, v := range values {
		cell, _ := v.(map[string]any)
		var err error
		if out[i], err = cellOf(&t.Columns[i], cell, zone); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cellOf is one value. What TiCDC keeps as text is read as such, by a column that is
// as wide as the text.
func cellOf(c *event.Column, cell fields, zone *time.Location) (event.Value, error) {
	var text string
	switch v := cell["column"].(type) {
	case nil:
		if empty, _ := cell["value-is-empty-bytes"].(bool); empty {
			return event.BytesValue(nil), nil
		}
		return event.NullValue(), nil
	case int64, uint64:
		n := cell.uint("column")
		switch c.ValueKind() {
		case event.Int:
			return event.IntValue(int64(n)), nil
		case event.Uint:
			return event.UintValue(n), nil
		case event.Enum:
			return event.EnumValue(n), nil
		case event.Set:
			return event.SetValue(n), nil
		case event.Bit:
			return event.BitValue(n), nil
		}
		return event.Value{}, fmt.Errorf("column %s of type %d holds the number %d", c.Name, c.Type, n)
	case float32:
		return event.FloatValue(float64(v)), nil
	case float64:
		return event.FloatValue(v), nil
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return event.Value{}, fmt.Errorf("column %s holds %T", c.Name, v)
	}
	if c.IsString() {
		return event.BytesValue([]byte(text)), nil
	}
	return event.ParseText(widened(c, &text, zone), text)
}

// widened is a column that holds all digits of a text, and the text in UTC.
func widened(c *event.Column, text *string, zone *time.Location) *event.Column {
	w := *c
	_, fraction, _ := strings.Cut(*text, ".")
	switch c.ValueKind() {
	case event.Decimal:
		w.Decimal = len(fraction)
		w.Flen = len(*text)
	case event.Time, event.Duration:
		w.Decimal = len(fraction)
	}
	if c.Type == event.TypeTimestamp && zone != nil {
		const layout = "2006-01-02 15:04:05.999999"
		if at, err := time.ParseInLocation(layout, *text, zone); err == nil {
			*text = at.UTC().Format("2006-01-02 15:04:05") + strings.TrimSuffix("."+fraction, ".")
		}
	}
	if c.Decimal < w.Decimal {
		c.Decimal, c.Flen = w.Decimal, w.Flen // so that it prints with them
	}
	return &w
}

func ddlOf(r fields) (*event.DDL, error) {
	in := r.inner("ddl")
	name := r.inner("table-name")
	d := &event.DDL{
		Action: event.Action(r.uint("type")), StartTS: tso.TS(in.uint("start-ts")), SwitchTS: tso.TS(in.uint("commit-ts")), FinishedTS: tso.TS(in.uint("commit-ts")),
		Query: in.text("query"), Schema: name.text("db-name", "schema"),
	}
	if d.SwitchTS == 0 || d.Query == "" {
		return nil, fmt.Errorf("a DDL without its commit-ts or its text")
	}
	return d, nil
}
