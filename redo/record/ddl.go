package record

import "github.com/sluice-cdc/sluice/event"

func appendDDL(b []byte, d *event.DDL) []byte {
	m := message(b)
	m.num(1, uint64(d.JobID))
	m.num(2, uint64(d.Action))
	m.num(3, uint64(d.StartTS))
	m.num(4, uint64(d.SwitchTS))
	m.num(5, uint64(d.FinishedTS))
	m.num(6, uint64(d.SchemaVersion))
	m.text(7, d.Query)
	m.text(8, d.Schema)
	m.num(9, d.SQLMode)
	m.text(10, d.Charset)
	m.text(11, d.Collation)
	m.text(12, d.ZoneName)
	m.signed(13, d.ZoneOffset)
	if d.DatabaseBefore != nil {
		m.eachBytes(14, appendDatabase(nil, d.DatabaseBefore))
	}
	if d.DatabaseAfter != nil {
		m.eachBytes(15, appendDatabase(nil, d.DatabaseAfter))
	}
	for _, t := range d.Tables {
		var inner message
		if t.Before != nil {
			inner.eachBytes(1, appendTable(nil, t.Before))
		}
		if t.After != nil {
			inner.eachBytes(2, appendTable(nil, t.After))
		}
		m.eachBytes(16, inner)
	}
	for _, c := range d.Conversions {
		var inner message
		inner.num(1, uint64(c.TableID))
		inner.num(2, uint64(c.FromID))
		inner.num(3, uint64(c.ToID))
		inner.text(4, c.Name)
		m.eachBytes(17, inner)
	}
	m.flag(18, d.WithValidation)
	m.text(19, d.Partition)
	m.text(20, d.BDRRole)
	m.num(21, d.WriteSource)
	return m
}

func parseDDL(b []byte, d *event.DDL) error {
	return fields(b, func(f field) (err error) {
		switch f.id {
		case 1:
			d.JobID = int64(f.num)
		case 2:
			d.Action = event.Action(f.num)
		case 3:
			d.StartTS = f.ts()
		case 4:
			d.SwitchTS = f.ts()
		case 5:
			d.FinishedTS = f.ts()
		case 6:
			d.SchemaVersion = int64(f.num)
		case 7:
			d.Query = f.text()
		case 8:
			d.Schema = f.text()
		case 9:
			d.SQLMode = f.num
		case 10:
			d.Charset = f.text()
		case 11:
			d.Collation = f.text()
		case 12:
			d.ZoneName = f.text()
		case 13:
			d.ZoneOffset = f.signed()
		default:
			return parseDDLParts(f, d)
		}
		return nil
	})
}

func parseDDLParts(f field, d *event.DDL) (err error) {
	switch f.id {
	case 14:
		d.DatabaseBefore, err = parseDatabase(f.bytes)
	case 15:
		d.DatabaseAfter, err = parseDatabase(f.bytes)
	case 16:
		var change event.TableChange
		err = fields(f.bytes, func(f field) error {
			switch f.id {
			case 1:
				change.Before = &event.Table{}
				return parseTable(f.bytes, change.Before)
			case 2:
				change.After = &event.Table{}
				return parseTable(f.bytes, change.After)
			}
			return nil
		})
		d.Tables = append(d.Tables, change)
	case 17:
		var c event.Conversion
		err = fields(f.bytes, func(f field) error {
			switch f.id {
			case 1:
				c.TableID = int64(f.num)
			case 2:
				c.FromID = int64(f.num)
			case 3:
				c.ToID = int64(f.num)
			case 4:
				c.Name = f.text()
			}
			return nil
		})
		d.Conversions = append(d.Conversions, c)
	case 18:
		d.WithValidation = f.flag()
	case 19:
		d.Partition = f.text()
	case 20:
		d.BDRRole = f.text()
	case 21:
		d.WriteSource = f.num
	}
	return err
}

func appendDatabase(b []byte, db *event.Database) []byte {
	m := message(b)
	m.num(1, uint64(db.ID))
	m.text(2, db.Name)
	m.text(3, db.Charset)
	m.text(4, db.Collation)
	return m
}

func parseDatabase(b []byte) (*event.Database, error) {
	db := &event.Database{}
	return db, fields(b, func(f field) error {
		switch f.id {
		case 1:
			db.ID = int64(f.num)
		case 2:
			db.Name = f.text()
		case 3:
			db.Charset = f.text()
		case 4:
			db.Collation = f.text()
		}
		return nil
	})
}
