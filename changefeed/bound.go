package changefeed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/filter"
)

// bound is what a key's value has to be: how the documents say it, and the check.
type bound struct {
	says string
	ok   func(v any) bool
}

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	case Duration:
		return float64(v)
	}
	return math.NaN()
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case URI:
		return v.Reveal()
	case Secret:
		return v.Reveal()
	}
	return ""
}

func from(low float64) bound {
	return bound{fmt.Sprintf("from %v", low), func(v any) bool { return number(v) >= low }}
}

func between(low, high float64) bound {
	return bound{fmt.Sprintf("%v to %v", low, high), func(v any) bool { return number(v) >= low && number(v) <= high }}
}

func above(low, high float64) bound {
	return bound{fmt.Sprintf("above %v, to %v", low, high), func(v any) bool { return number(v) > low && number(v) <= high }}
}

func lasting(low time.Duration) bound {
	return bound{"from " + short(low), func(v any) bool { return number(v) >= float64(low) }}
}

func lastingOrNothing(low time.Duration) bound {
	return bound{"nothing, or from " + short(low), func(v any) bool { return number(v) == 0 || number(v) >= float64(low) }}
}

func lastingBetween(low, high time.Duration) bound {
	return bound{short(low) + " to " + short(high), func(v any) bool { return number(v) >= float64(low) && number(v) <= float64(high) }}
}

// short is a duration without the zeros at its end.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func oneOf(words ...string) bound {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" {
			quoted[i] = "nothing"
		}
	}
	return bound{strings.Join(quoted, ", "), func(v any) bool { return slices.Contains(words, text(v)) }}
}

func numbers(all ...float64) bound {
	return bound{strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]"), func(v any) bool { return slices.Contains(all, number(v)) }}
}

func characters(low, high int) bound {
	return bound{fmt.Sprintf("%d to %d characters", low, high), func(v any) bool {
		n := utf8.RuneCountInString(text(v))
		return n >= low && n <= high
	}}
}

// rules are table rules, at least one.
func rules() bound {
	return bound{"table rules, at least one", func(v any) bool {
		list, ok := v.([]string)
		if !ok || len(list) == 0 {
			return false
		}
		_, err := filter.New(filter.Config{Rules: list})
		return err == nil
	}}
}

func some() bound {
	return bound{"at least one", func(v any) bool {
		list, ok := v.([]string)
		return ok && len(list) > 0
	}}
}

// scheme is an address with one of some schemes, or nothing.
func scheme(schemes ...string) bound {
	return bound{"nothing, or " + strings.Join(schemes, ", ") + " and ://", func(v any) bool {
		s := text(v)
		found, _, ok := strings.Cut(s, "://")
		return s == "" || ok && slices.Contains(schemes, found)
	}}
}
