package event

import (
	"fmt"
	"strings"
)

// parseTime reads the forms that MySQL takes for a date and time: parts between
// any punctuation, or digits without any. TIMESTAMP text is UTC. Words such as
// CURRENT_DATE have no value without a clock and are refused.
func parseTime(c *Column, text string) (Value, error) {
	s := strings.TrimSpace(text)
	if s == "" {
		return Value{}, fmt.Errorf("an empty text is no date")
	}
	parts, micros, err := splitTime(s)
	if err != nil {
		return Value{}, err
	}
	t := DateTime{Year: parts[0], Month: parts[1], Day: parts[2], Hour: parts[3], Minute: parts[4], Second: parts[5]}
	if c.Type == TypeDate || c.Type == TypeNewDate {
		t = DateTime{Year: t.Year, Month: t.Month, Day: t.Day}
		micros = 0
	}
	t.Micro = micros
	t = t.round(c.Fraction())
	if err := t.check(); err != nil {
		return Value{}, err
	}
	return TimeValue(t.Pack()), nil
}

// splitTime gives year to second and the microseconds (7th digit rounded, so
// possibly a whole second) of a date and time in text.
func splitTime(s string) (parts [6]int, micros int, err error) {
	bad := fmt.Errorf("%q is no date and time", s)
	whole, fraction, hasFraction := strings.Cut(s, ".")
	if hasFraction && strings.Count(s, ".") > 1 { // 2024.01.02
		whole, fraction = s, ""
	}
	var words []string
	if digitsOnly(whole) {
		words = splitCompact(whole)
	} else {
		words = strings.FieldsFunc(whole, func(r rune) bool { return r < '0' || r > '9' })
		if strings.Trim(whole, "0123456789-/:. T") != "" || !digitsOnly(s[:1]) || len(words) < 3 || len(words) > len(parts) {
			return parts, 0, bad
		}
	}
	if words == nil {
		return parts, 0, bad
	}
	for i, w := range words {
		if len(w) > 4 || (i > 0 && len(w) > 2) {
			return parts, 0, bad
		}
		parts[i] = number(w)
	}
	if len(words[0]) <= 2 && len(words) > 1 {
		parts[0] = fullYear(parts[0])
	}
	micros, ok := parseFraction(fraction)
	if !ok {
		return parts, 0, bad
	}
	return parts, micros, nil
}

// splitCompact cuts YYMMDD, YYYYMMDD and both with HHMMSS; "0" is the zero date.
func splitCompact(s string) []string {
	var words []string
	switch len(s) {
	case 8, 14:
		words, s = append(words, s[:4]), s[4:]
	case 6, 12:
		words, s = append(words, s[:2]), s[2:]
	default:
		if strings.Trim(s, "0") == "" {
			return []string{"0000"}
		}
		return nil
	}
	for ; s != ""; s = s[2:] {
		words = append(words, s[:2])
	}
	return words
}

// round brings the fraction to so many digits, half up, and carries upward.
// Dates with a zero part have no next day: there the carry is dropped.
func (d DateTime) round(fraction int) DateTime {
	unit := unitOf(fraction)
	micro := (d.Micro + unit/2) / unit * unit
	if micro < microPerSecond {
		d.Micro = micro
		return d
	}
	if d.Month == 0 || d.Day == 0 {
		d.Micro = microPerSecond - unit
		return d
	}
	d.Micro = 0
	if d.Second++; d.Second < 60 {
		return d
	}
	d.Second = 0
	if d.Minute++; d.Minute < 60 {
		return d
	}
	d.Minute = 0
	if d.Hour++; d.Hour < 24 {
		return d
	}
	d.Hour = 0
	if d.Day++; d.Day <= daysIn(d.Year, d.Month) {
		return d
	}
	d.Day = 1
	if d.Month++; d.Month > 12 {
		d.Year, d.Month = d.Year+1, 1
	}
	return d
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// parseDuration reads [-][days ]HH:MM[:SS][.fraction], and digits HHMMSS.
func parseDuration(c *Column, text string) (Value, error) {
	bad := fmt.Errorf("%q is no TIME", text)
	s, negative := strings.CutPrefix(strings.TrimSpace(text), "-")
	whole, fraction, _ := strings.Cut(s, ".")
	days := 0
	if before, after, ok := strings.Cut(whole, " "); ok {
		if !digitsOnly(before) || len(before) > 2 {
			return Value{}, bad
		}
		days, whole = number(before), after
	}
	words := strings.Split(whole, ":")
	if len(words) == 1 {
		if days > 0 {
			words = append(words, "0")
		} else {
			words = splitClock(whole)
		}
	}
	if len(words) == 2 {
		words = append(words, "0")
	}
	if len(words) != 3 {
		return Value{}, bad
	}
	for i, w := range words {
		if !digitsOnly(w) || len(w) > 3 || (i > 0 && number(w) > 59) {
			return Value{}, bad
		}
	}
	micros, ok := parseFraction(fraction)
	unit := unitOf(c.Fraction())
	t := ClockTime{
		Negative: negative,
		Hours:    days*24 + number(words[0]), Minutes: number(words[1]), Seconds: number(words[2]),
		Micro: (micros + unit/2) / unit * unit,
	}
	ns := t.Nanoseconds()
	if !ok || max(ns, -ns) >= (maxHours+1)*3600*microPerSecond*nanoPerMicro {
		return Value{}, bad
	}
	return DurationValue(ns), nil
}

// splitClock cuts HHMMSS from the right.
func splitClock(s string) []string {
	if !digitsOnly(s) || len(s) > 7 {
		return nil
	}
	s = strings.Repeat("0", max(0, 6-len(s))) + s
	n := len(s)
	return []string{s[:n-4], s[n-4 : n-2], s[n-2:]}
}

// parseFraction is the microseconds of the digits after the point; the seventh
// digit rounds.
func parseFraction(s string) (micros int, ok bool) {
	if s == "" {
		return 0, true
	}
	if !digitsOnly(s) {
		return 0, false
	}
	for i := range maxFraction {
		micros *= 10
		if i < len(s) {
			micros += int(s[i] - '0')
		}
	}
	if len(s) > maxFraction && s[maxFraction] >= '5' {
		micros++
	}
	return micros, true
}

func parseYear(text string) (Value, error) {
	s := strings.TrimSpace(text)
	if !digitsOnly(s) || len(s) > 4 || len(s) == 3 {
		return Value{}, fmt.Errorf("%q is no YEAR", text)
	}
	year := number(s)
	if len(s) <= 2 && year > 0 {
		year = fullYear(year)
	}
	if year != 0 && (year < 1901 || year > 2155) {
		return Value{}, fmt.Errorf("%q is no YEAR", text)
	}
	return IntValue(int64(year)), nil
}

// fullYear gives a year of two digits its century.
func fullYear(year int) int {
	if year < 70 {
		return 2000 + year
	}
	return 1900 + year
}

func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// number is the value of a few digits.
func number(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}
