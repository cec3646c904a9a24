package changefeed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Duration is a time span: text such as "10m" in TOML and JSON. Numbers of
// nanoseconds, as TiCDC keeps them in etcd, are read too.
type Duration time.Duration

// String is the text.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads text.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no duration: want a number with a unit, such as 30s or 10m", b)
	}
	*d = Duration(v)
	return nil
}

// UnmarshalJSON reads text or a number of nanoseconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		return d.UnmarshalText([]byte(s))
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no duration: want text such as \"10m\"", b)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) duration() time.Duration { return time.Duration(d) }
