package record

import (
	"fmt"
	"math"

	"github.com/sluice-cdc/sluice/event"
)

func appendTable(b []byte, t *event.Table) []byte {
	m := message(b)
	m.num(1, uint64(t.ID))
	m.num(2, uint64(t.SchemaID))
	m.text(3, t.Schema)
	m.text(4, t.Name)
	m.num(5, uint64(t.Kind))
	m.text(6, t.Charset)
	m.text(7, t.Collation)
	m.text(8, t.Comment)
	m.num(9, t.Version)
	for i := range t.Columns {
		m.eachBytes(10, appendColumn(nil, &t.Columns[i]))
	}
	for i := range t.Indexes {
		m.eachBytes(11, appendIndex(nil, &t.Indexes[i]))
	}
	m.num(12, uint64(t.Handle.Kind))
	for _, p := range t.Handle.Parts {
		m.eachBytes(13, appendPart(nil, p))
	}
	for _, column := range t.Key {
		m.eachNum(14, uint64(column))
	}
	for i := range t.Partitions {
		m.eachBytes(15, appendPartition(nil, &t.Partitions[i]))
	}
	if by := t.PartitionBy; by != nil {
		var inner message
		inner.num(1, uint64(by.Kind))
		inner.text(2, by.Expr)
		inner.texts(3, by.Columns)
		m.eachBytes(16, inner)
	}
	if v := t.View; v != nil {
		var inner message
		inner.text(1, v.Select)
		inner.texts(2, v.Columns)
		m.eachBytes(17, inner)
	}
	m.num(18, t.ShardRowIDBits)
	m.num(19, t.AutoRandomBits)
	return m
}

