package catalog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// moment is a date and time in parts, any of which may be 0.
type moment struct {
	year, month, day, hour, minute, second int
	micro                                  int
}

// fitTime is the text under which TiDB keeps a literal as the default of a
// DATE, DATETIME or TIMESTAMP: whole, and of a TIMESTAMP in UTC.
func (p *planner) fitTime(t *FieldType, v constant) (string, error) {
	m, err := parseMoment(v.text)
	if err != nil {
		return "", err
	}
	if p.badDay(m) {
		return "", refuse(errBadDefault, "no date: '%s'", v.text)
	}
	m = m.round(max(t.Decimal, 0))
	if t.Tp == mysql.TypeTimestamp && !m.zero() {
		at := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, m.micro*1000, p.session.Zone).UTC()
		m = momentOf(at)
	}
	return m.text(t), nil
}

// badDay tells whether the session's SQL mode refuses the day.
func (p *planner) badDay(m moment) bool {
	last := time.Date(max(m.year, 1), time.Month(m.month+1), 0, 0, 0, 0, 0, time.UTC).Day()
	switch {
	case m.zero():
		return p.strict() && p.session.has(mysql.ModeNoZeroDate)
	case m.month == 0 || m.day == 0:
		return p.strict() && p.session.has(mysql.ModeNoZeroInDate)
	}
	return m.day > last && !p.session.has(mysql.ModeAllowInvalidDates)
}

func (m moment) zero() bool { return m == moment{} }

func momentOf(t time.Time) moment {
	return moment{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond() / 1000}
}

// text prints the moment as a value of the type.
func (m moment) text(t *FieldType) string {
	date := fmt.Sprintf("%04d-%02d-%02d", m.year, m.month, m.day)
	if t.Tp == mysql.TypeDate {
		return date
	}
	return fmt.Sprintf("%s %02d:%02d:%02d%s", date, m.hour, m.minute, m.second, fractionText(m.micro, t.Decimal))
}

func fractionText(micro, digits int) string {
	if digits <= 0 {
		return ""
	}
	return "." + fmt.Sprintf("%06d", micro)[:digits]
}

// round cuts the moment to so many digits of a second, as TiDB rounds values
// that it is given. A moment that is no day of the calendar is only cut.
func (m moment) round(digits int) moment {
	unit := 1
	for range 6 - digits {
		unit *= 10
	}
	rest := m.micro % unit
	m.micro -= rest
	if rest*2 < unit || unit == 1 || m.month == 0 || m.day == 0 {
		return m
	}
	at := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, (m.micro+unit)*1000, time.UTC)
	return momentOf(at)
}

// parseMoment reads a date with or without a time, in any of the forms that
// MySQL reads: with separators, or as one number.
func parseMoment(s string) (moment, error) {
	s = strings.TrimSpace(s)
	body, frac, _ := strings.Cut(s, ".")
	var parts []string
	if strings.Trim(body, "0123456789") == "" {
		var err error
		if parts, err = splitDigits(body); err != nil {
			return moment{}, err
		}
	} else {
		parts = strings.FieldsFunc(body, func(r rune) bool { return r < '0' || r > '9' })
	}
	if len(parts) < 3 || len(parts) > 6 {
		return moment{}, refuse(errBadDefault, "no date: '%s'", s)
	}
	var n [6]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil {
			return moment{}, err
		}
		n[i] = v
	}
	if len(parts[0]) == 2 {
		n[0] += 1900
		if n[0] < 1970 {
			n[0] += 100
		}
	}
	micro, err := strconv.Atoi((frac + "000000")[:6])
	if err != nil {
		return moment{}, err
	}
	m := moment{n[0], n[1], n[2], n[3], n[4], n[5], micro}
	if m.month > 12 || m.day > 31 || m.hour > 23 || m.minute > 59 || m.second > 59 {
		return moment{}, refuse(errBadDefault, "no date: '%s'", s)
	}
	return m, nil
}

// splitDigits cuts a number into the parts of a date.
func splitDigits(s string) ([]string, error) {
	widths := map[int][]int{
		14: {4, 2, 2, 2, 2, 2}, 12: {2, 2, 2, 2, 2, 2}, 8: {4, 2, 2}, 6: {2, 2, 2},
	}
	if s == "0" {
		s = "00000000"
	}
	w, ok := widths[len(s)]
	if !ok {
		return nil, refuse(errBadDefault, "no date: '%s'", s)
	}
	var out []string
	for _, n := range w {
		out = append(out, s[:n])
		s = s[n:]
	}
	return out, nil
}

// fitDuration is the text of a TIME default.
func fitDuration(s string, digits int) (string, error) {
	rest, negative := strings.CutPrefix(strings.TrimSpace(s), "-")
	body, frac, _ := strings.Cut(rest, ".")
	days := 0
	if d, after, ok := strings.Cut(body, " "); ok {
		n, err := strconv.Atoi(d)
		if err != nil {
			return "", err
		}
		days, body = n, after
	}
	var n [3]int
	parts := strings.Split(body, ":")
	if len(parts) == 1 {
		v, err := strconv.Atoi(body)
		if err != nil {
			return "", err
		}
		n = [3]int{v / 10000, v / 100 % 100, v % 100}
	} else {
		for i, p := range parts {
			v, err := strconv.Atoi(p)
			if err != nil || i > 2 {
				return "", refuse(errBadDefault, "no time: '%s'", s)
			}
			n[i] = v
		}
	}
	micro, err := strconv.Atoi((frac + "000000")[:6])
	if err != nil {
		return "", err
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return fmt.Sprintf("%s%02d:%02d:%02d%s", sign, n[0]+24*days, n[1], n[2], fractionText(micro, digits)), nil
}
