package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a server may run where no zone is installed

	"github.com/sluice-cdc/sluice/event"
)

// A zone is the time zone of the session that ran a statement upstream.
type zone struct {
	name     string // empty: the location is an offset
	location *time.Location
}

// A moment is a column that a job converted from TIMESTAMP, which is a moment,
// to a type that is not, or back.
type moment struct{ from, to *event.Column }

// momentsOf are the columns whose conversion goes by the session's zone, and
// that zone; nil where there are none or the session was in UTC.
func momentsOf(d *event.DDL) (*zone, []moment) {
	var out []moment
	for _, c := range d.Conversions {
		for _, t := range d.Tables {
			if t.Before == nil || t.After == nil {
				continue
			}
			from, to := columnByID(t.Before, c.FromID), columnByID(t.After, c.ToID)
			if from != nil && to != nil && (from.Type == event.TypeTimestamp) != (to.Type == event.TypeTimestamp) {
				out = append(out, moment{from, to})
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	z := &zone{name: d.ZoneName, location: time.FixedZone("", d.ZoneOffset)}
	if z.name != "" {
		// TiDB records the offset beside the name: it is all there is to say of a
		// name that nobody knows.
		if location, err := time.LoadLocation(z.name); err == nil {
			z.location = location
		}
	}
	if _, isOffset := time.Unix(0, 0).In(z.location).Zone(); isOffset == 0 && slices.Contains([]string{"", "UTC", "Etc/UTC"}, z.location.String()) {
		return nil, nil
	}
	return z, out
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

// A stretch is a time during which a zone has one offset. Both ends are given
// in the terms in which the column stands: UTC or the zone's wall clock.
type stretch struct {
	until  time.Time // exclusive; zero for the last
	offset int       // seconds east of UTC
}

// stretches are the offsets of the zone between two moments (utc), or between
// two readings of its wall clock.
func (z *zone) stretches(from, to time.Time, utc bool) []stretch {
	at := from
	if !utc {
		at = z.onClock(from)
	}
	var out []stretch
	for {
		_, offset := at.In(z.location).Zone()
		_, end := at.In(z.location).ZoneBounds()
		if end.IsZero() {
			return append(out, stretch{offset: offset})
		}
		until := end.UTC()
		if !utc {
			until = z.clockEnd(end, offset)
		}
		if until.After(to) {
			return append(out, stretch{offset: offset})
		}
		out = append(out, stretch{until: until, offset: offset})
		at = end
	}
}

// onClock is the moment at which the zone's clock shows that time.
func (z *zone) onClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), z.location)
}

// clockEnd is the reading of the clock, as if in UTC, from which on the offset
// after a transition counts. A clock that is put back shows an hour twice: the
// first time is meant, as everywhere in Go.
func (z *zone) clockEnd(transition time.Time, before int) time.Time {
	last := transition.UTC().Add(time.Duration(before) * time.Second)
	_, after := transition.In(z.location).Zone()
	if after >= before {
		return last
	}
	first := transition.UTC().Add(time.Duration(after) * time.Second)
	if _, meant := z.onClock(first).Zone(); meant == after {
		return first
	}
	return last
}

// inZone runs a statement under the zone that ruled it upstream, and goes back
// to UTC. A server without the zone's name gets its offset; where the column's
// values lie in times of several offsets, they are moved first.
func (s *Sink) inZone(ctx context.Context, d *event.DDL, script *script) error {
	z, name := script.zone, script.zone.name
	if name == "" {
		_, offset := time.Unix(0, 0).In(z.location).Zone()
		name = offsetText(offset)
	}
	err := s.session.exec(ctx, 0, "SET SESSION time_zone = "+quoted(name))
	if e := serverError(err); e != nil && e.Number == errUnknownZone {
		for _, m := range script.moments {
			if err := s.moveMoments(ctx, d, z, m); err != nil {
				return err
			}
		}
		return s.session.exec(ctx, 0, script.inUTC)
	}
	if err != nil {
		return err
	}
	err = s.execMain(ctx, script)
	if back := s.session.exec(ctx, 0, "SET SESSION time_zone = "+quoted(utc)); back != nil {
		s.session.lose() // its zone is not known: no row may be written by it
	}
	return err
}

// movedComment marks a column that holds a zone's wall clock, or UTC, as a
// DATETIME already: a DDL that is delivered again must not move it twice.
const movedComment = "sluice: moved between time zones"

// moveMoments makes the column a DATETIME of what it is to become: the zone's
// wall clock where a TIMESTAMP is converted, UTC where one is made. The job's
// own statement, run in UTC, then has nothing left to convert but the type.
//
//  1. a new column takes the moved values; the old one stays as it is,
//  2. one ALTER puts the new in the place of the old, indexes included.
//
// A crash before 2 begins anew; after it the comment says that it is done.
func (s *Sink) moveMoments(ctx context.Context, d *event.DDL, z *zone, m moment) error {
	before := d.Tables[0].Before
	table, name := qualified(before.Schema, before.Name), ident(m.from.Name)
	var dataType, comment string
	conn, err := s.session.use(ctx)
	if err != nil {
		return err
	}
	row := conn.QueryRowContext(ctx, "SELECT DATA_TYPE, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "+
		quoted(before.Schema)+" AND TABLE_NAME = "+quoted(before.Name)+" AND COLUMN_NAME = "+quoted(m.from.Name))
	switch err := row.Scan(&dataType, &comment); {
	case err == sql.ErrNoRows:
		return nil // renamed: the statement has run
	case err != nil:
		return err
	}
	fromMoment := m.from.Type == event.TypeTimestamp
	if comment == movedComment || fromMoment != (dataType == "timestamp") {
		return nil
	}
	value, err := s.movedValue(ctx, z, table, name, fromMoment)
	if err != nil {
		return err
	}
	const fresh = "`_sluice_moved`"
	err = s.session.exec(ctx, 0, "ALTER TABLE "+table+" DROP COLUMN "+fresh) // of an attempt before
	if e := serverError(err); err != nil && (e == nil || e.Number != errCantDrop) {
		return err
	}
	for _, text := range []string{
		"ALTER TABLE " + table + " ADD COLUMN " + fresh + " DATETIME(6) NULL",
		"UPDATE " + table + " SET " + fresh + " = " + value + keepMoments(before),
		"ALTER TABLE " + table + movedClauses(before, m, fresh, s.session.dialect),
	} {
		if err := s.session.exec(ctx, 0, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// movedValue is the expression that moves a column's values by the zone's
// offsets.
func (s *Sink) movedValue(ctx context.Context, z *zone, table, name string, fromMoment bool) (string, error) {
	var low, high sql.NullString
	conn, err := s.session.use(ctx)
	if err != nil {
		return "", err
	}
	as := "CAST(" + name + " AS DATETIME(6))"
	err = conn.QueryRowContext(ctx, "SELECT MIN("+as+"), MAX("+as+") FROM "+table+" WHERE "+as+" > '0001-01-01'").Scan(&low, &high)
	if err != nil || !low.Valid {
		return as, err
	}
	from, err := time.Parse(timeLayout, low.String)
	if err != nil {
		return "", err
	}
	to, err := time.Parse(timeLayout, high.String)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("CASE WHEN " + as + " < '0001-01-01' THEN " + as)
	for _, st := range z.stretches(from, to, fromMoment) {
		shift := st.offset
		if !fromMoment {
			shift = -shift
		}
		if st.until.IsZero() {
			b.WriteString(" ELSE")
		} else {
			b.WriteString(" WHEN " + as + " < " + quoted(st.until.Format(timeLayout)) + " THEN")
		}
		fmt.Fprintf(&b, " %s + INTERVAL %d SECOND", as, shift)
	}
	return b.String() + " END", nil
}

// movedClauses puts the fresh column in the place of the old one. Dropping a
// column takes it out of its indexes, so they are made again.
func movedClauses(t *event.Table, m moment, fresh string, d Dialect) string {
	var drop, add []string
	at := t.Column(m.from.Name)
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if !slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool { return p.Column == at }) ||
			slices.ContainsFunc(x.Parts, func(p event.IndexPart) bool { return p.Column < 0 }) {
			continue
		}
		drop, add = append(drop, dropIndexText(x, staysUnique(x, d))), append(add, addIndexText(t, x, staysUnique(x, d)))
	}
	digits := 6
	switch kind := m.to.ValueKind(); {
	case kind == event.Int || kind == event.Uint:
		digits = 0 // rounded here: a number made of it would be cut
	case m.from.Type == event.TypeTimestamp:
		digits = m.from.Fraction() // a string made of it shows as many
	}
	null := "NULL"
	if m.from.NotNull() {
		null = "NOT NULL"
	}
	place := "FIRST"
	if at > 0 {
		place = "AFTER " + ident(t.Columns[at-1].Name)
	}
	clauses := append(drop, "DROP COLUMN "+ident(m.from.Name),
		fmt.Sprintf("CHANGE COLUMN %s %s DATETIME(%d) %s COMMENT %s %s", fresh, ident(m.from.Name), digits, null, quoted(movedComment), place))
	return " " + strings.Join(append(clauses, add...), ", ")
}
