package mysql

import (
	"fmt"
	"time"
	_ "time/tzdata" // a server may run where no zone is installed

	"github.com/sluice-cdc/sluice/event"
)

// A zone is the time zone of the session that ran a statement upstream.
type zone struct {
	name     string // empty: offset says all
	location *time.Location
}

// zoneOf is the zone by which a job converted columns between TIMESTAMP and
// other types, nil where it converted none or ran in UTC.
func zoneOf(d *event.DDL) *zone {
	if !convertsMoments(d) {
		return nil
	}
	if d.ZoneName == "" {
		if d.ZoneOffset == 0 {
			return nil
		}
		return &zone{location: time.FixedZone("", d.ZoneOffset)}
	}
	location, err := time.LoadLocation(d.ZoneName)
	if err != nil {
		location = time.FixedZone("", d.ZoneOffset) // what TiDB itself recorded beside the name
	}
	if location.String() == "UTC" || location.String() == "Etc/UTC" {
		return nil
	}
	return &zone{name: d.ZoneName, location: location}
}

// convertsMoments tells whether a job rewrote a column from TIMESTAMP to
// another type or back.
func convertsMoments(d *event.DDL) bool {
	isMoment := func(t *event.Table, id int64) (moment, found bool) {
		if t == nil {
			return false, false
		}
		for i := range t.Columns {
			if t.Columns[i].ID == id {
				return t.Columns[i].Type == event.TypeTimestamp, true
			}
		}
		return false, false
	}
	for _, c := range d.Conversions {
		for _, t := range d.Tables {
			from, ok := isMoment(t.Before, c.FromID)
			to, ok2 := isMoment(t.After, c.ToID)
			if ok && ok2 && from != to {
				return true
			}
		}
	}
	return false
}

const timeLayout = "2006-01-02 15:04:05.999999"

// fromUTC moves the text of a TIMESTAMP from UTC to the zone. What is no
// moment, such as the zero date, stays.
func (z *zone) fromUTC(text string) string {
	at, err := time.ParseInLocation(timeLayout, text, time.UTC)
	if err != nil {
		return text
	}
	return at.In(z.location).Format(timeLayout)
}

// offsetText is ±HH:MM, as time_zone takes it.
func offsetText(seconds int) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	return fmt.Sprintf("%c%02d:%02d", sign, seconds/3600, seconds/60%60)
}