func parseTable(b []byte, t *event.Table) error {
	err := fields(b, func(f field) error {
		switch f.id {
		case 1:
			t.ID = int64(f.num)
		case 2:
			t.SchemaID = int64(f.num)
		case 3:
			t.Schema = f.text()
		case 4:
			t.Name = f.text()
		case 5:
			t.Kind = event.Kind(f.num)
		case 6:
			t.Charset = f.text()
		case 7:
			t.Collation = f.text()
		case 8:
			t.Comment = f.text()
		case 9:
			t.Version = f.num
		case 18:
			t.ShardRowIDBits = f.num
		case 19:
			t.AutoRandomBits = f.num
		default:
			return parseTableParts(f, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return checkTable(t)
}

func parseTableParts(f field, t *event.Table) (err error) {
	switch f.id {
	case 10:
		t.Columns = append(t.Columns, event.Column{})
		err = parseColumn(f.bytes, &t.Columns[len(t.Columns)-1])
	case 11:
		t.Indexes = append(t.Indexes, event.Index{})
		err = parseIndex(f.bytes, &t.Indexes[len(t.Indexes)-1])
	case 12:
		t.Handle.Kind = event.HandleKind(f.num)
	case 13:
		t.Handle.Parts, err = parsePart(t.Handle.Parts, f.bytes)
	case 14:
		t.Key = append(t.Key, int(min(f.num, math.MaxInt32)))
	case 15:
		t.Partitions = append(t.Partitions, event.Partition{})
		err = parsePartition(f.bytes, &t.Partitions[len(t.Partitions)-1])
	case 16:
		t.PartitionBy = &event.PartitionBy{}
		err = fields(f.bytes, func(f field) error {
			switch f.id {
			case 1:
				t.PartitionBy.Kind = event.PartitionKind(f.num)
			case 2:
				t.PartitionBy.Expr = f.text()
			case 3:
				t.PartitionBy.Columns = append(t.PartitionBy.Columns, f.text())
			}
			return nil
		})
	case 17:
		t.View = &event.ViewDef{}
		err = fields(f.bytes, func(f field) error {
			switch f.id {
			case 1:
				t.View.Select = f.text()
			case 2:
				t.View.Columns = append(t.View.Columns, f.text())
			}
			return nil
		})
	}
	return err
}

// checkTable refuses a table that refers to columns that it does not have: who
// uses one does not look.
func checkTable(t *event.Table) error {
	part := func(p event.IndexPart) error {
		if p.Column < -1 || p.Column >= len(t.Columns) {
			return fmt.Errorf("table %s: column %d of %d", t.FullName(), p.Column, len(t.Columns))
		}
		return nil
	}
	for _, column := range t.Key {
		if column < 0 || column >= len(t.Columns) {
			return fmt.Errorf("table %s: key column %d of %d", t.FullName(), column, len(t.Columns))
		}
	}
	for _, p := range t.Handle.Parts {
		if p.Column < 0 {
			return fmt.Errorf("table %s: a handle of a hidden column", t.FullName())
		}
		if err := part(p); err != nil {
			return err
		}
	}
	for _, index := range t.Indexes {
		for _, p := range index.Parts {
			if err := part(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendColumn(b []byte, c *event.Column) []byte {
	m := message(b)
	m.num(1, uint64(c.ID))
	m.text(2, c.Name)
	m.num(3, uint64(c.Type))
	m.num(4, uint64(c.Flag))
	m.signed(5, c.Flen)
	m.signed(6, c.Decimal)
	m.text(7, c.Charset)
	m.text(8, c.Collation)
	m.texts(9, c.Elems)
	m.text(10, c.Comment)
	m.num(11, uint64(c.Generated))
	m.text(12, c.GenExpr)
	if c.Default != nil {
		m.eachText(13, *c.Default)
	}
	m.flag(14, c.DefaultIsExpr)
	if !c.Absent.IsMissing() {
		m.eachBytes(15, appendValue(nil, c.Absent))
	}
	m.flag(16, c.HasOrigin)
	return m
}

func parseColumn(b []byte, c *event.Column) error {
	return fields(b, func(f field) (err error) {
		switch f.id {
		case 1:
			c.ID = int64(f.num)
		case 2:
			c.Name = f.text()
		case 3:
			c.Type = event.Type(f.num)
		case 4:
			c.Flag = event.Flag(f.num)
		case 5:
			c.Flen = f.signed()
		case 6:
			c.Decimal = f.signed()
		case 7:
			c.Charset = f.text()
		case 8:
			c.Collation = f.text()
		case 9:
			c.Elems = append(c.Elems, f.text())
		case 10:
			c.Comment = f.text()
		case 11:
			c.Generated = event.Generated(f.num)
		case 12:
			c.GenExpr = f.text()
		case 13:
			text := f.text()
			c.Default = &text
		case 14:
			c.DefaultIsExpr = f.flag()
		case 15:
			c.Absent, err = parseValue(f.bytes)
		case 16:
			c.HasOrigin = f.flag()
		}
		return err
	})
}

func appendValue(b []byte, v event.Value) []byte {
	m := message(b)
	m.num(1, uint64(v.Kind()))
	m.num(2, v.Uint())
	m.bytes(3, v.Raw())
	return m
}

// parseValue reads one cell, and checks it where its form can be wrong: what is
// printed later is not looked at again.
func parseValue(b []byte) (event.Value, error) {
	var kind event.ValueKind
	var num uint64
	var raw []byte
	err := fields(b, func(f field) error {
		switch f.id {
		case 1:
			kind = event.ValueKind(min(f.num, math.MaxUint8))
		case 2:
			num = f.num
		case 3:
			raw = f.bytes
		}
		return nil
	})
	if err != nil {
		return event.Value{}, err
	}
	switch kind {
	case event.Missing:
		return event.Value{}, nil
	case event.Null:
		return event.NullValue(), nil
	case event.Int:
		return event.IntValue(int64(num)), nil
	case event.Uint:
		return event.UintValue(num), nil
	case event.Float:
		return event.FloatValue(math.Float64frombits(num)), nil
	case event.Decimal:
		return event.DecimalValue(raw), event.CheckDecimal(raw)
	case event.Bytes:
		return event.BytesValue(raw), nil
	case event.Time:
		return event.TimeValue(num), nil
	case event.Duration:
		return event.DurationValue(int64(num)), nil
	case event.Enum:
		return event.EnumValue(num), nil
	case event.Set:
		return event.SetValue(num), nil
	case event.Bit:
		return event.BitValue(num), nil
	case event.JSON:
		return event.JSONValue(raw), event.CheckJSON(raw)
	case event.Vector:
		return event.VectorValue(raw), event.CheckVector(raw)
	}
	return event.Value{}, fmt.Errorf("a value of kind %d", kind)
}

func appendPart(b []byte, p event.IndexPart) []byte {
	m := message(b)
	m.signed(1, p.Column)
	m.signed(2, p.Length)
	m.text(3, p.Expr)
	return m
}

func parsePart(parts []event.IndexPart, b []byte) ([]event.IndexPart, error) {
	var p event.IndexPart
	err := fields(b, func(f field) error {
		switch f.id {
		case 1:
			p.Column = f.signed()
		case 2:
			p.Length = f.signed()
		case 3:
			p.Expr = f.text()
		}
		return nil
	})
	return append(parts, p), err
}

func appendIndex(b []byte, i *event.Index) []byte {
	m := message(b)
	m.num(1, uint64(i.ID))
	m.text(2, i.Name)
	for _, p := range i.Parts {
		m.eachBytes(3, appendPart(nil, p))
	}
	m.flag(4, i.Unique)
	m.flag(5, i.Primary)
	m.flag(6, i.Invisible)
	m.flag(7, i.Global)
	m.text(8, i.Comment)
	m.text(9, i.Condition)
	return m
}

func parseIndex(b []byte, i *event.Index) error {
	return fields(b, func(f field) (err error) {
		switch f.id {
		case 1:
			i.ID = int64(f.num)
		case 2:
			i.Name = f.text()
		case 3:
			i.Parts, err = parsePart(i.Parts, f.bytes)
		case 4:
			i.Unique = f.flag()
		case 5:
			i.Primary = f.flag()
		case 6:
			i.Invisible = f.flag()
		case 7:
			i.Global = f.flag()
		case 8:
			i.Comment = f.text()
		case 9:
			i.Condition = f.text()
		}
		return err
	})
}

func appendPartition(b []byte, p *event.Partition) []byte {
	m := message(b)
	m.num(1, uint64(p.ID))
	m.text(2, p.Name)
	m.texts(3, p.LessThan)
	for _, tuple := range p.InValues {
		var inner message
		inner.texts(1, tuple)
		m.eachBytes(4, inner)
	}
	return m
}

func parsePartition(b []byte, p *event.Partition) error {
	return fields(b, func(f field) error {
		switch f.id {
		case 1:
			p.ID = int64(f.num)
		case 2:
			p.Name = f.text()
		case 3:
			p.LessThan = append(p.LessThan, f.text())
		case 4:
			var tuple []string
			err := fields(f.bytes, func(f field) error {
				if f.id == 1 {
					tuple = append(tuple, f.text())
				}
				return nil
			})
			p.InValues = append(p.InValues, tuple)
			return err
		}
		return nil
	})
}
