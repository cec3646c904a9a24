package event

import "fmt"

const (
	maxFraction    = 6
	microPerSecond = 1_000_000
	nanoPerMicro   = 1_000
	// maxHours is the largest hour of a TIME.
	maxHours = 838
)

// DateTime is a DATE, DATETIME or TIMESTAMP in parts. Month and Day may be
// zero, and so may all of it: MySQL's zero dates.
type DateTime struct {
	Year, Month, Day     int
	Hour, Minute, Second int
	Micro                int
}

// DateTime takes a Time apart.
func (v Value) DateTime() DateTime { return unpackTime(v.num) }

// Pack is the Time's integer, as TimeValue takes it.
func (d DateTime) Pack() uint64 {
	date := uint64(d.Year*13+d.Month)<<5 | uint64(d.Day)
	clock := uint64(d.Hour)<<12 | uint64(d.Minute)<<6 | uint64(d.Second)
	return (date<<17|clock)<<24 | uint64(d.Micro)
}

// IsZero tells whether it is the zero date at midnight.
func (d DateTime) IsZero() bool { return d == DateTime{} }

func unpackTime(packed uint64) DateTime {
	date, clock := packed>>41, packed>>24&(1<<17-1)
	yearMonth := date >> 5
	return DateTime{
		Year: int(yearMonth / 13), Month: int(yearMonth % 13), Day: int(date & 31),
		Hour: int(clock >> 12), Minute: int(clock >> 6 & 63), Second: int(clock & 63),
		Micro: int(packed & (1<<24 - 1)),
	}
}

// check refuses what no calendar and no clock shows. Day 31 is right for every
// month: ALLOW_INVALID_DATES lets it in.
func (d DateTime) check() error {
	if d.Year > 9999 || d.Month > 12 || d.Day > 31 || d.Hour > 23 || d.Minute > 59 || d.Second > 59 || d.Micro >= microPerSecond {
		return fmt.Errorf("%d-%d-%d %d:%d:%d.%d is no date and time", d.Year, d.Month, d.Day, d.Hour, d.Minute, d.Second, d.Micro)
	}
	return nil
}

// CheckTime tells whether packed is a date and time.
func CheckTime(packed uint64) error {
	return unpackTime(packed).check()
}

// ClockTime is a TIME in parts; Hours may have three digits.
type ClockTime struct {
	Negative                       bool
	Hours, Minutes, Seconds, Micro int
}

// ClockTime takes a Duration apart; what is below a microsecond is cut.
func (v Value) ClockTime() ClockTime {
	ns := uint64(v.Int())
	negative := v.Int() < 0
	if negative {
		ns = -ns
	}
	micros := ns / nanoPerMicro
	seconds := micros / microPerSecond
	return ClockTime{
		Negative: negative,
		Hours:    int(seconds / 3600), Minutes: int(seconds / 60 % 60), Seconds: int(seconds % 60),
		Micro: int(micros % microPerSecond),
	}
}

// Nanoseconds is what DurationValue takes.
func (t ClockTime) Nanoseconds() int64 {
	seconds := int64(t.Hours)*3600 + int64(t.Minutes)*60 + int64(t.Seconds)
	ns := (seconds*microPerSecond + int64(t.Micro)) * nanoPerMicro
	if t.Negative {
		return -ns
	}
	return ns
}

func appendTime(dst []byte, packed uint64, c *Column) []byte {
	t := unpackTime(packed)
	dst = appendDate(dst, t)
	if c.Type == TypeDate || c.Type == TypeNewDate {
		return dst
	}
	dst = append(dst, ' ')
	return appendClock(dst, t.Hour, t.Minute, t.Second, t.Micro, c.Fraction())
}

func appendDate(dst []byte, t DateTime) []byte {
	dst = appendPadded(dst, uint64(t.Year), 4)
	dst = append(dst, '-')
	dst = appendPadded(dst, uint64(t.Month), 2)
	dst = append(dst, '-')
	return appendPadded(dst, uint64(t.Day), 2)
}

// appendClock appends HH:MM:SS and the first digits of the fraction: digits
// that the type does not have are cut, as TiDB does, never rounded.
func appendClock(dst []byte, hours, minutes, seconds, micro, fraction int) []byte {
	dst = appendPadded(dst, uint64(hours), 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, uint64(minutes), 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, uint64(seconds), 2)
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	return appendPadded(dst, uint64(micro/unitOf(fraction)), fraction)
}

func appendDuration(dst []byte, ns int64, fraction int) []byte {
	t := DurationValue(ns).ClockTime()
	if t.Negative {
		dst = append(dst, '-')
	}
	return appendClock(dst, t.Hours, t.Minutes, t.Seconds, t.Micro, fraction)
}

// unitOf is how many microseconds the last of so many fraction digits counts.
func unitOf(fraction int) int {
	unit := 1
	for range maxFraction - fraction {
		unit *= 10
	}
	return unit
}
