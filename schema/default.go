package schema

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/tso"
)

// defaultText is the DEFAULT clause as text: a literal without quotes, a word
// such as CURRENT_TIMESTAMP, an expression, or for BIT b'…'. TIMESTAMP literals
// are in UTC (columns of version 0: in the servers' zone).
func (c *ColumnInfo) defaultText() *string {
	var s string
	switch {
	case event.Type(c.Type.Tp) == event.TypeBit && len(c.DefaultBit) > 0:
		s = fmt.Sprintf("b'%b'", bigEndian(c.DefaultBit))
	case c.Default.Set:
		s = c.Default.Text
	default:
		return nil
	}
	return &s
}

// fillAbsent sets what a row has in a column that it does not hold: the origin
// default, which is the default at the time of ADD COLUMN and not today's; else
// NULL; else the zero of the type. In a virtual generated column every row
// holds nothing, so its value stays missing.
func fillAbsent(col *event.Column, c *ColumnInfo, updateTS uint64, zone *time.Location) error {
	switch {
	case col.Generated == event.Virtual:
		return nil
	case c.OriginDefault.Set || len(c.OriginDefaultBit) > 0:
		v, err := originDefault(col, c, updateTS, zone)
		if err != nil {
			return cdcerr.SchemaSnapshot.Wrap(err, "column %s (id %d): origin default %q", col.Name, col.ID, c.OriginDefault.Text)
		}
		col.Absent, col.HasOrigin = v, true
	case !col.NotNull():
		col.Absent = event.NullValue()
	default:
		col.Absent = col.Zero()
	}
	return nil
}

// NeedsZone tells whether the table has a default whose moment depends on the
// servers' zone: a TIMESTAMP column of version 0, made by a TiDB before 2.1.
func (t *TableInfo) NeedsZone() bool {
	return slices.ContainsFunc(t.Columns, func(c ColumnInfo) bool {
		return c.Version == 0 && event.Type(c.Type.Tp) == event.TypeTimestamp && c.OriginDefault.Set
	})
}

// originDefault casts the text that ADD COLUMN left to the column's present type.
func originDefault(col *event.Column, c *ColumnInfo, updateTS uint64, zone *time.Location) (event.Value, error) {
	if col.Type == event.TypeBit && len(c.OriginDefaultBit) > 0 {
		return event.BitValue(bigEndian(c.OriginDefaultBit)), nil
	}
	text := c.OriginDefault.Text
	if isMoment(col, text) {
		// TiDB puts the moment of ADD COLUMN there for DATETIME and TIMESTAMP,
		// but leaves the word for DATE and then shows the date of reading. The
		// table's last change is the nearest moment that the metadata knows.
		return event.ParseText(col, momentText(col, tso.TS(updateTS).Time()))
	}
	if col.Type == event.TypeTimestamp && c.Version == 0 && zone != nil {
		text = toUTC(text, zone)
	}
	return event.ParseText(col, text)
}

// isMoment tells whether the text of a time column is a word and not a time.
func isMoment(col *event.Column, text string) bool {
	switch col.Type {
	case event.TypeDate, event.TypeDatetime, event.TypeTimestamp:
		word := strings.ToUpper(text)
		return strings.HasPrefix(word, "CURRENT_DATE") || strings.HasPrefix(word, "CURRENT_TIMESTAMP")
	}
	return false
}

func momentText(col *event.Column, at time.Time) string {
	if col.Type == event.TypeDate {
		return at.Format("2006-01-02")
	}
	return at.Format("2006-01-02 15:04:05.000000")
}

// toUTC moves a TIMESTAMP text from zone to UTC. What is no moment (the zero
// timestamp) stays as it is.
func toUTC(text string, zone *time.Location) string {
	const layout = "2006-01-02 15:04:05.999999"
	at, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return text
	}
	return at.UTC().Format(layout)
}

func bigEndian(b []byte) uint64 {
	var v uint64
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}
