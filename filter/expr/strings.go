package expr

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/event"
)

// ofText is a function of one string. What counts bytes is refused for charsets
// whose bytes are not those that TiDB stores.
func ofText(f func([]byte) datum) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		x, err := args[0].asText()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(x.collation, "gb") {
			return nil, fmt.Errorf("%s is in %s: its length in bytes is not known here", args[0].text, x.collation)
		}
		return derived(formNumber, func(row event.Image) (datum, error) {
			d, err := x.eval(row)
			if err != nil || d.isNull() {
				return datum{}, err
			}
			return f(d.text), nil
		}, args[0]), nil
	}
}

// changed is a function from a string to another one in the same collation.
func changed(f func([]byte) []byte) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		x, err := args[0].asText()
		if err != nil {
			return nil, err
		}
		n := derived(formText, func(row event.Image) (datum, error) {
			d, err := x.eval(row)
			if err != nil || d.isNull() || x.collation == "binary" { // bytes have no case
				d.member = false
				return d, err
			}
			return textDatum(f(d.text)), nil
		}, args[0])
		n.collation, n.rank = x.collation, x.rank
		return n, nil
	}
}

func concat(_ *compiler, args []*node) (*node, error) {
	list := make([]node, len(args))
	out := &node{form: formNull}
	for i, a := range args {
		x, err := a.asText()
		if err != nil {
			return nil, err
		}
		list[i] = x
		name, rank, err := together(out, &x)
		if err != nil {
			return nil, err
		}
		out.form, out.collation, out.rank, out.text = formText, name, rank, a.text
	}
	n := derived(formText, func(row event.Image) (datum, error) {
		var all []byte
		for _, x := range list {
			d, err := x.eval(row)
			if err != nil || d.isNull() {
				return datum{}, err
			}
			all = append(all, d.text...)
		}
		return textDatum(all), nil
	}, args...)
	n.collation, n.rank = out.collation, out.rank
	return n, nil
}

// cutter makes a function that takes some characters out of a string. The
// numbers behind the string are whole.
func cutter(args []*node, cut func(s []rune, numbers []int) []rune) (*node, error) {
	x, err := args[0].asText()
	if err != nil {
		return nil, err
	}
	numbers := make([]evaluator, len(args)-1)
	for i, a := range args[1:] {
		if numbers[i], err = a.number(); err != nil {
			return nil, err
		}
	}
	split, join := runes(x.collation), func(r []rune) []byte { return []byte(string(r)) }
	if x.collation == "binary" {
		join = func(r []rune) []byte {
			var out bytes.Buffer
			for _, b := range r {
				out.WriteByte(byte(b))
			}
			return out.Bytes()
		}
	}
	n := derived(formText, func(row event.Image) (datum, error) {
		d, err := x.eval(row)
		if err != nil || d.isNull() {
			return datum{}, err
		}
		at := make([]int, len(numbers))
		for i, eval := range numbers {
			v, err := eval(row)
			if err != nil || v.isNull() {
				return datum{}, err
			}
			whole, ok := integerOf(v)
			if !ok {
				return datum{}, fmt.Errorf("%s: want a whole number", args[i+1].text)
			}
			at[i] = int(max(min(whole, 1<<31), -1<<31)) // beyond any string
		}
		return textDatum(join(cut(split(d.text), at))), nil
	}, args...)
	n.collation, n.rank = x.collation, x.rank
	return n, nil
}

func leftOrRight(left bool) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		return cutter(args, func(s []rune, numbers []int) []rune {
			n := min(max(numbers[0], 0), len(s))
			if left {
				return s[:n]
			}
			return s[len(s)-n:]
		})
	}
}

// substring counts from 1, or from the end with a negative position.
func substring(_ *compiler, args []*node) (*node, error) {
	return cutter(args, func(s []rune, numbers []int) []rune {
		from := numbers[0] - 1
		if numbers[0] < 0 {
			from = len(s) + numbers[0]
		}
		if numbers[0] == 0 || from < 0 || from >= len(s) {
			return nil
		}
		to := len(s)
		if len(numbers) == 2 {
			to = min(len(s), from+max(numbers[1], 0))
		}
		return s[from:to]
	})
}

// asMoment is the node where a date is wanted: one, or a constant that is one.
func asMoment(n *node) (*node, error) {
	out := *n
	if out.isMoment() || out.form == formNull {
		return &out, nil
	}
	if err := meetInTime(&node{form: formMoment, text: phrase{name: "what is wanted"}}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

func datePart(of func(event.DateTime) int) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		x, err := asMoment(args[0])
		if err != nil {
			return nil, err
		}
		return derived(formNumber, func(row event.Image) (datum, error) {
			d, err := x.eval(row)
			if err != nil || d.isNull() {
				return datum{}, err
			}
			return intDatum(int64(of(event.TimeValue(d.num).DateTime()))), nil
		}, args[0]), nil
	}
}

func clockPart(of func(hour, minute, second int) int) func(*compiler, []*node) (*node, error) {
	return func(_ *compiler, args []*node) (*node, error) {
		x := args[0]
		if x.form != formClock {
			var err error
			if x, err = asMoment(x); err != nil {
				return nil, err
			}
		}
		return derived(formNumber, func(row event.Image) (datum, error) {
			d, err := x.eval(row)
			switch {
			case err != nil || d.isNull():
				return datum{}, err
			case d.kind == clock:
				t := event.DurationValue(int64(d.num)).ClockTime()
				return intDatum(int64(of(t.Hours, t.Minutes, t.Seconds))), nil
			}
			t := event.TimeValue(d.num).DateTime()
			return intDatum(int64(of(t.Hour, t.Minute, t.Second))), nil
		}, args[0]), nil
	}
}

func dateOf(_ *compiler, args []*node) (*node, error) {
	x, err := asMoment(args[0])
	if err != nil {
		return nil, err
	}
	n := derived(formDate, func(row event.Image) (datum, error) {
		d, err := x.eval(row)
		if err != nil || d.isNull() {
			return datum{}, err
		}
		t := event.TimeValue(d.num).DateTime()
		return datum{kind: moment, day: true, num: event.DateTime{Year: t.Year, Month: t.Month, Day: t.Day}.Pack()}, nil
	}, args[0])
	n.column = &event.Column{Type: event.TypeDate}
	return n, nil
}
